package respclient

import (
	"bytes"
	"errors"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// serve accepts a connection, sends reply in pieces of step bytes, and closes. The bytes that it receives go to got.
func serve(t *testing.T, reply string, step int) (c *Client, got chan string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan string, 1)
	go func() {
		defer l.Close()
		peer, err := l.Accept()
		if err != nil {
			return
		}
		defer peer.Close()
		buf := make([]byte, 4096)
		n, _ := peer.Read(buf)
		got <- string(buf[:n])
		for rest := reply; rest != ""; {
			n := min(step, len(rest))
			if _, err := io.WriteString(peer, rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	if c, err = Dial("unix:" + l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c.SetTimeout(5 * time.Second)
	t.Cleanup(func() { c.Close() })
	return c, got
}

func TestSend(t *testing.T) {
	c, got := serve(t, "+OK\r\n", 100)
	if v := c.Must("SET", []byte("k"), 12, int64(-3), uint64(7), 1.5, time.Second); v.Text != "OK" {
		t.Error(v)
	}
	want := "*7\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n12\r\n$2\r\n-3\r\n$1\r\n7\r\n$3\r\n1.5\r\n$2\r\n1s\r\n"
	if sent := <-got; sent != want {
		t.Errorf("%q", sent)
	}
}

func TestReceive(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for wire, want := range map[string]Value{
		"+OK\r\n":           {Kind: '+', Text: "OK"},
		"-ERR no\r\n":       {Kind: '-', Text: "ERR no"},
		":-7\r\n":           {Kind: ':', Int: -7},
		"$5\r\na\r\nbc\r\n": {Kind: '$', Text: "a\r\nbc"},
		"$0\r\n\r\n":        {Kind: '$'},
		"$-1\r\n":           {Kind: '$', Null: true},
		"*-1\r\n":           {Kind: '*', Null: true},
		"_\r\n":             {Kind: '_', Null: true},
		"#t\r\n":            {Kind: '#', Int: 1},
		",1.5e3\r\n":        {Kind: ',', Text: "1.5e3"},
		"(123\r\n":          {Kind: '(', Text: "123"},
		"!5\r\nERR x\r\n":   {Kind: '!', Text: "ERR x"},
		"=7\r\ntxt:abc\r\n": {Kind: '=', Format: "txt", Text: "abc"},
		"*2\r\n:1\r\n*1\r\n+a\r\n": {Kind: '*', Elems: []Value{{Kind: ':', Int: 1},
			{Kind: '*', Elems: []Value{{Kind: '+', Text: "a"}}}}},
		"%1\r\n+k\r\n:1\r\n":           {Kind: '%', Elems: []Value{{Kind: '+', Text: "k"}, {Kind: ':', Int: 1}}},
		"~0\r\n":                       {Kind: '~', Elems: []Value{}},
		">1\r\n+p\r\n":                 {Kind: '>', Elems: []Value{{Kind: '+', Text: "p"}}},
		"|1\r\n+a\r\n:1\r\n+OK\r\n":    {Kind: '+', Text: "OK", Attrs: []Value{{Kind: '+', Text: "a"}, {Kind: ':', Int: 1}}},
		"$1048576\r\n" + long + "\r\n": {Kind: '$', Text: long},
	} {
		step := 1
		if len(wire) > 1000 {
			step = 60001
		}
		c, _ := serve(t, wire, step)
		c.Send("X")
		v, raw, err := c.ReceiveRaw()
		if err != nil || !reflect.DeepEqual(v, want) {
			t.Errorf("%.60q: %.200v, %v", wire, v, err)
		}
		if string(raw) != wire {
			t.Errorf("%.60q recorded as %.60q", wire, raw)
		}
	}
}

func TestPushes(t *testing.T) {
	wire := ">1\r\n+a\r\n+OK\r\n>1\r\n+b\r\n:1\r\n"
	c, _ := serve(t, wire, 100)
	if v := c.Must("X"); v.Text != "OK" || len(c.Pushes) != 1 {
		t.Error(v, c.Pushes)
	}
	var pushed []Value
	c.OnPush = func(v Value) { pushed = append(pushed, v) }
	if v, err := c.Receive(); err != nil || v.Int != 1 || len(pushed) != 1 || pushed[0].Elems[0].Text != "b" {
		t.Error(v, err, pushed)
	}
}

func TestGarbage(t *testing.T) {
	for _, wire := range []string{"x\r\n", "\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$1\r\nabc", "#x\r\n",
		"=2\r\nab\r\n", strings.Repeat("*1\r\n", 100), strings.Repeat("|0\r\n", 100) + "+OK\r\n",
		"+" + strings.Repeat("x", 1<<17)} {
		c, _ := serve(t, wire, 1<<20)
		if v, err := c.Do("X"); !errors.Is(err, ErrProtocol) {
			t.Errorf("%.40q: %v, %v", wire, v, err)
		}
	}
	for _, wire := range []string{"$10\r\nabc", "*2\r\n:1\r\n", "*2\r\n"} {
		c, _ := serve(t, wire, 100)
		if _, err := c.Do("X"); err != io.ErrUnexpectedEOF {
			t.Errorf("%q: %v", wire, err)
		}
	}
}

// FuzzReceive: no bytes from a peer make the client panic, hang, or allocate for bytes that have not arrived.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nabc\r\n%1\r\n+a\r\n_\r\n"))
	f.Add([]byte("$1000000000\r\nabc"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		c := New(fakeConn{Reader: bytes.NewReader(wire)})
		for {
			_, raw, err := c.ReceiveRaw()
			if err != nil {
				return
			}
			if !bytes.Contains(wire, raw) {
				t.Fatalf("recorded %q", raw)
			}
		}
	})
}

type fakeConn struct {
	io.Reader
	net.Conn
}

func (c fakeConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }
