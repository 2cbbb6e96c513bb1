package scripts

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// reference starts the redis-server to compare with. old is true for a version before 7.4.
func reference(t *testing.T, args ...string) (s *testkit.Server, old bool) {
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		program = testkit.Program(t, "redis-server")
	}
	s = testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: args})
	version := s.Info("server")["redis_version"]
	return s, strings.HasPrefix(version, "6.") || strings.HasPrefix(version, "7.0.") || strings.HasPrefix(version, "7.2.")
}

func ask(t *testing.T, c *respclient.Client, args []string) string {
	t.Helper()
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	c.Send(all...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	_, raw, err := c.ReceiveRaw()
	if err != nil {
		t.Fatalf("%v, of %q", err, args)
	}
	return string(raw)
}

var (
	streamID = regexp.MustCompile(`1[0-9]{12}-[0-9]+`)
	address  = regexp.MustCompile(`(table|function|userdata|thread): (0x[0-9a-f]+|builtin: [0-9a-f]+)`)
	modules  = regexp.MustCompile(`(\$7\r\nmodules\r\n)\*1\r\n[*%][48]\r\n\$4\r\nname\r\n(?s:.*?)args\r\n\*0\r\n`)
	greeting = regexp.MustCompile(`\$2\r\nid\r\n:[0-9]+|(redis|spindle)\r\n|\$[56]\r\n[67]\.[0-9.]+\r\n`)
)

func normalise(args []string, reply string) string {
	if args[0] == "HELLO" || args[0] == "EXEC" {
		reply = modules.ReplaceAllString(greeting.ReplaceAllString(reply, ""), "$1*0\r\n")
	}
	if strings.Contains(reply, "library_name") {
		lines := strings.Split(reply, "\n")
		slices.Sort(lines) // servers return them in the order of a hash table
		reply = strings.Join(lines, "\n")
	}
	return streamID.ReplaceAllString(address.ReplaceAllString(reply, "$1: ADDRESS"), "ID")
}

// TestAgainstRedis sends the same requests to spindle and redis-server: SPINDLE_SCRIPT_CALLS calls of the API, or a few
// thousand. SPINDLE_SCRIPT_SEED repeats a run; SPINDLE_SCRIPT_LOG names files for the requests before each difference.
func TestAgainstRedis(t *testing.T) {
	theirs, old := reference(t)
	if old {
		t.Skip("the reference is older than 7.4 and has other texts: set REDIS_SERVER. TestRecorded has 7.4.1's replies.")
	}
	ours := testkit.Start(t)
	seed := rand.Uint64()
	if v, err := strconv.ParseUint(os.Getenv("SPINDLE_SCRIPT_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("SPINDLE_SCRIPT_SEED=%d", seed)
	calls := 5_000 * testkit.Scale()
	if n, err := strconv.Atoi(os.Getenv("SPINDLE_SCRIPT_CALLS")); err == nil {
		calls = n
	}
	here, there := ours.Dial(), theirs.Dial()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	requests, differ := 0, 0
	var last []string // a difference may begin some requests before it is visible
	for g.calls < calls && differ < 10 {
		args := g.request()
		requests++
		if last = append(last, strings.Replace(strings.Join(args, " "), prelude, "", 1)); len(last) > 100 {
			last = last[1:]
		}
		got, want := normalise(args, ask(t, here, args)), normalise(args, ask(t, there, args))
		if got != want {
			differ++
			a, b := around(got, want)
			t.Errorf("%q\nhere  %q\nthere %q", last[len(last)-1], a, b)
			if path := os.Getenv("SPINDLE_SCRIPT_LOG"); path != "" {
				if err := os.WriteFile(path+strconv.Itoa(differ), []byte(strings.Join(last, "\n====\n")), 0o644); err != nil {
					t.Error(err)
				}
			}
			for _, c := range []*respclient.Client{here, there} { // so that no difference is reported again
				ask(t, c, []string{"FLUSHALL"})
				for i := range libraries {
					ask(t, c, []string{"FUNCTION", "DELETE", fmt.Sprintf("lib%d", i)})
				}
			}
		}
	}
	t.Logf("%d requests, %d calls of the API, %d differ", requests, g.calls, differ)
}

// around returns the parts of two replies around their first difference.
func around(a, b string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-60)
	return a[from:min(len(a), i+200)], b[from:min(len(b), i+200)]
}
