package scan

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// scanAll splits wire into replies with Scans of the given sizes (the last size repeats). It returns a line for each
// end and for the error.
func scanAll(t testing.TB, wire []byte, cuts []int) (got []string) {
	t.Helper()
	var s Scanner
	at := 0
	for i := 0; at < len(wire); i++ {
		end := len(wire)
		if len(cuts) > 0 {
			end = min(end, at+max(1, cuts[min(i, len(cuts)-1)]))
		}
		for p := bytes.Clone(wire[at:end]); len(p) > 0; {
			n, complete, err := s.Scan(p)
			at += n
			if err != nil {
				if n >= len(p) {
					t.Fatalf("the wrong byte is at %d of %d", n, len(p))
				}
				return append(got, fmt.Sprintf("%d: %v", at, err))
			}
			if complete {
				got = append(got, fmt.Sprintf("%d: %c %d", at, s.Kind, s.Refusal))
			} else if n != len(p) {
				t.Fatalf("Scan took %d of %d bytes without an end", n, len(p))
			}
			if complete != s.Idle() {
				t.Fatalf("complete is %t, Idle is %t", complete, s.Idle())
			}
			p = p[n:]
		}
	}
	return got
}

var replies = []string{
	"+OK\r\n", "+\r\n", "+PONG\r\n", "+a\rb\nc\r\r\n", "+a\nb\r\n", "+\r\r\n", "+QUEUED\r\n", ":-2\r\n", ":-10\r\n",
	"-ERR no\r\n", "-\r\n", "-X\r\n", "-MOVED 1 h:1\r\n", "-MOVED\r\n", "-CLUSTERDOWN The cluster is down\r\n",
	"-CLUSTERDOWNX\r\n", ":0\r\n", ":-1\r\n", ":9223372036854775807\r\n", "$0\r\n\r\n", "$-1\r\n", "$5\r\nhello\r\n",
	"$11\r\n*1\r\n$3\r\nabc\r\n", "*0\r\n", "*-1\r\n", "*2\r\n:1\r\n$1\r\na\r\n", "_\r\n", "#t\r\n", "#f\r\n", ",1.5\r\n",
	",inf\r\n", "(123456789012345678901234567890\r\n", "!5\r\nERR x\r\n", "=5\r\ntxt:a\r\n", "%0\r\n",
	"%1\r\n+a\r\n*1\r\n*1\r\n-ERR x\r\n", "~2\r\n_\r\n#t\r\n", ">2\r\n+message\r\n*0\r\n", "|1\r\n+ttl\r\n:3\r\n",
	"|0\r\n", "*2\r\n|1\r\n+a\r\n:1\r\n:2\r\n|2\r\n+a\r\n%1\r\n+b\r\n:1\r\n+c\r\n_\r\n$1\r\nx\r\n", "*1\r\n|0\r\n*0\r\n",
	"*1\r\n-MOVED 1 h:1\r\n", strings.Repeat("*1\r\n", 1000) + ":1\r\n",
	"*3\r\n*2\r\n*1\r\n+OK\r\n+OK\r\n%1\r\n+OK\r\n*0\r\n_\r\n", "$100\r\n" + strings.Repeat("x", 100) + "\r\n",
}

var noReplies = []string{
	"x", "\r\n", "PING\r\n", "$?\r\n", "*?\r\n", "%?\r\n", ";4\r\n", ".\r\n", "$\r\n", "$-2\r\n", "$-0\r\n", "$01\r\n",
	"$1x\r\n", "*-2\r\n", "%-1\r\n", "=-1\r\n", "$1\r\nabc\r\n", "$1\r\na\rb", "$1\n", ":-0\r\n", ":-01\r\n", ":-\r\n",
	"_\rx", "#t\rx", ":\r\n", ":+1\r\n", ":1\n", ":1\r\r\n", ":--1\r\n", ":12345678901234567890\r\n", "$4294967297\r\n",
	"*4294967296\r\n", "%2147483648\r\n", "#x\r\n", "#tt\r\n", "_x\r\n", "*1\r\n>0\r\n", "*2\r\n:1\r\nOK\r\n",
}

