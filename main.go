// Spindle is a Redis-compatible server; under another name, or with another first word, it is one of its own tools.
//
// It only chooses: server, Sentinel, one of the tools, or what is still to come, a proxy.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spindle/server"
	"spindle/tools/cli"
)

// settings is the page that --help tells of.
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
	default:
		fmt.Fprintf(os.Stderr, "spindle cannot be a %s in this version: it is a server or a Sentinel.\n", role)
		os.Exit(1)
	}
}

// roleOf says which process argv asks for: by the program's name, or a flag that stands first or behind the
// configuration file.
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
	}
	return "server"
}
