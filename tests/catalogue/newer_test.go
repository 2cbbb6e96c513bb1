package catalogue

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// ownCommands, ownDirectives and ownFields are names that only spindle has. "x*" stands for every name that begins with
// x.
var (
	ownCommands = []string{"bf.*", "bigkeys*", "stalls*", "hotkeys", "hotkeys|help", "hotkeys|get", "hotkeys|reset",
		"script|stats", "spindle*"}
	ownDirectives = []string{"admin-*", "aof-buffer-limit", "bf-max-size", "big-keys", "compat-version", "hot-keys",
		"kept-memory-limit", "long-read-elements", "measure-turn-cpu", "module-aux-data", "rdb-file-compression",
		"rdb-savers", "rdb-unsupported-keys", "rdb-version", "reactor-backend",
		"replica-ignore-unknown-commands", "reply-latency", "script-memory-limit", "stall-log-max-len", "stall-threshold",
		"unsupported-directives"}
	ownFields = []string{"ack_*", "duties_duration_sum", "expired_lag_*", "go_heap", "long_read*", "longest_turn_*",
		"memory_*", "module", "total_long_reads*",
		"most_commands_per_turn", "turn_nsec_per_command", "batches_run_for_other_loops", "reply_usec_*",
		"io_threads_choice", "io_threads_count", "io_threads_reason",
		"spindle_version", "cmdstat_*", "errorstat_*", "latency_percentiles_usec_*"}
)

// newer returns the lines of newer.txt of one kind, as a map from the lower-case name to its state. A container and its
// subcommand are joined by "|", as in COMMAND LIST.
func newer(t *testing.T, kind string) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../conformance/newer.txt")
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if columns := strings.Split(strings.TrimSpace(line), " | "); len(columns) == 4 && columns[0] == kind {
			name := strings.ToLower(columns[1])
			if kind == "command" {
				name = strings.Replace(name, " ", "|", 1)
			}
			states[name] = columns[3]
		}
	}
	return states
}

// names returns the first words of a file's lines without comments.
func names(t *testing.T, file string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			found[name] = true
		}
	}
	return found
}

// TestNewer: the server has every command, directive and field that newer.txt marks as "here". Each one that the server
// has and Redis 7.4 does not have is marked "here".
func TestNewer(t *testing.T) {
	s := testkit.Start(t)
	node := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))

	commands, older := map[string]bool{}, map[string]bool{}
	for _, name := range s.Do("COMMAND", "LIST").Strings() {
		commands[name] = true
	}
	for name := range golden(t) {
		older[name] = true
	}
	agree(t, "command", commands, older, ownCommands)

	directives := map[string]bool{}
	for i, name := range s.Do("CONFIG", "GET", "*").Strings() {
		if i%2 == 0 {
			directives[name] = true
		}
	}
	agree(t, "directive", directives, names(t, "../../server/testdata/reference.tsv"), ownDirectives)

	fields := map[string]bool{}
	for _, server := range []*testkit.Server{s, node} {
		for name := range server.Info("everything") {
			fields[name] = true
		}
	}
	agree(t, "info", fields, names(t, "testdata/info-7.4.1.txt"), ownFields)
}

// agree compares the names that the server has with newer.txt's lines of this kind.
func agree(t *testing.T, kind string, has, older map[string]bool, own []string) {
	t.Helper()
	states := newer(t, kind)
	for _, name := range slices.Sorted(maps.Keys(states)) {
		// A name with a space is a value of a directive, or Valkey's form of a command.
		if states[name] == "here" && !has[name] && !strings.Contains(name, " ") {
			t.Errorf("newer.txt calls %s %s here, and the server does not have it", kind, name)
		}
		if strings.HasPrefix(states[name], "refused") && kind == "command" && has[name] {
			t.Errorf("newer.txt calls %s %s refused, and the server has it", kind, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		container := kind == "command" && slices.ContainsFunc(slices.Collect(maps.Keys(states)), func(other string) bool {
			return strings.HasPrefix(other, name+"|")
		})
		if older[name] || container || slices.ContainsFunc(own, func(o string) bool { return fits(name, o) }) {
			continue
		}
		if state, known := states[name]; !known || state == "later" {
			t.Errorf("%s %s is newer than 7.4, and newer.txt does not call it here", kind, name)
		}
	}
}

// fits reports whether pattern is name, or its beginning and "*".
func fits(name, pattern string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return name == pattern || open && strings.HasPrefix(name, prefix)
}
