package main

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// config is the configuration, from the container's environment variables.
type config struct {
	port     int
	logLevel slog.Level
	greeting greeting
}

// configFrom reads PORT (default 8080), LOG_LEVEL (default info), NAME (default world), POD_NAME and POD_NAMESPACE
// (shown on the page if set). An empty variable counts as unset, because a chart can't always leave one out.
func configFrom(getenv func(string) string) (config, error) {
	cfg := config{
		port: 8080,
		greeting: greeting{
			Name:      "world",
			Pod:       getenv("POD_NAME"),
			Namespace: getenv("POD_NAMESPACE"),
		},
	}
	if name := strings.TrimSpace(getenv("NAME")); name != "" {
		cfg.greeting.Name = name
	}
	if port := getenv("PORT"); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return config{}, fmt.Errorf("PORT is %q; set it to a number from 1 to 65535", port)
		}
		cfg.port = n
	}
	switch level := getenv("LOG_LEVEL"); level {
	case "debug":
		cfg.logLevel = slog.LevelDebug
	case "info", "":
		cfg.logLevel = slog.LevelInfo
	case "warn":
		cfg.logLevel = slog.LevelWarn
	case "error":
		cfg.logLevel = slog.LevelError
	default:
		return config{}, fmt.Errorf("LOG_LEVEL is %q; set it to debug, info, warn or error", level)
	}
	return cfg, nil
}
