package limits

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// dial connects, and retries if the listen queue of a busy host is full.
func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	testkit.Until(t, testkit.Slowly(20*time.Second), "a connection", func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 10*time.Second)
		return err
	})
	return conn
}

// settled returns when the test's connection is the only client, and the server has at most this many sockets.
func settled(t testing.TB, s *testkit.Server, sockets int) {
	t.Helper()
	s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "connected_clients", "1")
	closed(t, s, sockets)
}

// closed returns when the server has at most this many sockets.
func closed(t testing.TB, s *testkit.Server, sockets int) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(20*time.Second), "sockets", func() error {
		if now := s.Sockets(); len(now) > sockets {
			return fmt.Errorf("%d, %d at first: %q", len(now), sockets, now)
		}
		return nil
	})
}

// TestManyConnections: thousands of idle connections use little memory, and hundreds of busy ones are all served.
func TestManyConnections(t *testing.T) {
	idle, busy, rounds := 4000*min(testkit.Scale(), 5), 400*min(testkit.Scale(), 5), 20*testkit.Scale()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if room := int(files.Max) - 200; room < idle+busy {
		t.Logf("open files: %d at most; %d idle connections instead of %d", files.Max, room-busy, idle)
		idle = room - busy
	}
	s := testkit.Start(t, "--maxclients", fmt.Sprint(idle+busy+100), "--tcp-backlog", "511")
	s.Do("PING")
	opened, resident := len(s.Sockets()), s.RSS()
	conns := make([]net.Conn, idle)
	for i := range conns {
		conns[i] = dial(t, s.Addr)
	}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	s.AwaitInfo(testkit.Slowly(30*time.Second), "clients", "connected_clients", fmt.Sprint(idle+1))
	if each := (s.RSS() - resident) / int64(idle); each > 3<<10 && !testkit.Checked {
		t.Errorf("an idle connection costs %d bytes", each)
	} else {
		t.Logf("an idle connection costs %d bytes", each)
	}
	var wait sync.WaitGroup
	for i := range busy {
		wait.Go(func() {
			c, err := respclient.DialTimeout(s.Addr, testkit.Slowly(20*time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
			for n := range rounds {
				replies, err := c.Pipeline([]any{"SET", fmt.Sprint("k", i), n}, []any{"GET", fmt.Sprint("k", i)},
					[]any{"INCR", "total"})
				if err != nil || replies[1].Text != fmt.Sprint(n) {
					t.Errorf("connection %d: %v %v", i, replies, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if v := s.Do("GET", "total"); v.Text != fmt.Sprint(busy*rounds) {
		t.Errorf("total %v", v)
	}
	for i := 0; i < idle; i += 997 { // the idle ones still work
		c := respclient.New(conns[i])
		c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
		if v, err := c.Do("PING"); err != nil || v.Text != "PONG" {
			t.Errorf("idle connection %d: %v %v", i, v, err)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	settled(t, s, opened)
}

// TestMaxClients: a client beyond maxclients gets the error and is closed. When a client leaves, another may connect.
func TestMaxClients(t *testing.T) {
	s := testkit.Start(t, "--maxclients", "50")
	s.Do("PING")
	var conns []net.Conn
	for range 49 {
		conns = append(conns, s.Dial().Conn())
	}
	s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "50")
	for range 5 {
		c := s.Dial()
		if v, err := c.Receive(); err != nil || v.Text != "ERR max number of clients reached" {
			t.Errorf("one too many: %v %v", v, err)
		}
		if _, err := c.Receive(); err == nil {
			t.Error("it was not let go")
		}
	}
	if n := s.InfoInt("stats", "rejected_connections"); n != 5 {
		t.Errorf("rejected_connections:%d", n)
	}
	conns[0].Close()
	s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "connected_clients", "49")
	if v, err := s.Dial().Do("PING"); err != nil || v.Text != "PONG" {
		t.Errorf("after one left: %v %v", v, err)
	}
}

// TestTimeout: a client that is silent for too long is closed. A client that sends, waits or is subscribed is not.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--timeout", "5") // longer than a busy host may delay the sending clients
	silent, waiting, listening := s.Dial(), s.Dial(), s.Dial()
	began := time.Now()
	silent.Must("PING")
	waiting.Send("WAIT", 1, 0)
	if err := waiting.Flush(); err != nil {
		t.Fatal(err)
	}
	listening.Must("MONITOR")
	speaking := s.Dial()
	silent.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	gone := make(chan error, 1)
	go func() {
		_, err := silent.Receive()
		gone <- err
	}()
	for {
		speaking.Must("PING")
		select {
		case err := <-gone:
			if took := time.Since(began); err == nil || strings.Contains(err.Error(), "timeout") ||
				took < 4900*time.Millisecond {
				t.Errorf("let go after %v: %v", took, err)
			}
			list := speaking.Must("CLIENT", "LIST").Text
			for _, who := range []string{"cmd=wait", "cmd=monitor", "cmd=client|list"} {
				if !strings.Contains(list, who) {
					t.Errorf("%s was let go too: %s", who, list)
				}
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
