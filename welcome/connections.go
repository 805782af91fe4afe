package main

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	// maxConnections bounds the open connections. Each takes up to 60 KiB, and receiveBuffer and sendBuffer
	// in the kernel. All together stay below the memory limit that the chart sets, whatever the clients do.
	maxConnections = 512
	// receiveBuffer and sendBuffer are half of what the kernel allocates, and charges to the pod. A request
	// and an answer fit in.
	receiveBuffer, sendBuffer = 8 << 10, 8 << 10
	// memoryTarget is the heap size from which garbage is collected more often.
	memoryTarget = 40 << 20
	// grace is how long a connection is safe after its last change. If the client has sent something that the
	// server has not read yet, the server is the slow one, and the connection is safe for patience.
	grace, patience = 50 * time.Millisecond, 2 * time.Second
	// pause is how long to wait after no connection could be closed.
	pause = 10 * time.Millisecond
)

// connections bounds the open connections. A new one is always let in; in exchange, the one is closed that
// has not changed for longest, whether it is idle, slow to send or slow to read. If new ones had to wait
// instead, anybody who holds connections and does nothing would shut out everybody, including the kubelet's
// probes.
type connections struct {
	left chan struct{} // holds one element after a connection was closed

	mu    sync.Mutex
	open  int
	order list.List // of *lasting; the one that changed last is at the end
	at    map[net.Conn]*list.Element
}

// lasting is a connection with the time of its last change of state.
type lasting struct {
	conn  net.Conn
	since time.Time
}

func newConnections() *connections {
	return &connections{left: make(chan struct{}, 1), at: map[net.Conn]*list.Element{}}
}

// changed is called by the server at each change of state.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch element := c.at[conn]; {
	case state == http.StateNew:
		c.open++
		c.at[conn] = c.order.PushBack(&lasting{conn, time.Now()})
	case state == http.StateClosed:
		c.open--
		c.remove(conn)
		select {
		case c.left <- struct{}{}:
		default:
		}
	case element != nil: // it was not closed by closeLongest
		element.Value.(*lasting).since = time.Now()
		c.order.MoveToBack(element)
	}
}

func (c *connections) remove(conn net.Conn) {
	if element := c.at[conn]; element != nil {
		c.order.Remove(element)
		delete(c.at, conn)
	}
}

// makeRoom waits until there is room for one more connection.
func (c *connections) makeRoom() {
	for next := (time.Time{}); c.count() >= maxConnections; {
		if now := time.Now(); now.After(next) && !c.closeLongest() {
			next = now.Add(pause)
		}
		select {
		case <-c.left:
		case <-time.After(pause):
		}
	}
}

// count is how many are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// closeLongest closes the connection that has not changed for longest, among those whose time is up, if there
// is one.
func (c *connections) closeLongest() (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for element := c.order.Front(); element != nil; element = element.Next() {
		one := element.Value.(*lasting)
		age := time.Since(one.since)
		if age < grace {
			break // the rest is younger
		}
		if age >= patience || !unread(one.conn) {
			c.remove(one.conn)
			_ = one.conn.Close() // its client may be gone already
			return true
		}
	}
	return false
}

// unread is whether the client has sent something that the server has not read.
func unread(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && n > 0
}

// bounded is a listener that makes room for what it accepts.
type bounded struct {
	net.Listener
	connections *connections
}

func (b bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b.connections.makeRoom()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &hasty{tcp, b.connections}, nil
	}
	return conn, nil
}

// hasty is a connection that does not linger when there are many. If a request is not read to its end,
// net/http shuts down its side and keeps the connection for half a second, so that the client can read the
// refusal. Enough of these would block everybody.
type hasty struct {
	*net.TCPConn
	connections *connections
}

// CloseWrite is called by net/http only for that. The server recovers from this panic, and closes the
// connection.
func (h *hasty) CloseWrite() error {
	if h.connections.count() > maxConnections/2 {
		panic(http.ErrAbortHandler)
	}
	return h.TCPConn.CloseWrite()
}

// smallBuffers sets the buffer sizes of a listener. Its connections inherit them, even before they are
// accepted.
func smallBuffers(_, _ string, socket syscall.RawConn) error {
	var err error
	return errors.Join(socket.Control(func(fd uintptr) {
		err = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer))
	}), err)
}
