package live

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"
)

// points returns a range in the form that the page gets.
func points(t *testing.T, h *History, name string, since int64) (at []int64, of map[string][]*float64) {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(h.JSON(name, since), &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw["at"], &at); err != nil {
		t.Fatal(err)
	}
	of = map[string][]*float64{}
	for _, row := range series {
		var list []*float64
		if err := json.Unmarshal(raw[row.name], &list); err != nil || len(list) != len(at) {
			t.Fatalf("%s: %v, %d of %d points", row.name, err, len(list), len(at))
		}
		of[row.name] = list
	}
	return at, of
}

// TestHistory: after two days of looks, the rings hold their last ten minutes, hour and day in order: means, and the
// maxima of peaks. A value that was not measured is null.
func TestHistory(t *testing.T) {
	h := newHistory()
	if size := 4 * len(series) * (finePoints + hourPoints + dayPoints); size > 400<<10 {
		t.Errorf("a history takes %d bytes", size)
	}
	const start, last = 1_000_000_020, 1_000_000_020 + 2*86400 // at the beginning of a minute
	for at := int64(start); at <= last; at++ {
		s := &second{now: map[string]string{"instantaneous_ops_per_sec": strconv.FormatInt(at%60, 10)}}
		if at%60 < 30 {
			s.stall = time.Duration(at%60) * time.Microsecond
		}
		h.Add(at, s)
	}
	at, of := points(t, h, "minutes", 0)
	if n := len(at); n != finePoints || at[n-1] != last || at[0] != last-finePoints+1 {
		t.Errorf("%d seconds, from %v to %v", n, at[0], at[n-1])
	}
	if of["p99"][3] != nil {
		t.Errorf("a latency that was not measured is %v", *of["p99"][3])
	}
	at, of = points(t, h, "day", 0)
	n := len(at)
	if n != dayPoints || !slices.IsSorted(at) || at[n-1] != last-60 || at[0] != last-86400 {
		t.Errorf("%d minutes, from %v to %v", n, at[0], at[n-1])
	}
	if *of["ops"][5] != 29.5 || *of["stall"][5] != 29 {
		t.Errorf("a minute's mean is %v, want 29.5; its peak is %v, want 29", *of["ops"][5], *of["stall"][5])
	}
	if at, of = points(t, h, "hour", 0); len(at) != hourPoints || at[1]-at[0] != hourStep || *of["ops"][0] != 4.5 {
		t.Errorf("%d points of the hour", len(at))
	}
	if at, _ = points(t, h, "minutes", last-3); !slices.Equal(at, []int64{last - 2, last - 1, last}) {
		t.Errorf("since three seconds: %v", at)
	}
	if at, _ = points(t, h, "day", last); len(at) != 0 {
		t.Errorf("since now: %v", at)
	}
}

// TestPrintable: characters on which a terminal or a page might act are shown as bytes.
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

// FuzzLine: any line is split without a panic, and quoted text comes back.
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

// FuzzReply: any reply becomes a value that JSON can express.
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

// TestKeysOfAllDatabases: the series keys counts the keys of each database, whatever its number.
func TestKeysOfAllDatabases(t *testing.T) {
	h := newHistory()
	h.Add(1_000_000_020, &second{now: map[string]string{"db0": "keys=3,expires=1", "db16": "keys=4,expires=0",
		"db_size": "1"}})
	if _, of := points(t, h, "minutes", 0); len(of["keys"]) != 1 || *of["keys"][0] != 7 {
		t.Errorf("%v", of["keys"])
	}
}
