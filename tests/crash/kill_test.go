package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// temporaries returns the names of the files of unfinished saves in the server's folder.
func temporaries(s *testkit.Server) (names []string) {
	for _, name := range s.Files() {
		if strings.HasPrefix(name, "temp-") {
			names = append(names, name)
		}
	}
	return names
}

// TestKilledWhileSaving: kill -9 during BGSAVE leaves the previous save's file unchanged.
func TestKilledWhileSaving(t *testing.T) {
	s := testkit.Start(t)
	keys := 5000 * testkit.Scale()
	testkit.Pipe(t, s.Dial(), keys, func(i int) []any { return []any{"SET", fmt.Sprint("k", i), "first"} })
	s.Do("SAVE")
	digest, sum := s.Do("DEBUG", "DIGEST").Text, testkit.Sum(t, s.File("dump.rdb"))

	testkit.Pipe(t, s.Dial(), 2*keys,
		func(i int) []any { return []any{"SET", fmt.Sprint("k", i), strings.Repeat("second", 20)} })
	s.Do("CONFIG", "SET", "rdb-key-save-delay", "1000") // the save takes 10 s, so it will not finish
	s.Do("BGSAVE")
	testkit.Until(t, 10*time.Second, "a temporary file with something in it", func() error {
		for _, name := range temporaries(s) {
			if stat, err := os.Stat(s.File(name)); err == nil && stat.Size() > 0 {
				return nil
			}
		}
		return fmt.Errorf("files %q", s.Files())
	})
	s.AwaitInfo(10*time.Second, "persistence", "rdb_bgsave_in_progress", "1")
	s.Kill()
	if got := testkit.Sum(t, s.File("dump.rdb")); got != sum {
		t.Fatal("the old file changed")
	}

	s.Restart("--rdb-key-save-delay", "0")
	if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("digest %s after the restart, want %s", got, digest)
	}
	if n := s.Do("DBSIZE").Int; n != int64(keys) {
		t.Errorf("%d keys, want %d", n, keys)
	}
	s.Do("SET", "after", "1")
	s.Do("BGSAVE") // the files of the interrupted save are still there
	s.AwaitInfo(10*time.Second, "persistence", "rdb_bgsave_in_progress", "0")
	s.AwaitInfo(time.Second, "persistence", "rdb_last_bgsave_status", "ok")
	s.Kill()
	s.Restart()
	if v := s.Do("GET", "after"); v.Text != "1" {
		t.Errorf("GET after: %v", v)
	}
}

// TestKilledWhileWriting: the data after a kill is that of one instant, and not older than the last reported save. MSET
// writes the same number to every key, so a number identifies an instant. Other keys, which no client writes, make
// saves take longer.
func TestKilledWhileWriting(t *testing.T) {
	rounds := 4 * testkit.Scale()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 2000*testkit.Scale(),
		func(i int) []any { return []any{"SET", fmt.Sprint("other:", i), strings.Repeat("v", i%500)} })
	request := []any{"MSET"}
	const keys = 200
	for i := range keys {
		request = append(request, fmt.Sprintf("key:%d", i), "")
	}
	number := int64(0)
	for round := range rounds {
		stop, stopped := make(chan struct{}), make(chan int64)
		go write(s.Dial(), request, number, stop, stopped)
		saver := s.Dial()
		saved := int64(0)
		for range 1 + rng.IntN(3) {
			before := read(t, saver)
			saver.Must("BGSAVE")
			s.AwaitInfo(testkit.Slowly(10*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
			saved = before
		}
		if rng.IntN(2) == 0 {
			saver.Must("BGSAVE") // one more is running when the server is killed
		}
		testkit.Moment(rng, time.Duration(5*testkit.Scale())*time.Millisecond)
		s.Kill()
		close(stop)
		last := <-stopped
		s.Restart()
		got := read(t, s.Dial())
		if got < saved || got > last {
			t.Fatalf("seed %d round %d: %d came back; %d was saved, %d was sent last", seed, round, got, saved, last)
		}
		number = last
	}
}

// write sets every key to the next number until the server is gone.
func write(c *respclient.Client, request []any, number int64, stop <-chan struct{}, stopped chan<- int64) {
	defer func() { stopped <- number }()
	for {
		select {
		case <-stop:
			return
		default:
		}
		number++
		text := strconv.FormatInt(number, 10)
		for i := 2; i < len(request); i += 2 {
			request[i] = text
		}
		if _, err := c.Do(request...); err != nil {
			<-stop
			return
		}
	}
}

// read returns the number that all keys hold. It fails the test if they hold different numbers.
func read(t *testing.T, c *respclient.Client) int64 {
	t.Helper()
	request := []any{"MGET"}
	for i := range 200 {
		request = append(request, fmt.Sprintf("key:%d", i))
	}
	values := c.Must(request...).Strings()
	for i, v := range values {
		if v != values[0] {
			t.Fatalf("key:%d holds %q and key:0 %q: not one instant", i, v, values[0])
		}
	}
	if values[0] == "" {
		return 0
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKilledWhileLoading: a server that is killed while it loads changes no file. Clients get LOADING during the load.
func TestKilledWhileLoading(t *testing.T) {
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 20_000*testkit.Scale(), func(i int) []any { return []any{"SET", fmt.Sprint("k", i), i} })
	s.Do("SAVE")
	digest, sum := s.Do("DEBUG", "DIGEST").Text, testkit.Sum(t, s.File("dump.rdb"))
	s.Kill()
	s.Again("--key-load-delay", "500") // 10 s together
	testkit.Until(t, testkit.Slowly(20*time.Second), "LOADING", func() error {
		v, err := s.Ask("GET", "k1")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(v.Text, "LOADING ") {
			return fmt.Errorf("GET: %v", v)
		}
		return nil
	})
	if fields := s.Info("persistence"); fields["loading"] != "1" || fields["loading_total_bytes"] == "" {
		t.Errorf("INFO while loading: %v", fields)
	}
	s.Kill()
	if testkit.Sum(t, s.File("dump.rdb")) != sum {
		t.Error("the file changed")
	}
	s.Restart("--key-load-delay", "0")
	if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("digest %s, want %s", got, digest)
	}
}
