package process

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// since70 has the fields of Redis 7.2 and 7.4 that 7.0, with which the test compares, does not have.
const since70 = `acl_access_denied_auth acl_access_denied_channel acl_access_denied_cmd acl_access_denied_key
	allocator_muzzy client_output_buffer_limit_disconnections client_query_buffer_limit_disconnections eventloop_cycles
	eventloop_duration_cmd_sum eventloop_duration_sum evicted_scripts expired_subkeys
	instantaneous_eventloop_cycles_per_sec instantaneous_eventloop_duration_usec listener0
	mem_overhead_db_hashtable_rehashing module pubsub_clients total_blocking_keys total_blocking_keys_on_nokey
	total_watched_keys watching_clients aof_rewrites_consecutive_failures`

var (
	quotedName = regexp.MustCompile("`([a-z0-9_]+)`")
	fieldRow   = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
)

// TestInfoPage: doc/info.md describes exactly the fields of INFO that no version of Redis or Valkey has.
func TestInfoPage(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	args := []string{"--appendonly", "yes", "--replicaof", "127.0.0.1", strconv.Itoa(testkit.FreePort(t))}
	ours, oracle := testkit.Start(t, append(args, "--measure-turn-cpu", "yes", "--aof-keep-history", "1h")...),
		testkit.Redis(t, args...)
	known := map[string]bool{}
	for _, name := range strings.Fields(since70) {
		known[name] = true
	}
	for name := range oracle.Info("everything") {
		known[name] = true
	}
	_, newer, _ := strings.Cut(read("../../COMPATIBILITY.md"), "### INFO fields")
	newer, _, _ = strings.Cut(newer, "\n### ")
	for _, m := range quotedName.FindAllStringSubmatch(newer, -1) {
		known[m[1]] = true
	}
	described := map[string]bool{}
	for _, row := range fieldRow.FindAllStringSubmatch(read("../../doc/info.md"), -1) {
		for _, m := range quotedName.FindAllStringSubmatch(row[1], -1) {
			described[m[1]] = true
		}
	}
	var fields map[string]string
	testkit.Until(t, testkit.Slowly(20*time.Second), "the link's error and the longest turns are shown", func() error {
		fields = ours.Info("everything")
		return testkit.Equal(fields["master_link_down_reason"] != "" && fields["long_turns"] != "", true)
	})
	primary := testkit.Start(t, "--min-replicas-to-ack", "1", "--repl-backlog-disk-size", "64mb")
	for name, value := range primary.Info("everything") { // some fields exist only on primaries
		fields[name] = value
	}
	for name := range fields {
		of, _, _ := strings.Cut(name, "_")
		switch {
		case known[name], of == "cmdstat", of == "latency", of == "reply", of == "errorstat", of == "db0":
		case !described[name]:
			t.Errorf("doc/info.md says nothing of %s", name)
		}
	}
	for name := range described {
		if _, is := fields[name]; !is {
			t.Errorf("doc/info.md has %s, which INFO does not show", name)
		}
	}
}