// TestScan: Scan finds the ends of replies that follow each other, at any cut.
func TestScan(t *testing.T) {
	var want []string
	at := 0
	for _, r := range replies {
		at += len(r)
		var s Scanner
		if n, complete, err := s.Scan([]byte(r)); n != len(r) || !complete || err != nil {
			t.Errorf("%.40q: n is %d of %d, complete is %t, error %v", r, n, len(r), complete, err)
		}
		want = append(want, fmt.Sprintf("%d: %c %d", at, s.Kind, s.Refusal))
		for end := range len(r) {
			s.Reset()
			if n, complete, err := s.Scan([]byte(r[:end])); n != end || complete || err != nil {
				t.Errorf("%.40q: n is %d, complete is %t, error %v", r[:end], n, complete, err)
			}
		}
	}
	wire := []byte(strings.Join(replies, ""))
	for _, cuts := range [][]int{nil, {1}, {2}, {3, 1}, {7}, {1, 2, 3, 5, 8, 13, 21}} {
		if got := scanAll(t, wire, cuts); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("cuts %v: got %q\nwant %q", cuts, got, want)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for _, r := range noReplies {
		got := scanAll(t, []byte(r+"+OK\r\n"), nil)
		if len(got) != 1 || !strings.Contains(got[0], ": ") || regexp.MustCompile(`: . \d+$`).MatchString(got[0]) {
			t.Errorf("%q: %q", r, got)
		}
		if each := scanAll(t, []byte(r+"+OK\r\n"), []int{1}); strings.Join(got, "\n") != strings.Join(each, "\n") {
			t.Errorf("%q: at once %q, byte by byte %q", r, got, each)
		}
	}
}

func TestRefusals(t *testing.T) {
	for line, want := range map[string]Refusal{
		"+MOVED 1 h:1": NotRefused, "-MOVED 3999 127.0.0.1:6381": Moved, "-ASK 3999 h:1": Ask,
		"-TRYAGAIN Multiple keys": TryAgain, "-CLUSTERDOWN Hash slot not served": ClusterDown,
		"-LOADING Redis is loading": Loading, "-READONLY You can't": ReadOnly, "-MASTERDOWN Link": PrimaryDown,
		"-NOSCRIPT No": NoScript, "-ERR x": OtherError, "-moved 1 h:1": OtherError, "-MOVEDX": OtherError, "-": OtherError,
		"-ASKING": OtherError, "-" + strings.Repeat("X", 100): OtherError, "!3\r\nASK": OtherError,
	} {
		for cut := 1; cut <= len(line)+2; cut++ {
			var s Scanner
			p := []byte(line + "\r\n")
			for len(p) > 0 {
				n, _, err := s.Scan(p[:min(cut, len(p))])
				if err != nil {
					t.Fatal(err)
				}
				p = p[n:]
			}
			if s.Refusal != want || !s.Idle() {
				t.Errorf("%q in pieces of %d: %d, want %d", line, cut, s.Refusal, want)
			}
		}
	}
}

// plainEnd is the simplest form of Scan, for a reply that is whole in p. It returns -1 for everything else.
func plainEnd(p []byte, nested bool) int {
	line, rest, found := bytes.Cut(p, []byte("\r\n"))
	if !found || len(line) == 0 {
		return -1
	}
	at, text := len(p)-len(rest), string(line[1:])
	switch line[0] {
	case '+', '-', ',', '(':
		return at
	case '_':
		return endIf(text == "", at)
	case '#':
		return endIf(text == "t" || text == "f", at)
	case ':':
		return endIf(regexp.MustCompile(`^(0|-?[1-9][0-9]{0,18})$`).MatchString(text), at)
	}
	if text == "-1" && (line[0] == '$' || line[0] == '*') {
		return at
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return -1
	}
	switch line[0] {
	case '$', '!', '=':
		if n > int64(len(rest)-2) || string(rest[n:n+2]) != "\r\n" {
			return -1
		}
		return at + int(n) + 2
	case '>':
		if nested {
			return -1
		}
	case '%', '|':
		n *= 2
	case '*', '~':
	default:
		return -1
	}
	if line[0] == '|' && nested {
		n++
	}
	for range n {
		size := plainEnd(p[at:], true)
		if size < 0 {
			return -1
		}
		at += size
	}
	return at
}

func endIf(good bool, at int) int {
	if good {
		return at
	}
	return -1
}

// FuzzScan: the cuts of the network change neither ends nor errors, and the ends are those that plainEnd finds.
func FuzzScan(f *testing.F) {
	for i, r := range append(replies, noReplies...) {
		if len(r) < 200 {
			f.Add([]byte(r+replies[i%len(replies)]), uint8(i), uint8(3*i))
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, first, second uint8) {
		if len(wire) > 4096 {
			return
		}
		whole := scanAll(t, wire, nil)
		for _, cuts := range [][]int{{1}, {int(first)}, {int(first), int(second)}} {
			if got := scanAll(t, wire, cuts); strings.Join(got, "\n") != strings.Join(whole, "\n") {
				t.Fatalf("%q, cuts %v: %q, at once %q", wire, cuts, got, whole)
			}
		}
		at := 0
		for _, line := range whole {
			end := plainEnd(wire[at:], false)
			failed := !regexp.MustCompile(`^\d+: . \d+$`).MatchString(line)
			if failed != (end < 0) || !failed && !strings.HasPrefix(line, fmt.Sprintf("%d: ", at+end)) {
				t.Fatalf("%q: Scan says %q, plainEnd says %d", wire[at:], line, end)
			}
			at += end
		}
		if at >= 0 && at < len(wire) && (len(whole) == 0 || at > 0) && plainEnd(wire[at:], false) >= 0 {
			t.Fatalf("%q is a reply, but Scan does not end it", wire[at:])
		}
	})
}

func TestScanDoesNotAllocate(t *testing.T) {
	wire := []byte(strings.Join(replies, ""))
	var s Scanner
	allocs := testing.AllocsPerRun(10, func() {
		for p := wire; len(p) > 0; {
			n, _, err := s.Scan(p)
			if err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkScan finds the end of one reply. Watch allocs/op: 0.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct{ name, reply string }{
		{"OK", "+OK\r\n"}, {"integer", ":1234\r\n"}, {"string", "$16\r\n0123456789abcdef\r\n"}, {"null", "$-1\r\n"},
		{"negative", ":-1\r\n"}, {"PONG", "+PONG\r\n"}, {"error", "-ERR unknown command\r\n"},
		{"array of 100", "*100\r\n" + strings.Repeat("$3\r\nabc\r\n", 100)},
		{"64 KB", "$65536\r\n" + strings.Repeat("x", 65536) + "\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s Scanner
			p := []byte(c.reply)
			b.ReportAllocs()
			for b.Loop() {
				if _, complete, _ := s.Scan(p); !complete {
					b.Fatal("no end")
				}
			}
		})
	}
}
