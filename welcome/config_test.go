package main

import (
	"log/slog"
	"strings"
	"testing"
)

func TestConfigFrom(t *testing.T) {
	world := config{port: 8080, logLevel: slog.LevelInfo, greeting: greeting{Name: "world"}}
	with := func(change func(*config)) config {
		cfg := world
		change(&cfg)
		return cfg
	}
	for name, test := range map[string]struct {
		env  map[string]string
		want config
		err  string
	}{
		"defaults":       {want: world},
		"empty is unset": {env: map[string]string{"PORT": "", "LOG_LEVEL": "", "NAME": ""}, want: world},
		"blank name":     {env: map[string]string{"NAME": " \t"}, want: world},
		"everything": {
			env: map[string]string{
				"PORT": "9090", "LOG_LEVEL": "debug", "NAME": "myfriends", "POD_NAME": "pod-0", "POD_NAMESPACE": "demo",
			},
			want: config{port: 9090, logLevel: slog.LevelDebug, greeting: greeting{Name: "myfriends", Pod: "pod-0", Namespace: "demo"}},
		},
		"lowest port":     {env: map[string]string{"PORT": "1"}, want: with(func(c *config) { c.port = 1 })},
		"highest port":    {env: map[string]string{"PORT": "65535"}, want: with(func(c *config) { c.port = 65535 })},
		"warn":            {env: map[string]string{"LOG_LEVEL": "warn"}, want: with(func(c *config) { c.logLevel = slog.LevelWarn })},
		"error":           {env: map[string]string{"LOG_LEVEL": "error"}, want: with(func(c *config) { c.logLevel = slog.LevelError })},
		"port of 0":       {env: map[string]string{"PORT": "0"}, err: `PORT is "0"; set it to a number from 1 to 65535`},
		"port too high":   {env: map[string]string{"PORT": "65536"}, err: `PORT is "65536"`},
		"port as a name":  {env: map[string]string{"PORT": "http"}, err: `PORT is "http"`},
		"unknown level":   {env: map[string]string{"LOG_LEVEL": "loud"}, err: `LOG_LEVEL is "loud"; set it to debug, info, warn or error`},
		"level with case": {env: map[string]string{"LOG_LEVEL": "INFO"}, err: `LOG_LEVEL is "INFO"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configFrom(func(key string) string { return test.env[key] })
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("the error is %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
