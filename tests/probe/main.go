// Command probe shows, from within a pod, what NetworkPolicies let through. Each second it tries to connect
// to some addresses and prints which it reached; it listens on others, so that something is there to be
// reached.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// patience is how long a connection may take: a policy may drop it and say nothing.
const patience = time.Second

func main() {
	listen := flag.String("listen", "", "`address` to listen on, such as :9999")
	dial := flag.String("dial", "", "`addresses` to connect to, separated by commas")
	duration := flag.Duration("for", 15*time.Minute, "how long to go on")
	flag.Parse()
	if *listen != "" {
		listener, err := net.Listen("tcp", *listen)
		if err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			os.Exit(1)
		}
		defer func() { _ = listener.Close() }() // it ends with the process
	}
	for start := time.Now(); time.Since(start) < *duration; time.Sleep(time.Second) {
		fmt.Println(look(strings.Split(*dial, ",")))
	}
}

// look says of each address whether it was reached: 10.0.0.1:80=true.
func look(addresses []string) string {
	var seen []string
	for _, address := range addresses {
		connection, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			_ = connection.Close() // that it was made is all
		}
		seen = append(seen, fmt.Sprintf("%s=%t", address, err == nil))
	}
	return strings.Join(seen, " ")
}
