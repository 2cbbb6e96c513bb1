package limits

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestFilesForOperators: when the limit of open files bounds maxclients, some descriptors stay reserved for the admin
// lane and the admin address. Even if all descriptors are in use, the server can still save.
func TestFilesForOperators(t *testing.T) {
	lane, admin := "127.0.0.1:"+strconv.Itoa(testkit.FreePort(t)), "127.0.0.1:"+strconv.Itoa(testkit.FreePort(t))
	s := testkit.Launch(t, testkit.Spec{Shell: "ulimit -n 400", Args: []string{
		"--admin-port", lane[len("127.0.0.1:"):], "--admin-address", admin,
	}})
	most, err := strconv.Atoi(s.Do("CONFIG", "GET", "maxclients").Elems[1].Text)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(address string) *respclient.Client {
		c, err := respclient.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetTimeout(testkit.Slowly(time.Minute))
		if v, err := c.Do("PING"); err != nil || v.Text != "PONG" {
			t.Fatalf("PING: %v %v", v, err)
		}
		return c
	}
	for range most - 2 { // one is the test kit's connection, and one asks at the end
		ask(s.Addr)
	}
	for range 64 {
		c, err := net.Dial("tcp", admin)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	for range 64 {
		ask(lane)
	}
	if v := s.Do("SAVE"); v.Text != "OK" {
		t.Errorf("SAVE with all descriptors taken: %v", v)
	}
	v, err := s.Dial().Do("CONFIG", "SET", "maxclients", most+1)
	if err != nil || !strings.Contains(v.Text, "try with "+strconv.Itoa(most)) {
		t.Errorf("one client more is let in: %v %v", v, err)
	}
	if strings.Contains(s.Log(), "too many open files") {
		t.Error("descriptors have run out")
	}
}
