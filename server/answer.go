package server

import (
	"io"

	"spindle/internal/process"
	"spindle/internal/version"
)

// Answer does what a command line asks other than to serve: it says which version this is, or whether the host suits
// it. done is false if the process is to do something else.
func Answer(args Arguments, stdout, stderr io.Writer) (code int, done bool) {
	switch args.Task {
	case TaskVersion:
		_, _ = io.WriteString(stdout, version.Text())
		return 0, true
	case TaskCheckSystem:
		return process.CheckSystem(stdout), true
	case TaskTestMemory:
		_, _ = io.WriteString(stderr,
			"spindle has no memory test: start memtest86+ instead, which also sees what the system keeps for itself.\n")
		return 1, true
	}
	return 0, false
}
