package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed resume.tcl
var resumeTcl []byte

//go:embed shards.tcl
var shardsTcl []byte

var errNoClientStart = errors.New("tests/test_helper.tcl has no line `if {$::client} {`: the suite's driver has " +
	"changed; see resume.tcl for what is needed of it")

// makeTree copies the suite from source into dir. In the copy, src/redis-server is a link to the server under test.
// makeTree also makes the first edit: resume.tcl is sourced before the suite's client starts. It never writes to the
// cached source.
func makeTree(dir, source string) error {
	for _, part := range []string{"tests", "runtest", "runtest-sentinel", "runtest-cluster", "redis.conf", "utils"} {
		from := filepath.Join(source, part)
		if _, err := os.Stat(from); err != nil {
			continue // utils only has TLS certificates and a few tools
		}
		if out, err := exec.Command("cp", "-r", from, dir).CombinedOutput(); err != nil {
			return fmt.Errorf("copying %s: %w: %s", from, err, out)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o755); err != nil {
		return err
	}
	for _, tool := range []string{"redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb"} {
		where, err := toolOf(source, tool)
		if err != nil {
			return err
		}
		if err := os.Symlink(where, filepath.Join(dir, "src", tool)); err != nil {
			return err
		}
	}
	if err := addInstances(dir); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"resume.tcl": resumeTcl, "shards.tcl": shardsTcl} {
		if err := os.WriteFile(filepath.Join(dir, "tests", name), text, 0o644); err != nil {
			return err
		}
	}
	helper := filepath.Join(dir, "tests", "test_helper.tcl")
	text, err := os.ReadFile(helper)
	if err != nil {
		return err
	}
	edited, err := sourceResume(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(helper, []byte(edited), 0o644)
}

// toolOf returns the tool that was built with the suite, or else the tool from the PATH.
func toolOf(source, tool string) (string, error) {
	built := filepath.Join(source, "src", tool)
	if _, err := os.Stat(built); err == nil {
		return filepath.Abs(built)
	}
	return exec.LookPath(tool)
}

// addDirectives adds lines to the suite's basic configurations.
func addDirectives(dir, source, directives string) error {
	for _, name := range []string{"default.conf", "minimal.conf"} {
		name = filepath.Join("tests", "assets", name)
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(text, "\n"+directives...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourceResume edits the suite's driver so that it sources resume.tcl.
func sourceResume(text string) (string, error) {
	const start = "\nif {$::client} {\n"
	at := strings.LastIndex(text, start)
	if at < 0 {
		return "", errNoClientStart
	}
	return text[:at] + "\nif {$::client} {source tests/resume.tcl}" + text[at:], nil
}

// wrap makes a name in src start a program. The name is a link, so the PID that the suite knows is the program's. The
// process title is the path of the link.
func wrap(dir, name, server string) error {
	link := filepath.Join(dir, "src", name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(server, link)
}
