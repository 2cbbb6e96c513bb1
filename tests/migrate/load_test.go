package migrate

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestEndsDuringLoad: a writable replica sends a key by MIGRATE. The target accepts it while the replica loads a full
// copy. The full copy contains the key again, so MIGRATE deletes nothing and replies with an error.
func TestEndsDuringLoad(t *testing.T) {
	t.Parallel()
	primary := testkit.Start(t)
	primary.Do("SET", "moved", "value")
	primary.Do("DEBUG", "POPULATE", 3000)
	s := testkit.Start(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port), "--replica-read-only", "no",
		"--loading-process-events-interval-bytes", "1024")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	target := listen(t)
	reply := make(chan string, 1)
	mover := s.Dial()
	go func() {
		v, err := mover.Do("MIGRATE", "127.0.0.1", target.Addr().(*net.TCPAddr).Port, "moved", 0, 60_000)
		reply <- v.Text
		if err != nil {
			t.Error(err)
		}
	}()
	conn, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	read(t, conn, "moved")

	s.Do("CONFIG", "SET", "key-load-delay", 4000)
	primary.Do("DEBUG", "CHANGE-REPL-ID")
	primary.Do("CLIENT", "KILL", "TYPE", "replica")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "loading", "1")
	if _, err := conn.Write([]byte("+OK\r\n+OK\r\n")); err != nil {
		t.Fatal(err)
	}
	if text := <-reply; !strings.HasPrefix(text, "LOADING") {
		t.Errorf("MIGRATE answers %q", text)
	}
	if s.Info("persistence")["loading"] != "1" {
		t.Skip("the load was over before MIGRATE ended: the machine is too slow")
	}
	s.Do("CONFIG", "SET", "key-load-delay", 0)
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	if v := s.Do("GET", "moved"); v.Text != "value" {
		t.Errorf("after the load the key is %q", v.Text)
	}
}
