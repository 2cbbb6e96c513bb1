// Package cli holds the programs within the program: check-aof, check-rdb, rdb and cluster.
//
// Owner: a process of its own for each; no server runs in it. main alone imports the package.
// Never: needs a server's settings, or memory in proportion to a file.
// Start at Find. checkrdb.go and checkaof.go look through files, rdb.go tells what an RDB file is made of,
// clusterdemo.go starts nodes for a trial.
package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"spindle/internal/config"
)

// A Tool is a program of its own, by its name, by a first word, or as Redis calls it.
type Tool struct {
	Name    string // the first word of the command line
	Program string // what the program is called by itself; also behind "spindle-" or "redis-". Empty: it has no such name
	Forms   []config.Form
	run     func(p process) int
}

// Forms are the ways to call them, for the help of the whole program.
func Forms() (forms []config.Form) {
	for _, t := range Tools {
		forms = append(forms, t.Forms...)
	}
	return forms
}

// Tools are all of them, as help shows them.
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
	{"cluster", "", []config.Form{
		{Args: "cluster demo [OPTION ...] N",
			Text: "starts N nodes on this host for a trial, and clears them away on Ctrl-C"},
	}, clusterTool},
}

// A process is what a tool gets of it.
type process struct {
	args     []string // behind the name
	in       io.Reader
	out      io.Writer
	err      io.Writer
	terminal bool // somebody watches err
	ascii    bool // out is a terminal that does not speak UTF-8
}

// Find is the tool that argv asks for, ready to run: by the program's name, or by the first word. nil: none.
// The function it returns gives the exit code.
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

// asked says whether argv asks for t, and with which arguments.
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
