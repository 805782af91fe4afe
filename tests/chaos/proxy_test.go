package chaos

import (
	"io"
	"net"
	"sync"
)

// proxy is between the operator and the API server, to cut their connections.
type proxy struct {
	listener net.Listener
	target   string

	mu          sync.Mutex
	connections map[net.Conn]bool
}

func newProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, connections: map[net.Conn]bool{}}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go p.serve(client)
		}
	}()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // the API server does not answer, so the proxy does not either
		return
	}
	p.mu.Lock()
	p.connections[client], p.connections[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from) // until one side or cut closes it
			_ = to.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.connections, client)
	delete(p.connections, server)
	p.mu.Unlock()
}

// cut ends all connections, watches among them.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.connections {
		_ = connection.Close() // it may be closed already
	}
}

func (p *proxy) close() {
	_ = p.listener.Close() // the test is over
	p.cut()
}
