package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	l.now = func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 7_999_999, time.UTC) }
	l.pid = 42
	l.Debug("hidden")
	l.Notice("100%")
	l.SetRole('S')
	l.Warning("%d keys", 3)
	l.SetLevel(LevelDebug)
	l.Debug("d")
	l.Verbose("v")
	l.At(LevelNotice, "n")
	l.SetLevel(LevelNothing)
	l.Warning("hidden")
	l.Raw("raw\n")
	l.SetLevel(LevelNotice)
	l.Signal(LevelWarning, "Received SIGTERM")
	want := "42:M 03 Feb 2026 04:05:06.007 * 100%\n" +
		"42:S 03 Feb 2026 04:05:06.007 # 3 keys\n" +
		"42:S 03 Feb 2026 04:05:06.007 . d\n" +
		"42:S 03 Feb 2026 04:05:06.007 - v\n" +
		"42:S 03 Feb 2026 04:05:06.007 * n\n" +
		"raw\n" +
		fmt.Sprintf("42:signal-handler (%d) Received SIGTERM\n", l.now().Unix())
	if out.String() != want {
		t.Errorf("\n%swant\n%s", out.String(), want)
	}
}

// TestForms: logfmt and JSON have the fields of valkey-server 9.1.2, and each line is whole whatever text it has.
func TestForms(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	l.now = func() time.Time {
		return time.Date(2026, 2, 3, 4, 5, 6, 7_999_999, time.FixedZone("", -5*3600-1800))
	}
	l.pid = 42
	text := "a \"quoted\" \\ é\r\n\t\x01\xff"
	for _, c := range []struct {
		format Format
		stamp  Stamp
		want   string
	}{
		{FormatLegacy, StampISO8601, "42:M 2026-02-03T04:05:06.007-05:30 # " + text + "\n"},
		{FormatLegacy, StampMilliseconds, "42:M 1770111306007 # " + text + "\n"},
		{FormatLogfmt, StampLegacy, "pid=42 role=primary timestamp=\"03 Feb 2026 04:05:06.007\" level=warning " +
			"message=\"a 'quoted' \\ é  \t\x01\xff\"\n"},
		{FormatJSON, StampISO8601, `{"pid":42,"role":"primary","timestamp":"2026-02-03T04:05:06.007-05:30",` +
			`"level":"warning","message":"a \"quoted\" \\ é\r\n\t\u0001` + "\ufffd\"}\n"},
	} {
		out.Reset()
		l.SetForm(c.format, c.stamp)
		l.Warning("%s", text)
		if out.String() != c.want {
			t.Errorf("\n%swant\n%s", out.String(), c.want)
		}
		if c.format != FormatJSON {
			continue
		}
		var fields struct{ Message string }
		if err := json.Unmarshal(out.Bytes(), &fields); err != nil || fields.Message != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("read back: %q, %v", fields.Message, err)
		}
	}
	out.Reset()
	l.SetRole('S')
	l.SetForm(FormatLogfmt, StampMilliseconds)
	l.SetLevel(LevelDebug)
	l.Debug("d")
	l.Verbose("v")
	l.Signal(LevelWarning, "\nReceived SIGALRM")
	want := "pid=42 role=replica timestamp=\"1770111306007\" level=debug message=\"d\"\n" +
		"pid=42 role=replica timestamp=\"1770111306007\" level=info message=\"v\"\n" +
		"pid=42 role=replica timestamp=\"1770111306007\" level=warning message=\"Received SIGALRM\"\n"
	if out.String() != want {
		t.Errorf("\n%swant\n%s", out.String(), want)
	}
}

// TestFileMayMove: after a log file is moved away, a new one begins.
func TestFileMayMove(t *testing.T) {
	var out bytes.Buffer
	path := filepath.Join(t.TempDir(), "log")
	l := New(&out)
	l.ToFile(path)
	l.Notice("one")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Notice("two")
	for name, want := range map[string]string{path + ".1": `^\d+:M .* \* one\n$`, path: `^\d+:M .* \* two\n$`} {
		b, err := os.ReadFile(name)
		if err != nil || !regexp.MustCompile(want).Match(b) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if out.Len() != 0 {
		t.Errorf("%q went to the standard output", out.String())
	}
}

func TestNilIsSilent(t *testing.T) {
	var l *Logger
	l.Notice("x")
	l.Raw("x")
	l.Signal(LevelWarning, "x")
	if l.Enabled(LevelWarning) {
		t.Error("a nil logger is enabled")
	}
}
