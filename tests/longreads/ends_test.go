package longreads

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestLongReadEnds: CLIENT KILL, a disconnect and the output limit end long reads and free all their resources. The
// next request of a client waits for its long read.
func TestLongReadEnds(t *testing.T) {
	s := testkit.Start(t)
	c := s.Dial()
	c.SetTimeout(testkit.Slowly(time.Minute))
	const fields = 40_000
	for from := 0; from < fields; from += fillEach {
		c.Send(addition("hash", from, fillEach)...)
	}
	receive(t, c, fields/fillEach)
	before := s.InfoInt("memory", "used_memory")
	for i := range 30 * testkit.Scale() {
		reader := s.Dial()
		id := reader.Must("CLIENT", "ID").Int
		for range 3 {
			reader.Send("HGETALL", "hash")
		}
		if err := reader.Flush(); err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			s.Do("CLIENT", "KILL", "ID", id)
		case 1:
			reader.Close()
		}
		if i%5 == 0 {
			s.Do("HSET", "hash", fmt.Sprint("field:", i), "new")
		}
		if i%3 == 2 {
			reader.SetTimeout(testkit.Slowly(time.Minute))
			for range 3 {
				if v, err := reader.Receive(); err != nil || len(v.Elems) != 2*fields {
					t.Fatalf("HGETALL: %d elements, %v", len(v.Elems), err)
				}
			}
			reader.Close()
		}
	}
	s.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1000000 0 0")
	reader := s.Dial()
	if v, err := reader.Do("HGETALL", "hash"); err == nil {
		t.Errorf("past the output limit: %d elements", len(v.Elems))
	}
	if n := s.InfoInt("stats", "client_output_buffer_limit_disconnections"); n != 1 {
		t.Errorf("%d clients were cut for their output, want 1", n)
	}
	s.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
	testkit.Until(t, testkit.Slowly(20*time.Second), "the end of all long reads", func() error {
		clients, memory := s.Info("clients"), s.Info("memory")
		if clients["long_reads_running"] != "0" || clients["long_reads_waiting"] != "0" || memory["long_read_views"] != "0" {
			return fmt.Errorf("%v %v", clients, memory)
		}
		if used := s.InfoInt("memory", "used_memory"); used > before+before/20+1<<20 {
			return fmt.Errorf("%d bytes are used, %d before", used, before)
		}
		return nil
	})

	reader = s.Dial()
	reader.SetTimeout(testkit.Slowly(time.Minute))
	for _, request := range [][]any{{"HLEN", "hash"}, {"HKEYS", "hash"}, {"MULTI"}, {"HKEYS", "hash"}, {"EXEC"},
		{"CLIENT", "REPLY", "SKIP"}, {"HKEYS", "hash"}, {"ECHO", "last"}} {
		reader.Send(request...)
	}
	if err := reader.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 6 {
		v, err := reader.Receive()
		if err != nil {
			t.Fatal(got, err)
		}
		got = append(got, shape(v))
	}
	if text, want := strings.Join(got, ", "), "40000, [40000], OK, QUEUED, [[40000]], last"; text != want {
		t.Errorf("a pipeline got %s, want %s", text, want)
	}
}

// TestHalfClosedClients: a client sends one request, which is worked on outside the turn, and closes its direction. It
// gets the reply, and the request is done.
func TestHalfClosedClients(t *testing.T) {
	s := testkit.Start(t, "--long-read-elements", "50")
	c := s.Dial()
	fill(t, c, 100)
	text := make([]byte, 1<<20)
	rand.Read(text)
	c.Must("SET", "source", text)
	for _, call := range []struct {
		want    string
		request []any
	}{
		{"[100]", []any{"SMEMBERS", "set"}},
		{"1", []any{"EVAL", "local t = os.clock() repeat until os.clock() - t > 0.1 return 1", 0}},
		{"OK", []any{"RESTORE", "copy", 0, c.Must("DUMP", "source").Text}},
	} {
		client := s.Dial()
		client.SetTimeout(testkit.Slowly(time.Minute))
		client.Send(call.request...)
		if err := client.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := client.Conn().(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if v, err := client.Receive(); err != nil || shape(v) != call.want {
			t.Errorf("%v: %s %v, want %s", call.request[0], shape(v), err, call.want)
		}
	}
	if v := c.Must("GET", "copy"); v.Text != string(text) {
		t.Errorf("RESTORE: %d bytes", len(v.Text))
	}
}

// shape returns a reply as text. For an array of more than one element, it is only their number.
func shape(v respclient.Value) string {
	switch {
	case len(v.Elems) == 1:
		return "[" + shape(v.Elems[0]) + "]"
	case len(v.Elems) > 1:
		return fmt.Sprintf("[%d]", len(v.Elems))
	}
	return strings.Trim(v.Word(), `"`)
}
