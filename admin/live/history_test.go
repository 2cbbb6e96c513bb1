package live

import (
	"encoding/json"
	"slices"
	"testing"
	"unsafe"
)

// TestHistory: two days of samples; the rings hold their last ten minutes and 24 hours, in order.
func TestHistory(t *testing.T) {
	if size := unsafe.Sizeof(History{}); size > 256<<10 {
		t.Errorf("a history takes %d bytes", size)
	}
	var h History
	const start, last = 1_000_000_020, 1_000_000_020 + 2*86400 // at the beginning of a minute
	for at := int64(start); at <= last; at++ {
		h.Add(at, Sample{OpsPerSecond: float64(at % 60), Keys: float64((at - start) / 60)})
	}
	fine := h.Points(false, 0)
	if n := len(fine["at"]); n != seconds || fine["at"][n-1] != last || fine["at"][0] != last-seconds+1 {
		t.Errorf("%d seconds, from %v to %v", n, fine["at"][0], fine["at"][n-1])
	}
	day := h.Points(true, 0)
	n := len(day["at"])
	if n != minutes || !slices.IsSorted(day["at"]) || day["at"][n-1] != last-60 || day["at"][0] != last-86400 {
		t.Errorf("%d minutes, from %v to %v", n, day["at"][0], day["at"][n-1])
	}
	if day["ops"][5] != 29.5 || day["keys"][n-1] != 2*1440-1 {
		t.Errorf("a minute's mean is %v, want 29.5; the last minute has %v keys", day["ops"][5], day["keys"][n-1])
	}
	more := h.Points(false, last-3)
	if !slices.Equal(more["at"], []float64{last - 2, last - 1, last}) || len(more["ops"]) != 3 {
		t.Errorf("since three seconds: %v", more)
	}
	if more := h.Points(true, last); len(more["at"]) != 0 {
		t.Errorf("since now: %v", more)
	}
	for _, name := range names {
		if len(day[name]) != n {
			t.Errorf("%s has %d points of %d", name, len(day[name]), n)
		}
	}
}

// TestPrintable: what a terminal or a page might act on is shown as bytes.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "größe 大": "größe 大", "<b>": "<b>", "two\r\nlines": "two\r\nlines",
		"a\x00b": `a\x00b`, "\xff\xfe": `\xff\xfe`, "\x1b[31m": `\x1b[31m`,
		"\u202egnp.exe": `\xe2\x80\xaegnp.exe`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzLine: any line is cut without a panic, and what is quoted comes back.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{`GET "a\x41b"`, `a 'b c' d`, `"\`, `''`, `"\x4`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args, err := splitLine(line)
		if err == nil && len(args) > 0 {
			consoleTakes(args)
		}
		for _, a := range args {
			if len(a) > len(line) {
				t.Errorf("%q: an argument of %d bytes", line, len(a))
			}
		}
	})
}

// FuzzReply: any reply becomes what JSON can say.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n+a\r\n,inf\r\n", "_\r\n", "-ERR x\r\n", "=7\r\ntxt:abc\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if _, err := json.Marshal(readReply(reply)); err != nil {
			t.Errorf("%q: %v", reply, err)
		}
	})
}
