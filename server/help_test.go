package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/internal/config"
)

// page returns the text of spindle.conf.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "spindle.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHelp: --help has every setting with its default and its text from spindle.conf, and the lines of the tools.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if code := config.Help(newRegistry(t), page(t), []config.Form{{Args: "tool FILE", Text: "does this"}}, nil,
		&out); code != 1 {
		t.Errorf("exit code %d", code)
	}
	text := out.String()
	for _, want := range []string{"Usage: spindle [FILE]", "spindle --check-config FILE",
		"spindle tool FILE\n           does this\n", "\nNETWORK\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("help lacks %q", want)
		}
	}
	for _, row := range newRegistry(t).Rows() {
		if !strings.Contains(text, "\n  "+row.Name+" ") {
			t.Errorf("help does not tell of %s", row.Name)
		}
	}
	said := strings.Join(strings.Fields(text), " ")
	_, chapters, err := config.Chapters(newRegistry(t), page(t))
	if err != nil {
		t.Fatal(err)
	}
	stated := 0
	for _, c := range chapters {
		for _, d := range c.Directives {
			stated += len(d.Args)
			if d.Text == "" || !strings.Contains(said, d.Name+" "+d.Args[len(d.Args)-1]+" "+d.Text) {
				t.Errorf("help of %s is not what spindle.conf says", d.Name)
			}
		}
	}
	if lines := len(settingLine.FindAllString(page(t), -1)); stated < 200 {
		t.Errorf("help has %d lines that state a default, of %d", stated, lines)
	}
	for line := range strings.Lines(text) {
		if len(line) > 130 && strings.Contains(strings.TrimSpace(line), " ") { // a list of values is one word
			t.Errorf("a long line: %s", line)
		}
	}
}

// TestHelpOfDirectives: --help finds directives by name, older name or pattern. It reports a name for which there is no
// directive.
func TestHelpOfDirectives(t *testing.T) {
	for _, c := range []struct {
		names string
		code  int
		has   []string
	}{
		{"maxmemory", 0, []string{"  maxmemory 0\n", "(bytes)"}},
		{"--PORT", 0, []string{"  port 6379\n", "(0..65535)"}},
		{"slave-priority", 0, []string{"  replica-priority 100\n", "also slave-priority"}},
		{"*-cpulist tcp-backlog", 0, []string{"  server-cpulist", "  tcp-backlog 511\n", "at start only"}},
		{"nosuch", 1, []string{"No directive is called nosuch.\n"}},
	} {
		var out bytes.Buffer
		if code := config.Help(newRegistry(t), page(t), nil, strings.Fields(c.names), &out); code != c.code ||
			strings.Contains(out.String(), "Usage") {
			t.Errorf("%s: %d, %s", c.names, code, &out)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in %s", c.names, want, &out)
			}
		}
	}
}
