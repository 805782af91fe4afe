// Command load sends GET requests at a constant rate and reports how they went. It measures the figures of the README
// and shows that a rolling edit fails no request; it exits with 1 if one failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	target := flag.String("url", "", "the page to load, on a loopback or private address, for instance http://127.0.0.1:8080/hello/")
	rate := flag.Int("rate", 1000, "requests per second, 1 to 5000")
	duration := flag.Duration("duration", 30*time.Second, "how long to send, 1s to 10m")
	flag.Parse()
	if u, err := url.Parse(*target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("-url is %q; set it to the address of a page, such as http://127.0.0.1:8080/hello/", *target)
	}
	if *rate < 1 || *rate > 5000 {
		return fmt.Errorf("-rate is %d; set it to 1 to 5000 requests per second", *rate)
	}
	if *duration < time.Second || *duration > 10*time.Minute {
		return fmt.Errorf("-duration is %s; set it to 1s to 10m", *duration)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("GET %s, %d requests/s for %s\n", *target, *rate, *duration)
	report := generate(ctx, *target, *rate, *duration)
	fmt.Print(report)
	if report.failed() > 0 {
		return errors.New("some requests failed")
	}
	return nil
}
