package str

import (
	"bytes"
	"strings"
	"testing"

	"spindle/engine/command"
)

func TestSetOptions(t *testing.T) {
	for _, c := range []struct {
		options string
		want    setOptions
		refused bool
	}{
		{"NX", setOptions{onlyNew: true}, false},
		{"xx get", setOptions{onlyOld: true, get: true}, false},
		{"EX 10", setOptions{unit: ex, expiry: []byte("10")}, false},
		{"PXAT 10 NX GET", setOptions{unit: pxAt, expiry: []byte("10"), onlyNew: true, get: true}, false},
		{"EX 10 EX 20", setOptions{unit: ex, expiry: []byte("20")}, false},
		{"KEEPTTL KEEPTTL", setOptions{keepTTL: true}, false},
		{"NX XX", setOptions{}, true},
		{"EX", setOptions{}, true},
		{"EX 10 PX 10", setOptions{}, true},
		{"KEEPTTL EX 10", setOptions{}, true},
		{"EX 10 KEEPTTL", setOptions{}, true},
		{"PERSIST", setOptions{}, true},
		{"IFEQ v", setOptions{only: condition{is: equal, arg: []byte("v")}}, false},
		{"IFNE GET EX 10", setOptions{only: condition{is: different, arg: []byte("GET")}, unit: ex, expiry: []byte("10")},
			false},
		{"IFDEQ 0123456789abcdeF", setOptions{only: condition{is: sameDigest, arg: []byte("0123456789abcdeF")}}, false},
		{"IFDNE 0123456789abcde", setOptions{}, true},
		{"IFDNE 0123456789abcdeg", setOptions{}, true},
		{"IFEQ v XX", setOptions{}, true},
		{"XX IFEQ v", setOptions{}, true},
		{"IFEQ v IFEQ v", setOptions{}, true},
		{"IFEQ", setOptions{}, true},
	} {
		var got setOptions
		err := got.parse(bytes.Fields([]byte(c.options)))
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.options, err)
		}
		if err == nil && (got.onlyNew != c.want.onlyNew || got.onlyOld != c.want.onlyOld || got.get != c.want.get ||
			got.only.is != c.want.only.is || !bytes.Equal(got.only.arg, c.want.only.arg) ||
			got.keepTTL != c.want.keepTTL || got.unit != c.want.unit || !bytes.Equal(got.expiry, c.want.expiry)) {
			t.Errorf("%s: %+v", c.options, got)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		start, end int64
		length     int
		from, to   int
	}{
		{0, -1, 5, 0, 5}, {1, 2, 5, 1, 3}, {-2, -1, 5, 3, 5}, {3, 1, 5, 0, 0}, {-1, -2, 5, 0, 0}, {0, 100, 5, 0, 5},
		{5, 5, 5, 0, 0}, {-100, -50, 5, 0, 1}, {-50, -100, 5, 0, 0}, {0, 0, 0, 0, 0}, {-1 << 63, 1<<63 - 1, 5, 0, 5},
	} {
		if from, to := clip(c.start, c.end, c.length); from != c.from || to != c.to {
			t.Errorf("clip(%d, %d, %d) = %d, %d; want %d, %d", c.start, c.end, c.length, from, to, c.from, c.to)
		}
	}
}

func TestDeadline(t *testing.T) {
	const now = 1_700_000_000_000
	c := &command.Context{Now: now, Spec: &command.Spec{Full: "set"}}
	for _, k := range []struct {
		unit unit
		arg  string
		want int64 // 0 if refused
	}{
		{ex, "10", now + 10_000}, {px, "10", now + 10}, {exAt, "10", 10_000}, {pxAt, "10", 10},
		{ex, "0", 0}, {ex, "-1", 0}, {px, "0", 0}, {exAt, "0", 0}, {pxAt, "-5", 0}, {ex, "x", 0}, {px, "1.5", 0},
		{ex, "9223372036854775", 0}, {ex, "9223372036854776", 0}, {exAt, "9223372036854775", 9223372036854775000},
		{px, "9223372036854775807", 0}, {pxAt, "9223372036854775807", 9223372036854775807},
	} {
		got, err := deadline(c, k.unit, []byte(k.arg))
		if (err != nil) != (k.want == 0) || err == nil && got != k.want {
			t.Errorf("unit %d, %s: %d, %v; want %d", k.unit, k.arg, got, err, k.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("unit %d, %s: %v", k.unit, k.arg, err)
		}
	}
}
