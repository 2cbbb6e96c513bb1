package process

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestLaneUnderTurns: the turn is alternately held, lent, paused and free. Honest clients of the lane get the replies
// to their requests in order, even though their requests arrive in random pieces. Odd clients send random bytes and
// disconnect at any point. At the end none of their clients and goroutines are left.
func TestLaneUnderTurns(t *testing.T) {
	address := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
	s, dial := withLane(t, "--admin-address", address)
	lane := dial().Conn().RemoteAddr().String()
	goroutines := func() int {
		r, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(text), "\ngo_goroutines ")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := goroutines()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var over atomic.Bool
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() { honest(t, lane, rand.New(rand.NewPCG(seed, uint64(i))), &over) })
		wait.Go(func() { odd(lane, rand.New(rand.NewPCG(seed, uint64(100+i))), &over) })
	}
	holder, free := s.Dial(), dial()
	free.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	for range 6 * testkit.Scale() {
		holder.Must("DEBUG", "SLEEP", "0.05")
		holder.Must("CLIENT", "PAUSE", 50)
		holder.Must("PING")
		holder.Send("EVAL", "while true do end", 0)
		holder.Flush()
		testkit.Until(t, testkit.Slowly(20*time.Second), "the script's end", func() error {
			if v, err := free.Do("SCRIPT", "KILL"); err != nil || v.Text != "OK" {
				return fmt.Errorf("%v %v", v, err)
			}
			return nil
		})
		holder.Receive()
	}
	over.Store(true)
	wait.Wait()
	testkit.Until(t, testkit.Slowly(20*time.Second), "the end of all that came", func() error {
		list := s.Do("CLIENT", "LIST").Text
		if n := strings.Count(list, "\n"); n > 2 { // the test kit's connection, and holder
			return fmt.Errorf("%d clients:\n%s", n, list)
		}
		if n := goroutines(); n > before+10 {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}

// honest sends batches in pieces, and compares the replies with the expected ones.
func honest(t *testing.T, address string, rng *rand.Rand, over *atomic.Bool) {
	c, err := respclient.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	n := 0
	for batch := 0; !over.Load(); batch++ {
		var bytes []byte
		var want []string
		add := func(reply string, args ...string) {
			bytes = fmt.Appendf(bytes, "*%d\r\n", len(args))
			for _, a := range args {
				bytes = fmt.Appendf(bytes, "$%d\r\n%s\r\n", len(a), a)
			}
			want = append(want, reply)
		}
		for range 1 + rng.IntN(12) {
			word := fmt.Sprint("w", rng.IntN(1000))
			switch rng.IntN(9) {
			case 0:
				add("PONG", "PING")
			case 1:
				add(word, "PING", word)
			case 2:
				add("*'echo' is not served on the admin lane", "ECHO", word)
			case 3:
				n++
				add(fmt.Sprint(n), "PING", fmt.Sprint(n))
			case 4:
				add("ERR Invalid client ID", "CLIENT", "LIST", "ID", word)
			case 5:
				add("WRONGPASS invalid username-password pair or user is disabled.", "AUTH", "nobody", word)
			case 6:
				add("*redis_version", "INFO", "server")
			case 7:
				add("*proto", "HELLO", fmt.Sprint(2+rng.IntN(2)))
			case 8:
				large := strings.Repeat(word, 1+rng.IntN(20_000))
				add(large, "PING", large)
			}
		}
		for len(bytes) > 0 {
			cut := 1 + rng.IntN(len(bytes))
			if _, err := c.Conn().Write(bytes[:cut]); err != nil {
				t.Error(err)
				return
			}
			bytes = bytes[cut:]
		}
		for i, w := range want {
			v, err := c.Receive()
			got := v.Text
			if v.Elems != nil {
				got = v.String()
			}
			part, contains := strings.CutPrefix(w, "*")
			if err != nil || got != w && !(contains && strings.Contains(got, part)) {
				t.Errorf("batch %d, reply %d: %.200q %v, want %.200q", batch, i, got, err, w)
				return
			}
		}
	}
}

// odd connects, sends complete or partial requests, and disconnects, often without reading a reply.
func odd(address string, rng *rand.Rand, over *atomic.Bool) {
	words := []string{
		"PING\r\n", "QUIT\r\n", "MULTI\r\n", "BLPOP nothing 0\r\n", "SUBSCRIBE a\r\n", "MONITOR\r\n",
		"HELLO 3\r\n", "RESET\r\n", "CLIENT REPLY OFF\r\n", "CLIENT REPLY SKIP\r\n", "WAIT 1 10\r\n",
		"INFO everything\r\n", "AUTH a b\r\n", "HELLO 2 AUTH a b\r\n", "CLIENT LIST\r\n", "*x\r\n", "*1\r\n+x\r\n",
		"*1000000000\r\n", "*2\r\n$4\r\nECHO\r\n$500000000\r\nx", "$5\r\n", "\r\n", "\x00\xff",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab", "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00", "DISCARD\r\n", "CLIENT TRACKING ON\r\n", "WATCH k\r\n",
		"CLIENT KILL ID 0 SKIPME maybe\r\n", "CLIENT NO-EVICT off\r\n", "PSUBSCRIBE *\r\n",
	}
	for !over.Load() {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		for range rng.IntN(6) {
			w := words[rng.IntN(len(words))]
			if rng.IntN(4) == 0 {
				w = w[:rng.IntN(len(w)+1)]
			}
			io.WriteString(conn, w)
			if rng.IntN(3) == 0 {
				conn.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(20)) * time.Millisecond))
				conn.Read(make([]byte, 4096))
			}
		}
		if tcp := conn.(*net.TCPConn); rng.IntN(2) == 0 {
			tcp.SetLinger(0) // a reset
		} else if rng.IntN(2) == 0 {
			tcp.CloseWrite()
		}
		conn.Close()
	}
}
