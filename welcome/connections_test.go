package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// memoryLimit is what the chart gives a pod by default.
const memoryLimit = 64 << 20

// ways in which somebody may hold a connection for as long as the server lets it be. Each returns when it is closed.
var ways = []func(net.Conn){
	func(conn net.Conn) { // idle
		send(conn, "GET /hello/ HTTP/1.1\r\nHost: a\r\n\r\n")
	},
	func(conn net.Conn) { // silent from the start
		send(conn, "")
	},
	func(conn net.Conn) { // half of a large header
		send(conn, "GET /hello/ HTTP/1.1\r\nHost: a\r\nX-Half: "+strings.Repeat("x", 7<<10))
	},
	func(conn net.Conn) { // half of many small ones
		send(conn, "GET /hello/ HTTP/1.1\r\nHost: a\r\n"+strings.Repeat("A: b\r\n", 1000))
	},
	func(conn net.Conn) { // a body that nobody reads
		send(conn, "GET /hello/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"+strings.Repeat("x", 100<<10))
	},
	func(conn net.Conn) { // slow to send
		_, err := io.WriteString(conn, "GET /hello/ HTTP/1.1\r\nHost: a\r\n")
		for ; err == nil; _, err = io.WriteString(conn, "A: b\r\n") {
			time.Sleep(time.Second)
		}
	},
	func(conn net.Conn) { // slow to read
		_, err := io.WriteString(conn, strings.Repeat("GET /hello/style.css HTTP/1.1\r\nHost: a\r\n\r\n", 100))
		for ; err == nil; _, err = conn.Read(make([]byte, 1)) {
			time.Sleep(time.Second)
		}
	},
}

// send sends a text, and returns when the other side has closed the connection.
func send(conn net.Conn, text string) {
	if _, err := io.WriteString(conn, text); err == nil {
		_, _ = io.Copy(io.Discard, conn) // however it ends
	}
}

// TestTenThousandConnections opens 10,000 connections, each of which is held in a bad way. Visitors and the
// kubelet, which come between them on connections of their own, are answered, and the memory stays within
// what the chart allows.
func TestTenThousandConnections(t *testing.T) {
	const count, atOnce = 10_000, 100
	cmd, log, port := serve(t)
	url := "http://127.0.0.1:" + port

	visitor := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var slowest time.Duration
	late := 0
	for i := range count {
		// Of several addresses, or there were too few ports.
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%10))}}).Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		go ways[i%len(ways)](conn)
		if i%atOnce > 0 {
			continue
		}
		for _, path := range []string{"/hello/", "/readyz", "/healthz"} {
			start := time.Now()
			resp, err := visitor.Get(url + path)
			if err != nil {
				t.Fatalf("a visitor after %d connections: %v", i, err)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s answers %d, %v", path, resp.StatusCode, err)
			}
			took := time.Since(start)
			slowest = max(slowest, took)
			if late++; took < time.Second {
				late = 0
			}
			if late == 3 { // of probes make the kubelet restart a container
				t.Fatalf("three requests in a row took more than a second, the last %s", took)
			}
		}
	}
	peak := peakMemory(t, cmd.Process.Pid)
	t.Logf("the slowest of %d visitors was answered after %s; the program took up to %d MiB", 3*count/atOnce, slowest, peak>>20)
	if buffers := maxConnections * 2 * (receiveBuffer + sendBuffer); peak+buffers > memoryLimit {
		t.Errorf("with up to %d MiB for the kernel's buffers, that is more than the %d MiB that a pod has", buffers>>20, memoryLimit>>20)
	}
	if text := log.String(); strings.Contains(text, "panic") {
		t.Error(text)
	}
}

// peakMemory is the most that a process ever had.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
