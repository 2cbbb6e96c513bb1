package pushes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestTableIsLimited: if the tracking table exceeds tracking-table-max-keys, the server forgets keys. The clients that
// have read these keys get invalidations. A lower limit takes effect without further commands. The table counts in
// used_memory, and is freed when no client tracks any more.
func TestTableIsLimited(t *testing.T) {
	s := testkit.Start(t)
	s.Do("CONFIG", "SET", "tracking-table-max-keys", "2000")
	before := s.InfoInt("memory", "used_memory")
	l, err := dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	l.send([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"})
	l.read()
	l.read()
	const keys = 5000
	held, names := map[string]bool{}, []string{}
	take := func() (more bool) {
		got, err := l.read()
		if err != nil {
			t.Fatal(err)
		}
		key, is := strings.CutPrefix(got, ">2 invalidate *1 ")
		if is && !held[key] {
			t.Fatalf("%s is not cached, and was invalidated", key)
		}
		delete(held, key)
		return is
	}
	var commands [][]string
	for i := range keys {
		names = append(names, fmt.Sprintf("key:%060d", i))
		commands = append(commands, []string{"GET", names[i]})
	}
	l.send(commands...)
	for i := range keys {
		for take() { // until the reply arrives
		}
		held[names[i]] = true
	}
	settle := func() {
		l.send([]string{"PING", "end"})
		for take() {
		}
	}
	settle()
	if n := s.InfoInt("stats", "tracking_total_keys"); n != 2000 || len(held) != 2000 {
		t.Errorf("%d keys in the table, %d cached, limit 2000", n, len(held))
	}
	if grown := s.InfoInt("memory", "used_memory") - before; grown < 2000*80 {
		t.Errorf("used_memory has grown by %d", grown)
	}
	s.Do("CONFIG", "SET", "tracking-table-max-keys", "10")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", "tracking_total_keys", "10")
	settle()
	if n := s.InfoInt("stats", "tracking_total_items"); n != 10 || len(held) != 10 {
		t.Errorf("%d ids in the table, %d cached, limit 10", n, len(held))
	}
	if got := s.Do("CLIENT", "LIST").Text; !strings.Contains(got, " flags=t ") || !strings.Contains(got, " redir=0 ") {
		t.Errorf("CLIENT LIST: %s", got)
	}
	l.Close()
	s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "tracking_clients", "0")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "stats", "tracking_total_keys", "0")
	testkit.Until(t, testkit.Slowly(20*time.Second), "memory to come back", func() error {
		if grown := s.InfoInt("memory", "used_memory") - before; grown > 64<<10 {
			return fmt.Errorf("used_memory has grown by %d", grown)
		}
		return nil
	})
}
