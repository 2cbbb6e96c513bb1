package migrate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
)

func words(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		if w == `""` {
			w = ""
		}
		args = append(args, []byte(w))
	}
	return args
}

// TestParse: a call's options, its keys, and their positions.
func TestParse(t *testing.T) {
	for line, want := range map[string]struct {
		call      call
		keys      string
		positions []int
	}{
		"MIGRATE h 1 k 0 100":            {call{timeout: 100 * time.Millisecond}, "k", []int{3}},
		"MIGRATE h 1 k 9 0 COPY REPLACE": {call{db: 9, timeout: time.Second, copy: true, replace: true}, "k", []int{3}},
		"MIGRATE h 1 k 0 -5 AUTH pw": {call{timeout: time.Second, password: []byte("pw"), secrets: []int{7}}, "k",
			[]int{3}},
		`MIGRATE h 1 "" 0 1 auth2 me pw keys a b`: {
			call{timeout: time.Millisecond, user: []byte("me"), password: []byte("pw"), secrets: []int{7, 8}},
			"a b", []int{10, 11}},
		`MIGRATE h 1 "" 0 1 AUTH keys KEYS a`: {
			call{timeout: time.Millisecond, password: []byte("keys"), secrets: []int{7}}, "a", []int{9}},
		`MIGRATE h 1 "" 0 1 KEYS COPY`:        {call{timeout: time.Millisecond}, "COPY", []int{7}},
		"MIGRATE h 1 k 0 9223372036854775807": {call{timeout: longest}, "k", []int{3}},
	} {
		got, keys, err := parse(words(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want.call.host, want.call.port = "h", "1"
		var names []string
		for _, k := range keys {
			names = append(names, string(k))
		}
		if !reflect.DeepEqual(*got, want.call) || strings.Join(names, " ") != want.keys {
			t.Errorf("%s: %+v, keys %q", line, *got, names)
		}
		positions, err := keyPositions(nil, words(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var at []int
		for _, p := range positions {
			at = append(at, p.Index)
		}
		if !reflect.DeepEqual(at, want.positions) {
			t.Errorf("%s: keys stand at %v", line, at)
		}
	}
}

// TestKeysOfRandomCalls: the key finder reads a call as the handler does, whatever the words.
func TestKeysOfRandomCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := []string{"", "", "k", "KEYS", "keys", "AUTH", "AUTH2", "COPY", "REPLACE", "a", "0", "1"}
	accepted := 0
	for range 100_000 {
		args := [][]byte{[]byte("MIGRATE"), []byte("h"), []byte("1"), nil, []byte("0"), []byte("1")}
		for range rng.IntN(8) {
			args = append(args, []byte(some[rng.IntN(len(some))]))
		}
		args[3] = []byte(some[rng.IntN(3)])
		_, keys, err := parse(args)
		if err != nil {
			continue
		}
		accepted++
		found, err := keyPositions(nil, args)
		same := err == nil && len(found) == len(keys)
		for i := range keys {
			same = same && string(args[found[i].Index]) == string(keys[i])
		}
		if !same {
			t.Fatalf("%q: handler %q, finder %v, %v", args, keys, found, err)
		}
	}
	if accepted < 1000 {
		t.Errorf("%d calls of 100,000 were accepted", accepted)
	}
}

// TestSizeOfSparse: a nearly empty filter counts with the size of its payload, so that it is encoded outside the turn.
func TestSizeOfSparse(t *testing.T) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	space := keyspace.New(heap, keyspace.Options{})
	root, err := bloom.New(space.Store(), bloom.Params{Error: 0.01, Capacity: 10_000_000, Growth: 2}, nil) // 14 MB
	if err != nil {
		t.Fatal(err)
	}
	v := space.DB(0).CreateRoot([]byte("k"), value.Module, value.Raw, root).Value()
	if n := size(&command.Context{Space: space}, v); n <= encodeOne {
		t.Errorf("%d bytes", n)
	}
}

// TestParseRefuses: each error is Redis's.
func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"MIGRATE h 1 k 0 1 KEYS a":   "must be set to the empty string",
		"MIGRATE h 1 k 0 1 AUTH":     "syntax error",
		"MIGRATE h 1 k 0 1 AUTH2 me": "syntax error",
		"MIGRATE h 1 k 0 1 NOSUCH":   "syntax error",
		"MIGRATE h 1 k x 1":          "not an integer",
		"MIGRATE h 1 k 0 1.5":        "not an integer",
	} {
		if _, _, err := parse(words(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestAddress: ports are read as Redis reads them.
func TestAddress(t *testing.T) {
	for text, want := range map[string]int{"6379": 6379, "0": 0, "": 0, "x": 0, "12x": 12, "-1": 0,
		"99999999999999": 99_999} {
		if _, got := (&call{port: text}).address(); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

// peer is a target that sends the next of answers for each request, and closes after the last.
func peer(t *testing.T, answers ...string) net.Conn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	go func() {
		defer theirs.Close()
		in := bufio.NewReader(theirs)
		var replies string
		for _, answer := range answers {
			if answer == "" {
				return // it closes without a reply
			}
			if request(in) != nil {
				return
			}
			replies += answer + "\r\n"
		}
		_, _ = theirs.Write([]byte(replies)) // a client that does not read shows in the call's result
		_, _ = io.Copy(io.Discard, in)       // a pipe with a closed end accepts no deadline
	}()
	return ours
}

// request reads one request.
func request(in *bufio.Reader) error {
	head, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	for range 2 * int(head[1]-'0') { // a length and an argument each
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// small returns a call with two keys whose payloads are encoded already.
func small(timeout time.Duration) *call {
	return &call{host: "target", port: "1", timeout: timeout, keys: []item{
		{key: []byte("a"), payload: []byte("x")}, {key: []byte("b"), payload: []byte("y")}}}
}

// TestAnswers: the target's replies decide which keys have arrived, the reply, and whether the connection is reused.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		targets [][]string // replies of each connection, in order: SELECT, then a RESTORE for each key
		acked   []int
		failed  string
		open    int
	}{
		"all well": {[][]string{{"+OK", "+OK", "+OK"}}, []int{0, 1}, "", 1},
		"one is busy": {[][]string{{"+OK", "-BUSYKEY x", "+OK"}}, []int{1},
			"Target instance replied with error: BUSYKEY x", 1},
		"no such database": {[][]string{{"-ERR DB index", "+OK", "+OK"}}, nil,
			"Target instance replied with error: ERR DB index", 1},
		"it ends, and is back": {[][]string{{"", ""}, {"+OK", "+OK", "+OK"}}, []int{0, 1}, "", 1},
		"it ends twice":        {[][]string{{"", ""}, {"", ""}}, nil, "IOERR", 0},
	} {
		dialled := 0
		p := &pool{dial: func(context.Context, string) (net.Conn, error) {
			dialled++
			return peer(t, c.targets[dialled-1]...), nil
		}}
		m := small(5 * time.Second)
		m.run(p, nil, "RESTORE")
		text := ""
		if m.failed != nil {
			text = m.failed.Error()
		}
		if !reflect.DeepEqual(m.acked, c.acked) || !strings.Contains(text, c.failed) ||
			(c.failed == "") != (m.failed == nil) {
			t.Errorf("%s: arrived %v, reply %q", name, m.acked, text)
		}
		if p.count() != c.open || dialled != len(c.targets) {
			t.Errorf("%s: %d connections are kept of %d", name, p.count(), dialled)
		}
	}
}

// TestNoTime: a target that does not reply in time is an error, and is not asked again.
func TestNoTime(t *testing.T) {
	dialled := 0
	p := &pool{dial: func(context.Context, string) (net.Conn, error) {
		dialled++
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		return ours, nil
	}}
	m := small(20 * time.Millisecond)
	m.run(p, nil, "RESTORE")
	if !errors.Is(m.failed, errWrite) || dialled != 1 || p.count() != 0 || m.acked != nil {
		t.Errorf("%v after %d connections, %d kept, arrived %v", m.failed, dialled, p.count(), m.acked)
	}
}

// TestPool (migrate.P1): connections are reused, but not for another target. All are closed when they are idle for
// long.
func TestPool(t *testing.T) {
	p := &pool{dial: func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		return ours, nil
	}}
	var list []*target
	for range mostOpen {
		c, err := p.connect(&call{host: "a", port: "1", timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	for _, c := range list {
		p.put(c)
	}
	if p.take("b:1") != nil {
		t.Error("a connection to another target")
	}
	last := p.take("a:1")
	if last != list[mostOpen-1] {
		t.Error("not the one that was used last")
	}
	if _, err := p.connect(&call{host: "b", port: "1", timeout: time.Second}); err != nil || p.count() != 2 {
		t.Errorf("%v: %d connections, want that of a call, the new one and no idle one", err, p.count())
	}
	p.put(last)
	p.tick(time.Now())
	if p.count() != 2 {
		t.Error("an idle connection has ended too early")
	}
	p.tick(time.Now().Add(keepFor + time.Second))
	if p.count() != 1 || p.take("a:1") != nil {
		t.Errorf("%d connections after a long time", p.count())
	}
}

// TestPoolByPassword: calls without the password do not get a connection that another call has authenticated.
func TestPoolByPassword(t *testing.T) {
	p := &pool{dial: func(context.Context, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		return ours, nil
	}}
	calls := []call{{}, {password: []byte("pw")}, {user: []byte("u"), password: []byte("pw")},
		{user: []byte("u"), password: []byte("x")}}
	for i := range calls {
		m := &calls[i]
		m.host, m.port, m.timeout = "c", "1", time.Second
		if p.take(m.name()) != nil {
			t.Errorf("call %d has got a connection of another's", i)
		}
		c, err := p.connect(m)
		if err != nil {
			t.Fatal(err)
		}
		if p.put(c); p.take(m.name()) != c {
			t.Errorf("call %d has not got its own connection", i)
		}
		p.put(c)
	}
}

// TestInFlight: a call counts until two seconds after its end, so that consecutive calls count as one piece of work.
func TestInFlight(t *testing.T) {
	told := 0
	m := &Migrator{parts: Parts{Begun: func() { told++ }}}
	if m.InFlight() {
		t.Error("nothing is under way")
	}
	for range 3 {
		m.note(1)
		m.note(-1)
	}
	for range lately - 1 {
		m.tick(time.Now())
		if !m.InFlight() {
			t.Fatal("it ended too early")
		}
	}
	if m.tick(time.Now()); m.InFlight() || told != 6 {
		t.Errorf("in flight %v, told %d times", m.InFlight(), told)
	}
	m.note(1)
	for range 2 * lately {
		m.tick(time.Now())
	}
	if !m.InFlight() {
		t.Error("a long call does not count")
	}
}
