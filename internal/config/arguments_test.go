package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArguments: a command line becomes lines of a configuration file.
func TestArguments(t *testing.T) {
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		argv []string
		want Arguments
	}{
		{"nothing", nil, Arguments{Bare: true}},
		{"version", []string{"-v"}, Arguments{Task: TaskVersion}},
		{"help", []string{"--help", "x"}, Arguments{Task: TaskHelp, Rest: []string{"x"}}},
		{"check a file", []string{"--check-config", "/a.conf", "--port", "1"},
			Arguments{Task: TaskCheckConfig, ConfigFile: "/a.conf", Options: `port "1" `}},
		{"check nothing", []string{"--check-config"}, Arguments{Task: TaskCheckConfig}},
		{"check", []string{"--check-system"}, Arguments{Task: TaskCheckSystem}},
		{"a file", []string{"a.conf"}, Arguments{ConfigFile: filepath.Join(cwd, "a.conf")}},
		{"a Sentinel's file", []string{"--sentinel", "/s.conf", "--port", "1"},
			Arguments{ConfigFile: "/s.conf", Options: `port "1" `}},
		{"a file of a Sentinel", []string{"/s.conf", "--sentinel"}, Arguments{ConfigFile: "/s.conf", Options: "sentinel "}},
		{"a file and options", []string{"/a.conf", "--port", "1"}, Arguments{ConfigFile: "/a.conf", Options: `port "1" `}},
		{"standard input first", []string{"-", "--port", "1"}, Arguments{Stdin: true, Options: `port "1" `}},
		{"standard input last", []string{"/a", "--port", "1", "-"},
			Arguments{ConfigFile: "/a", Stdin: true, Options: `port "1" `}},
		{"a lone - between is a value", []string{"--masterauth", "-", "--port", "1"},
			Arguments{Options: "masterauth \"-\" \nport \"1\" "}},
		{"after a file it must be last", []string{"/a", "-", "--port", "1"},
			Arguments{ConfigFile: "/a", Options: "\"-\" \nport \"1\" "}},
		{"several values", []string{"--save", "900", "1", "--port", "1"},
			Arguments{Options: "save \"900\" \"1\" \nport \"1\" "}},
		{"values in one word", []string{"--save", "900 1"}, Arguments{Options: `save "900 1" `}},
		{"name and value in one word", []string{"--port 1", "--hz", "2"}, Arguments{Options: "port 1 \nhz \"2\" "}},
		{"a value may begin with --", []string{"--requirepass", "--x", "--port", "1"},
			Arguments{Options: "requirepass \"--x\" \nport \"1\" "}},
		{"but only the first", []string{"--bind", "a", "--port", "1"}, Arguments{Options: "bind \"a\" \nport \"1\" "}},
		{"save without a value", []string{"--save", "--port", "1"}, Arguments{Options: "save \"\"\nport \"1\" "}},
		{"save at the end", []string{"--port", "1", "--save"}, Arguments{Options: "port \"1\" \nsave \"\""}},
		{"save with nothing", []string{"--save", ""}, Arguments{Options: `save "" `}},
		{"names without dashes", []string{"--hz", "1", "port", "2"}, Arguments{Options: `hz "1" "port" "2" `}},
		{"quotes and odd bytes", []string{"--masterauth", "a\"\n\xff"}, Arguments{Options: `masterauth "a\"\n\xff" `}},
	} {
		c.want.Program = "spindle"
		got := ParseArguments(append([]string{"spindle"}, c.argv...))
		if got.Task != c.want.Task || got.Program != c.want.Program || got.ConfigFile != c.want.ConfigFile ||
			got.Stdin != c.want.Stdin || got.Options != c.want.Options || got.Bare != c.want.Bare ||
			!slices.Equal(got.Rest, c.want.Rest) {
			t.Errorf("%s: %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestArgumentsWithoutValues: the word after an option may be a password, so it is not shown.
func TestArgumentsWithoutValues(t *testing.T) {
	for line, want := range map[string]string{
		"spindle": "spindle", "spindle a.conf": "spindle a.conf", "spindle a.conf -": "spindle a.conf -",
		"spindle a.conf --requirepass pw --port 1":     "spindle a.conf --requirepass (redacted) --port (redacted)",
		"spindle --requirepass --pw --port 1":          "spindle --requirepass (redacted) --port (redacted)",
		"spindle --user u on >pw ~*":                   "spindle --user (redacted) (redacted) (redacted) (redacted)",
		"spindle --requirepass_pw --appendonly yes":    "spindle --requirepass (redacted) --appendonly (redacted)",
		"spindle a.conf --sentinel --requirepass --pw": "spindle a.conf --sentinel --requirepass (redacted)",
		"spindle --save --requirepass --pw":            "spindle --save --requirepass (redacted)",
		"spindle --save x --requirepass --pw":          "spindle --save (redacted) --requirepass (redacted)",
		"spindle --requirepass --save --port 1":        "spindle --requirepass (redacted) --port (redacted)",
		"spindle --requirepass@pw --port 1":            "spindle --requirepass (redacted) --port (redacted)",
	} {
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.NewReplacer("_", " ", "@", "\t").Replace(words[i]) // name and value in one word
		}
		if got := strings.Join(Redacted(words), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
