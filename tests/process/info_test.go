package process

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestInfoTells: some INFO fields are 0 until an event raises them, as in Redis 7.4. CONFIG RESETSTAT resets them.
func TestInfoTells(t *testing.T) {
	s := testkit.Start(t)
	rises := func(section, field string) {
		t.Helper()
		if n := s.InfoInt(section, field); n <= 0 {
			t.Errorf("INFO %s: %s is %d", section, field, n)
		}
	}
	is := func(section, field string, want int64) {
		t.Helper()
		if n := s.InfoInt(section, field); n != want {
			t.Errorf("INFO %s: %s is %d, want %d", section, field, n, want)
		}
	}

	s.Ask("AUTH", "nobody", "x")
	is("stats", "acl_access_denied_auth", 1)

	s.Do("SET", "k", "v")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	s.Ask("SET", "k", "v") // refused: the policy evicts no key
	testkit.Until(t, testkit.Slowly(5*time.Second), "over the limit", func() error {
		if s.InfoInt("stats", "current_eviction_exceeded_time") == 0 {
			return testkit.Equal("0", "more")
		}
		return nil
	})
	s.Do("CONFIG", "SET", "maxmemory", "0")
	is("stats", "current_eviction_exceeded_time", 0)
	rises("stats", "total_eviction_exceeded_time")

	for _, field := range []string{"eventloop_duration_cron_sum",
		"eventloop_duration_max", "eventloop_cmd_per_cycle_max"} {
		rises("debug", field)
	}
	if _, shown := s.Info("everything")["eventloop_duration_cron_sum"]; shown {
		t.Error("INFO everything shows what only INFO debug does")
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "lately", func() error {
		info := s.Info("stats")
		if info["instantaneous_eventloop_duration_usec"] == "0" || info["instantaneous_eventloop_cycles_per_sec"] == "0" {
			return testkit.Equal("0", "more")
		}
		return nil
	})

	s.Do("CONFIG", "RESETSTAT")
	is("stats", "acl_access_denied_auth", 0)
	is("stats", "total_eviction_exceeded_time", 0)
}

// TestMailIsCounted: INFO memory shows the bytes of messages from other loops that the loops have not read yet.
func TestMailIsCounted(t *testing.T) {
	s := testkit.Start(t, "--io-threads", "2")
	s.AwaitInfo(10*time.Second, "memory", "memory_mail", "0")
}

// TestLoopsInInfo: INFO says how many event loops serve, and why. Without io-threads the server begins with one.
func TestLoopsInInfo(t *testing.T) {
	t.Setenv("SPINDLE_TEST_IO_THREADS", "")
	for _, c := range []struct {
		args                  []string
		count, active, choice string
	}{
		{nil, "1", "0", "automatic"},
		{[]string{"--io-threads", "1"}, "1", "0", "set"},
		{[]string{"--io-threads", "3"}, "3", "1", "set"},
	} {
		s := testkit.Start(t, c.args...)
		in := s.Info("server")
		if in["io_threads_count"] != c.count || in["io_threads_active"] != c.active || in["io_threads_choice"] != c.choice ||
			in["io_threads_reason"] == "" {
			t.Errorf("%v: %s loops, active %s, %s: %s", c.args, in["io_threads_count"], in["io_threads_active"],
				in["io_threads_choice"], in["io_threads_reason"])
		}
		if got := s.Do("CONFIG", "GET", "io-threads").Elems[1].Text; got != c.count {
			t.Errorf("%v: io-threads is %q", c.args, got)
		}
	}
}

// TestMemoryDoctorGivesFigures: each finding of MEMORY DOCTOR has its size in bytes.
func TestMemoryDoctorGivesFigures(t *testing.T) {
	s := testkit.Start(t)
	if got := s.Do("MEMORY", "DOCTOR").Text; !strings.Contains(got, "very little memory, ") {
		t.Errorf("empty: %q", got)
	}
	for i := range 20 {
		s.Do("SET", i, strings.Repeat("x", 1<<20))
	}
	says := func(when, pattern string) {
		t.Helper()
		if got := s.Do("MEMORY", "DOCTOR").Text; !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: %q", when, got)
		}
	}
	says("full", `No memory issue .*: 2\d\.\d+M used, fragmentation ratio \d\.`)
	for i := range 14 {
		s.Do("DEL", i)
	}
	says("after most is gone", `the peak was 2\d\.\d+M, [23]\.\d+ times the \d\.\d+M`)
}
