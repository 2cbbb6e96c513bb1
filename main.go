// Spindle is a Redis-compatible server. Under another name, or with another first argument, it is one of its tools.
//
// This file only chooses: server, Sentinel, proxy, dashboard or one of the tools.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spindle/proxy"
	"spindle/proxy/dashboard"
	"spindle/server"
	"spindle/tools/cli"
)

// settings is the page that --help shows.
//
//go:embed spindle.conf
var settings string

func main() {
	if tool := cli.Find(os.Args); tool != nil {
		os.Exit(tool())
	}
	switch role := roleOf(os.Args); role {
	case "server":
		os.Exit(server.Run(os.Args, server.Manual{Settings: settings, Tools: cli.Forms()}))
	case "sentinel":
		os.Exit(server.RunSentinel(os.Args, server.Manual{Settings: settings, Tools: cli.Forms()}))
	case "dashboard":
		os.Exit(dashboard.Run(os.Args))
	case "proxy":
		os.Exit(proxy.Run(os.Args))
	default:
		fmt.Fprintf(os.Stderr,
			"spindle cannot be a %s in this version: it is a server, a Sentinel, a proxy or a dashboard.\n", role)
		os.Exit(1)
	}
}

// roleOf returns the kind of process that argv asks for. It depends on the program's name, or on a flag that comes
// first or after the configuration file.
func roleOf(argv []string) string {
	name := ""
	if len(argv) > 0 {
		name = filepath.Base(argv[0])
	}
	switch {
	case strings.Contains(name, "sentinel") || slices.Contains(argv, "--sentinel"):
		return "sentinel"
	case strings.Contains(name, "proxy") || len(argv) > 1 && argv[1] == "--proxy":
		return "proxy"
	case strings.Contains(name, "dashboard") || len(argv) > 1 && argv[1] == "--dashboard":
		return "dashboard"
	}
	return "server"
}
