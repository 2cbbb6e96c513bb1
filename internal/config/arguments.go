package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"spindle/internal/setting"
)

// Task is the task that a command line gives the process.
type Task int

const (
	TaskServe Task = iota
	TaskVersion
	TaskHelp
	TaskCheckConfig
	TaskCheckSystem
	TaskDoctor
	TaskTestMemory
)

// Arguments are a parsed command line.
type Arguments struct {
	Task       Task
	Program    string // argv[0]
	ConfigFile string // absolute; empty without one
	Stdin      bool   // "-": the configuration continues on standard input
	Options    string // --name value …, as lines of a configuration file
	Bare       bool   // no argument at all
	Rest       []string
}

// ParseArguments reads argv (with the program's name).
//
//	spindle [file] [-] [--name value …]…       file, then standard input, then options: the last one counts
//	spindle --sentinel file [--name value …]…  the same
//
// A word that begins with -- names a directive, unless the directive before it still lacks its value. So a value may
// begin with -- too ("--requirepass --secret"). "--name value" in one word is both. --save without a value, before
// another name or at the end, means --save "".
func ParseArguments(argv []string) Arguments {
	a := Arguments{Bare: len(argv) < 2}
	if len(argv) > 0 {
		a.Program = argv[0]
	}
	if a.Bare {
		return a
	}
	words := argv[1:]
	switch words[0] {
	case "-v", "--version":
		a.Task = TaskVersion
		return a
	case "-h", "--help":
		a.Task, a.Rest = TaskHelp, words[1:]
		return a
	case "--check-config":
		a.Task, words = TaskCheckConfig, words[1:]
		if len(words) == 0 {
			return a
		}
	case "--check-system":
		a.Task = TaskCheckSystem
		return a
	case "doctor":
		a.Task, words = TaskDoctor, words[1:]
		if len(words) == 0 {
			return a
		}
	case "--test-memory":
		a.Task, a.Rest = TaskTestMemory, words[1:]
		return a
	}
	if words[0] == "--sentinel" && len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		words = words[1:] // only the option decides what the process is; main has read it
	}
	if !strings.HasPrefix(words[0], "-") {
		a.ConfigFile = absolute(words[0])
		words = words[1:]
	}
	a.readOptions(words, a.ConfigFile == "")
	return a
}

// readOptions turns words into lines. atStart means that words[0] is the command line's first argument, which may be
// "-".
func (a *Arguments) readOptions(words []string, atStart bool) {
	var lines strings.Builder
	complete := true // the directive before this word has a value
	for i, word := range words {
		last := i == len(words)-1
		switch {
		case word == "-" && (last || i == 0 && atStart):
			a.Stdin = true
		case complete && strings.HasPrefix(word, "--"):
			if lines.Len() > 0 {
				lines.WriteByte('\n')
			}
			lines.WriteString(word[2:] + " ")
			parts, err := setting.SplitArgs(word)
			if err != nil || len(parts) != 1 {
				continue // name and value in one word
			}
			complete = valueless(words, i)
			if complete && strings.EqualFold(word, "--save") {
				lines.WriteString(`""`)
			}
		default:
			lines.WriteString(setting.Quote(word) + " ")
			complete = true
		}
	}
	a.Options = lines.String()
}

// valueless reports whether words[i] is an option without a value: --save or --sentinel at the end, or before another
// option.
func valueless(words []string, i int) bool {
	if !strings.EqualFold(words[i], "--save") && !strings.EqualFold(words[i], "--sentinel") {
		return false
	}
	return i == len(words)-1 || strings.HasPrefix(words[i+1], "--")
}

// absolute returns path as an absolute path. A relative path starts at the current directory, which dir may change
// later.
func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	cwd, err := os.Getwd()
	if err != nil {
		return path
	}
	return filepath.Join(cwd, path)
}

// Redacted returns a command line with "(redacted)" in place of each option's value.
func Redacted(words []string) []string {
	shown := slices.Clone(words)
	options, named := false, false // named: the value of an option comes next, even if it begins with --
	for i := 1; i < len(words); i++ {
		name, rest := words[i], ""
		if at := strings.IndexFunc(name, unicode.IsSpace); at >= 0 {
			name, rest = name[:at], name[at:]
		}
		switch {
		case named || !strings.HasPrefix(name, "--"):
			if options {
				shown[i] = "(redacted)"
			}
			named = false
		case strings.TrimSpace(rest) != "":
			shown[i], options = name+" (redacted)", true
		default:
			shown[i], options, named = name, true, !valueless(words, i)
		}
	}
	return shown
}
