package process

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestStalls causes a stall of each kind that a client or the machine can cause. STALLS GET must name the kind.
func TestStalls(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s := testkit.Start(t, "--admin-address", address, "--enable-debug-command", "yes", "--stall-threshold", "100")
	c := s.Dial()
	c.Must("CLIENT", "SETNAME", "planter")
	// find repeats cause until the log has a stall of the given kind, of at least this many microseconds. On a busy
	// host the machine may cause the first stalls, and even all stalls of a command that computes. Such a stall counts if
	// the process had less than a quarter of a processor.
	find := func(kind, what string, least float64, cause func()) (found map[string]string) {
		t.Helper()
		s.Do("STALLS", "RESET")
		testkit.Until(t, testkit.Slowly(20*time.Second), "a stall of kind "+kind+" named "+what, func() error {
			cause()
			all := maps(t, s.Do("STALLS", "GET", -1))
			for _, m := range all {
				slowed := kind == "command" && m["kind"] == "machine" && 4*figure(t, m, "cpu-usec") < figure(t, m, "usec")
				if (m["kind"] == kind || slowed) && strings.Contains(m["what"], what) && figure(t, m, "usec") >= least {
					found = m
					return nil
				}
			}
			return fmt.Errorf("the log has %v", all)
		})
		return found
	}

	// The log must not attribute a sleep to the machine.
	if m := find("command", "SLEEP", 290e3, func() { c.Must("DEBUG", "SLEEP", "0.3") }); m["name"] != "planter" ||
		m["addr"] == "" {
		t.Errorf("DEBUG SLEEP: %v", m)
	}
	for from := 0; from < 1_000_000; from += 100_000 {
		words := []any{"SADD", "members"}
		for i := range 100_000 {
			words = append(words, from+i)
		}
		c.Must(words...)
	}
	s.Do("CONFIG", "SET", "long-read-elements", 0) // SORT then holds the turn
	m := find("command", "SORT members", 100e3, func() { c.Must("SORT", "members", "BY", "nosuch:*", "LIMIT", 0, 10) })
	if m["key"] != "members" || m["name"] != "planter" || figure(t, m, "cpu-usec") == 0 {
		t.Errorf("SORT: %v", m)
	}

	for _, script := range [][]any{
		{"local n = 0 for i = 1, 3e7 do n = n + i end return n", 0},
		{"for i = 1, 5 do redis.call('SORT', KEYS[1], 'BY', 'nosuch:*', 'LIMIT', '0', '10') end", 1, "members"},
	} {
		sum := sha1.Sum([]byte(script[0].(string)))
		m := find("script", hex.EncodeToString(sum[:]), 100e3, func() { c.Must(append([]any{"EVAL"}, script...)...) })
		if m["name"] != "planter" {
			t.Errorf("EVAL: %v", m)
		}
	}

	find("machine", "", 1000e3, func() {
		s.Signal(syscall.SIGSTOP)
		time.Sleep(1500 * time.Millisecond)
		s.Signal(syscall.SIGCONT)
		c.Must("PING")
	})

	_, metrics := fetch(t, "http://"+address+"/metrics")
	for _, kind := range []string{"command", "script", "machine"} {
		if !strings.Contains(metrics, `spindle_stalls_total{kind="`+kind+`"} `) ||
			strings.Contains(metrics, `spindle_stalls_total{kind="`+kind+`"} 0`) {
			t.Errorf("/metrics counts no stall of kind %s", kind)
		}
	}
	s.Do("CONFIG", "SET", "stall-log-max-len", 1)
	c.Must("DEBUG", "SLEEP", "0.15")
	c.Must("DEBUG", "SLEEP", "0.16")
	if n := s.Do("STALLS", "LEN").Int; n != 1 {
		t.Errorf("%d entries are kept of at most 1", n)
	}
	s.Do("STALLS", "RESET")
	s.Do("CONFIG", "SET", "stall-threshold", 0)
	c.Must("DEBUG", "SLEEP", "0.2")
	if n := s.Do("STALLS", "LEN").Int; n != 0 {
		t.Errorf("switched off: %d entries", n)
	}
	for _, bad := range [][]any{{"STALLS"}, {"STALLS", "GET", -2}, {"STALLS", "GET", "x"}, {"STALLS", "GET", 1, 2},
		{"STALLS", "LEN", 1}} {
		if v, err := s.Ask(bad...); err != nil || v.Err() == nil {
			t.Errorf("%v: %v %v", bad, v, err)
		}
	}
}
