package admin

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPanicEndsTheProcess: a handler of the admin address that panics ends the process, however it was started.
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv("SPINDLE_TEST_PANIC") != "" {
		s := httptest.NewServer(endOnPanic(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("in a turn") })))
		_, err := http.Get(s.URL)
		t.Fatalf("it continues: %v", err)
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestPanicEndsTheProcess$")
	child.Env = append(os.Environ(), "SPINDLE_TEST_PANIC=1")
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: in a turn") || strings.Contains(string(out), "it goes on") {
		t.Errorf("%v: %s", err, out)
	}
	abort := httptest.NewServer(endOnPanic(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})))
	defer abort.Close()
	if _, err := http.Get(abort.URL); err == nil {
		t.Error("a reply that was broken off came whole")
	}
}

// TestAdminBind: an address opens exactly the sockets that it names, and without a token only this machine's.
func TestAdminBind(t *testing.T) {
	for _, c := range []struct {
		address, token string
		open           bool
		network, err   string // of the socket: 4, 6, or both
	}{
		{":0", "", false, "", "needs admin-token"}, {":0", "t", false, "both", ""}, {":0", "", true, "both", ""},
		{"127.0.0.1:0", "", false, "4", ""}, {"[::1]:0", "", false, "6", ""},
		{"localhost:0", "", false, "", ""},
		{"0.0.0.0:0", "", false, "", "needs admin-token"}, {"[::]:0", "", false, "", "needs admin-token"},
		{"0.0.0.0:0", "t", false, "4", ""}, {"0.0.0.0:0", "", true, "4", ""}, {"[::]:0", "t", false, "6", ""},
	} {
		network, place, err := Resolve(c.address, c.token, c.open)
		var l net.Listener
		if err == nil {
			l, err = net.ListenTCP(network, place)
		}
		if err != nil {
			if strings.Contains(c.address, "::") && !strings.Contains(err.Error(), "admin-token") {
				t.Logf("no IPv6 here: %v", err)
			} else if c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.address, err)
			}
			continue
		}
		defer l.Close()
		if c.err != "" {
			t.Errorf("%s: opened", c.address)
		}
		at := l.Addr().(*net.TCPAddr)
		if c.network == "4" {
			if at.IP.To4() == nil {
				t.Errorf("%s: %v", c.address, at)
			}
			six, err := net.DialTimeout("tcp6", net.JoinHostPort("::1", strconv.Itoa(at.Port)), time.Second)
			if err == nil {
				six.Close()
				t.Errorf("%s: IPv6 is open, too", c.address)
			}
		}
		if c.network == "both" && at.IP.To4() == nil { // otherwise this machine has no IPv6
			for _, host := range []string{"127.0.0.1", "::1"} {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(at.Port)), 5*time.Second)
				if err != nil {
					t.Errorf("%s: %v", host, err)
					continue
				}
				c.Close()
			}
		}
		if c.network == "6" {
			four, err := net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port)), time.Second)
			if err == nil {
				four.Close()
				t.Errorf("%s: IPv4 is open, too", c.address)
			}
		}
	}
}

// TestLabelsOutliveARefusedProfile: pprof refuses a second CPU profile while one runs. The first keeps its labels to
// its end.
func TestLabelsOutliveARefusedProfile(t *testing.T) {
	var said []bool
	turn := make(chan struct{}, 1)
	a := &Server{Parts: Parts{Profiling: func(on bool) { said = append(said, on) }}}
	a.Do = func(f func()) { turn <- struct{}{}; f(); <-turn }
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.profile(httptest.NewRecorder(), httptest.NewRequest("GET", "/debug/pprof/profile?seconds=1", nil))
	}()
	testkit.Await(t, 10*time.Second, "labels", func() (on bool) {
		a.Do(func() { on = len(said) == 1 })
		return on
	})
	// The sleep lasts until the first profile runs. It does not matter here which of the two is refused.
	time.Sleep(50 * time.Millisecond)
	a.profile(httptest.NewRecorder(), httptest.NewRequest("GET", "/debug/pprof/profile?seconds=1", nil))
	a.Do(func() {
		if !slices.Equal(said, []bool{true}) {
			t.Errorf("labels: %v, while the first profile runs", said)
		}
	})
	<-done
	if !slices.Equal(said, []bool{true, false}) {
		t.Errorf("labels: %v", said)
	}
}
