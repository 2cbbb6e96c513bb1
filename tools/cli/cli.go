// Package cli holds spindle's tools: check-aof, check-rdb, rdb, history, restore, backup, cluster, proxy and ctl.
//
// Owner: a separate process for each; no server runs in it. Only main imports the package.
// Never: needs a server's settings, or memory in proportion to a file.
// Start at Find. checkrdb.go and checkaof.go check files, and rdb.go reports an RDB file's contents. past.go restores
// the data set of an earlier moment, and backup.go pushes backups to a store. clusterdemo.go starts nodes for a trial,
// and proxydemo.go starts proxies. ctl.go calls a dashboard.
package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"spindle/internal/config"
)

// A Tool is a program with its name, its first word, and its name in Redis.
type Tool struct {
	Name    string // the first word of the command line
	Program string // the program's name, also after "spindle-" or "redis-"; "" if it has none
	Forms   []config.Form
	run     func(p process) int
}

// Forms returns the forms of command lines of all tools, for the help of the whole program.
func Forms() (forms []config.Form) {
	for _, t := range Tools {
		forms = append(forms, t.Forms...)
	}
	return forms
}

// Tools has all tools, in the order of the help.
var Tools = []Tool{
	{"check-aof", "check-aof", []config.Form{
		{Args: "check-aof FILE", Text: "is an append-only file whole? FILE may be its manifest"},
		{Args: "check-aof --fix FILE", Text: "cuts off what is not whole at its end"},
		{Args: "check-aof --truncate-to-timestamp SECONDS FILE", Text: "cuts off what came later"},
	}, checkAOF},
	{"check-rdb", "check-rdb", []config.Form{
		{Args: "check-rdb [--keys] FILE ...", Text: "is an RDB file whole? --keys lists its keys"},
	}, checkRDB},
	{"rdb", "", []config.Form{
		{Args: "rdb report [OPTION ...] FILE|HOST:PORT", Text: "what takes the memory: by type, prefix, lifetime and key"},
	}, rdbTool},
	{"history", "", historyForms, historyTool},
	{"restore", "", restoreForms, restoreTool},
	{"backup", "", backupForms, backupTool},
	{"cluster", "", []config.Form{
		{Args: "cluster demo [OPTION ...] N",
			Text: "starts N nodes on this host for a trial, and clears them away on Ctrl-C"},
	}, clusterTool},
	{"proxy", "", []config.Form{
		{Args: "proxy demo [OPTION ...]",
			Text: "starts a cluster with two proxies and a dashboard for a trial, and clears them away on Ctrl-C"},
	}, proxyTool},
	{"ctl", "", ctlForms, ctlTool},
}

// A process gives a tool access to its process: arguments, input and output.
type process struct {
	args     []string // after the name
	in       io.Reader
	out      io.Writer
	err      io.Writer
	terminal bool // err is a terminal
	ascii    bool // out is a terminal without UTF-8
}

// Find returns the tool that argv selects, ready to run. The program's name or the first word selects it. Find returns
// nil if there is none. The returned function returns the exit code.
func Find(argv []string) func() int {
	for _, t := range Tools {
		args, asked := t.asked(argv)
		if asked {
			return func() int {
				return t.run(process{
					args: args, in: os.Stdin, out: os.Stdout, err: os.Stderr, terminal: isTerminal(os.Stderr),
					ascii: isTerminal(os.Stdout) && !speaksUTF8(os.Getenv),
				})
			}
		}
	}
	return nil
}

// asked reports whether argv selects t, and returns the arguments for t.
func (t *Tool) asked(argv []string) (args []string, asked bool) {
	switch {
	case len(argv) == 0:
		return nil, false
	case t.Program != "" && strings.Contains(filepath.Base(argv[0]), t.Program):
		return argv[1:], true
	case len(argv) > 1 && argv[1] == t.Name:
		return argv[2:], true
	}
	return nil, false
}
