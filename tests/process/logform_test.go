package process

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestLogIsJSON: with log-format json every log line of a server, even that of a signal, is an object with the same
// fields. CONFIG SET changes the format of later lines.
func TestLogIsJSON(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--log-format", "json", "--log-timestamp-format", "iso8601", "--enable-debug-command", "yes")
	s.Do("DEBUG", "LOG", "say \"this\"\nand that")
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(20 * time.Second); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	var all []string
	for line := range strings.Lines(s.Log()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		at, _ := fields["timestamp"].(string)
		if _, err := time.Parse("2006-01-02T15:04:05.000Z07:00", at); err != nil || len(fields) != 5 ||
			fields["role"] != "primary" || fields["pid"] == 0 || fields["level"] == "" {
			t.Errorf("%q: %v", line, err)
		}
		text, _ := fields["message"].(string)
		all = append(all, text)
	}
	for _, want := range []string{"Redis is starting", "DEBUG LOG: say \"this\"\nand that",
		"Received SIGTERM scheduling shutdown...", "bye bye"} {
		if !strings.Contains(strings.Join(all, "|"), want) {
			t.Errorf("no line has %q", want)
		}
	}

	s = testkit.Start(t, "--enable-debug-command", "yes")
	s.Do("CONFIG", "SET", "log-format", "logfmt", "log-timestamp-format", "milliseconds")
	s.Do("DEBUG", "LOG", "a \"b\"")
	s.AwaitLog(10*time.Second, " level=warning message=\"DEBUG LOG: a 'b'\"")
}
