package limits

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// set streams a value of n bytes. Each piece begins with its own position, so the test needs no copy of the value.
func set(t *testing.T, conn net.Conn, key string, n int) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, n); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; at += pieceBytes {
		if _, err := conn.Write(piece(at)[:min(pieceBytes, n-at)]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Write([]byte("\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 5)
	if _, err := io.ReadFull(conn, reply); err != nil || string(reply) != "+OK\r\n" {
		t.Fatalf("SET of %d bytes: %q %v", n, reply, err)
	}
}

// cost returns the CPU time that the server uses during f. Unlike elapsed time, it does not grow with the load of the
// host.
func cost(t *testing.T, s *testkit.Server, f func()) time.Duration {
	t.Helper()
	used := func() (sum time.Duration) {
		figures := s.Info("cpu")
		for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
			part, err := time.ParseDuration(figures[name] + "s")
			if err != nil {
				t.Fatalf("INFO cpu: %s: %v", name, err)
			}
			sum += part
		}
		return sum
	}
	before := used()
	f()
	return used() - before
}

const pieceBytes = 1 << 20

var pattern = bytes.Repeat([]byte("0123456789abcdef"), pieceBytes/16)

// piece returns the bytes at an offset: a pattern that begins with the offset.
func piece(at int) []byte {
	copy(pattern, fmt.Sprintf("%015d.", at))
	return pattern
}

// get reads the value back and compares it. In the middle it calls half.
func get(t *testing.T, conn net.Conn, key string, n int, half func()) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET %s\r\n", key); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	head, err := in.ReadString('\n')
	if err != nil || head != "$"+strconv.Itoa(n)+"\r\n" {
		t.Fatalf("GET: %q %v", head, err)
	}
	buf := make([]byte, pieceBytes)
	for at := 0; at < n; at += pieceBytes {
		got := buf[:min(pieceBytes, n-at)]
		if _, err := io.ReadFull(in, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, piece(at)[:len(got)]) {
			t.Fatalf("other bytes came back from %d on", at)
		}
		if at <= n/2 && at+pieceBytes > n/2 {
			half()
		}
	}
	if _, err := in.Discard(2); err != nil {
		t.Fatal(err)
	}
}

// TestGreatestValue: 512 MB are written and read in CPU time proportional to the length, without a second copy
// anywhere. The deletion makes no turn long.
func TestGreatestValue(t *testing.T) {
	const small, great = 32 << 20, 512 << 20
	if testkit.Checked {
		t.Skip("this build poisons blocks or has slabs on the Go heap: run it without -race and -tags invariants")
	}
	s := testkit.Start(t, "--measure-turn-cpu", "yes")
	s.Do("PING")
	resident := s.RSS()
	conn := dial(t, s.Addr)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	heap := func(when string) {
		t.Helper()
		if n := s.InfoInt("memory", "go_heap"); n > 96<<20 {
			t.Errorf("%s: %d MB of Go heap", when, n>>20)
		}
		if n := s.RSS() - resident; n > great+great/4+96<<20 {
			t.Errorf("%s: %d MB resident", when, n>>20)
		}
	}
	first := cost(t, s, func() { set(t, conn, "small", small) })
	took := cost(t, s, func() { set(t, conn, "great", great) })
	if bound := 4*great/small*first + 3*time.Second; took > bound {
		t.Errorf("SET of %d MB took %v, of %d MB %v: not linear", great>>20, took, small>>20, first)
	}
	heap("after SET")
	s.Do("DEL", "small")
	read := cost(t, s, func() { get(t, conn, "great", great, func() { heap("in the middle of GET") }) })
	t.Logf("SET %v, GET %v", took, read)
	heap("after GET")
	if n := s.Do("STRLEN", "great").Int; n != great {
		t.Errorf("STRLEN %d", n)
	}
	if v, err := s.Ask("APPEND", "great", "x"); err != nil ||
		!strings.HasPrefix(v.Text, "ERR string exceeds maximum allowed size") {
		t.Errorf("APPEND beyond the greatest length: %v %v", v, err)
	}
	turns(t, s, "SETRANGE", func() {}, func() { s.Do("SETRANGE", "great", great/2, "changed") })
	turns(t, s, "overwriting", func() {
		if s.Do("STRLEN", "great").Int != great {
			set(t, conn, "great", great)
		}
	}, func() { s.Do("SET", "great", "small") })
	returned(t, s, resident+96<<20)
}
