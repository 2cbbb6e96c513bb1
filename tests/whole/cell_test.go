package whole

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A scene is a set of servers with their roles.
type scene struct {
	*serverSet
	p, r     *testkit.Server                    // the primary and its replica; a column may exchange them
	more     []*testkit.Server                  // further servers, which are independent between cells
	units    int                                // numbers the units, so that each has its own keys
	payloads map[int]string                     // of RESTORE, by their number of fields
	taken    map[uint16]bool                    // slots that the cluster's primary does not own; nil without a cluster
	slot     uint16                             // the slot that moves (movers)
	next     map[*testkit.Server]uint16         // the first slot of a primary that has never moved (movers)
	loader   int                                // the port of servers that start on files; 0 if there was none yet
	reader   *testkit.Server                    // a server that loads RDB files while it runs; nil if there was none yet
	voted    time.Time                          // when the cluster's nodes last voted
	replaced map[*testkit.Server]time.Time      // when its replica took over from a primary (movers)
	links    map[*testkit.Server]*testkit.Relay // between a replica and its primary
}

func (s *scene) servers() []*testkit.Server {
	all := []*testkit.Server{}
	for _, one := range append([]*testkit.Server{s.p, s.r}, s.more...) {
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// allRun fails the cell if a server's process has ended.
func (s *scene) allRun() {
	for _, one := range s.servers() {
		if one.Ended() {
			s.Errorf("%s has ended: %s", one.Addr, last(one.Log(), 3000))
		}
	}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// A cell is one unit with one observer of it.
type cell struct {
	*scene
	draw
	rng      *rand.Rand
	unit     unit
	listener *respclient.Client // a subscriber to the unit's messages
	told     map[string]bool    // keys for which the listener got an invalidation
	stored   map[string]bool    // keys for whose write the listener got a reply
	saves    int64              // rdb_saves before the unit
	from     int64              // aof_history_offset before the unit
	sealing  *call              // a BACKUP SEAL under way
	lost     bool               // the unit may be lost, as column.mayLose allows
	saw      int64              // keys of the unit that another client has seen
	sight    func()             // ends that client
	setter   *respclient.Client // of a CONFIG SET
	setting  *call              // that CONFIG SET
	moving   *slotMove          // the move of a slot that the unit meets
	death    *death             // of an end of that move
	takes    string             // how a replica of an end takes over: "", FORCE or TAKEOVER
	gives    bool               // the old primary gives the heir its slot, by an operator's order
	part     bool               // the slot's owner may have a part of the units in it
}

// A unit is one call of the cell's row, with its result.
type unit struct {
	tag    string          // all its keys begin with it and are in one slot
	at     *testkit.Server // the server where it runs
	n      int             // the number that it adds to its counter and its list
	wait   time.Duration   // how long it works before its first write
	work   time.Duration   // how long it works after that
	text   string          // a payload
	client *respclient.Client
	sent   bool
	id     int64   // the ID of its client
	asks   []any   // commands that a transaction adds itself, such as a save
	ahead  [][]any // sent before it in the same batch
	then   [][]any
	done   chan struct{}
	reply  respclient.Value
	after  []respclient.Value // the replies to ahead
	err    error              // an error of the connection
}

// key is one of the unit's keys.
func (u *unit) key(name string) string { return "{" + u.tag + "}" + name }

// acked reports whether the client got a reply that confirms the unit.
func (u *unit) acked() bool {
	if u.err != nil || u.reply.Err() != nil || u.reply.Null || u.reply.Text == "QUEUED" {
		return false
	}
	for _, e := range u.reply.Elems {
		if e.Err() != nil {
			return false
		}
	}
	return true
}

// play runs the whole cell.
func (c *cell) play() {
	c.units++
	work := time.Duration(1500+c.rng.IntN(7000)) * time.Microsecond
	tag := "u" + strconv.Itoa(c.units)
	for c.taken[slots.Of([]byte(tag))] {
		c.units++
		tag = "u" + strconv.Itoa(c.units)
	}
	c.unit = unit{tag: tag, at: c.p, n: 2 + c.rng.IntN(30), work: work, done: make(chan struct{})}
	if c.rng.IntN(3) == 0 {
		c.unit.wait = time.Duration(c.rng.Int64N(int64(work)))
	}
	if c.row.prepare != nil {
		c.row.prepare(c)
	}
	if c.column.before != nil {
		c.column.before(c)
	}
	c.begin()
	c.column.act(c)
	c.end()
	if c.column.after != nil {
		c.column.after(c)
	}
	if c.column.verify != nil {
		c.column.verify(c)
	} else {
		c.verify()
	}
	c.clean()
	if c.column.restore != nil {
		c.column.restore(c)
	}
}

// begin sends the unit to its server.
func (c *cell) begin() {
	u := &c.unit
	if c.row.requests == nil {
		close(u.done)
		return
	}
	client, err := respclient.Dial(u.at.Addr)
	if err != nil {
		c.Fatal(err)
	}
	u.client = client
	client.SetTimeout(testkit.Slowly(2 * time.Minute))
	if v, err := client.Do("CLIENT", "ID"); err == nil {
		u.id = v.Int
	}
	requests := c.row.requests(c)
	if c.column.ready != nil {
		c.column.ready(c)
	}
	for _, request := range slices.Concat(u.ahead, requests, u.then) {
		client.Send(request...)
	}
	if err := client.Flush(); err != nil {
		c.Fatal(err)
	}
	u.sent = true
	go func() {
		defer close(u.done)
		for range u.ahead {
			if _, err := client.Receive(); err != nil {
				u.err = err
				return
			}
		}
		for range requests {
			v, err := client.Receive()
			if err != nil {
				u.err = err
				return
			}
			if u.reply.Err() == nil {
				u.reply = v
			}
		}
		for range u.then {
			v, err := client.Receive()
			if err != nil {
				return
			}
			u.after = append(u.after, v)
		}
	}()
}

// nap waits for a random time, at most slightly longer than the unit takes.
func (c *cell) nap() {
	testkit.Moment(c.rng, c.unit.wait+c.unit.work+2*time.Millisecond)
}

// soon waits for a random time of a few milliseconds. A large RESTORE or MIGRATE is then still running.
func (c *cell) soon() { testkit.Moment(c.rng, 4*time.Millisecond) }

// end waits for the unit's end.
func (c *cell) end() {
	<-c.unit.done
	if e, ok := c.unit.err.(interface{ Timeout() bool }); ok && e.Timeout() {
		c.Fatalf("the unit was not answered: %v", c.unit.err)
	}
	if err := c.unit.reply.Err(); err != nil && (strings.Contains(err.Error(), "torn") ||
		strings.Contains(err.Error(), "attempted")) {
		c.Errorf("the unit met another's change: %v", err)
	}
}

// leave closes the connections that the cell has opened.
func (c *cell) leave() {
	if c.unit.client != nil {
		_ = c.unit.client.Close()
	}
	if c.unit.sent {
		<-c.unit.done
	}
}

// tell sends s a command while the unit runs. It repeats the command while the server is busy.
func (c *cell) tell(s *testkit.Server, words ...any) respclient.Value {
	var v respclient.Value
	testkit.Until(c, testkit.Slowly(30*time.Second), fmt.Sprint(words...), func() (err error) {
		v, err = s.Ask(words...)
		e := v.Err()
		if err == nil && e != nil && (strings.HasPrefix(e.Error(), "BUSY") || strings.HasPrefix(e.Error(), "LOADING")) {
			err = e
		}
		return err
	})
	return v
}

// must is tell, but an error reply fails the cell.
func (c *cell) must(s *testkit.Server, words ...any) (v respclient.Value) {
	c.await("a cluster that serves", func() error {
		if v = c.tell(s, words...); strings.Contains(v.Text, "CLUSTERDOWN") {
			return v.Err()
		}
		return nil
	})
	if err := v.Err(); err != nil {
		c.Fatalf("%v: %v", words, err)
	}
	return v
}

// patience is how long a cell repeats its unit. It includes the slack of testkit.Until.
var patience = testkit.Slowly(80 * time.Second)

// await waits for a condition after the end of the unit.
func (c *cell) await(what string, ask func() error) {
	testkit.Until(c, testkit.Slowly(20*time.Second), what, ask)
}

// verify ends every cell. Copies at equal offsets must have equal data, and each must have all of the unit or none of
// it.
func (c *cell) verify() {
	copies := []*testkit.Server{c.p, c.r}
	if c.column.copies != nil {
		copies = c.column.copies(c)
	}
	if len(copies) > 1 && copies[1] != nil {
		c.equal(copies)
	}
	c.holds(c.p, "the primary", !c.column.mayLose && !c.lost)
	for _, s := range copies[1:] {
		if s != nil {
			c.holds(s, "a replica", false)
		}
	}
}

// holds fails the cell unless s has all of the unit. If kept is false, s may also have none of it.
func (c *cell) holds(s *testkit.Server, what string, kept bool) {
	switch is, detail := c.row.look(c, s); {
	case is == torn:
		c.Errorf("%s has a part of the unit: %s (%s)", what, detail, c.outcome())
	case is == absent && kept && c.unit.acked():
		c.Errorf("%s lacks the unit, which was acknowledged (%s)", what, c.outcome())
	}
}

// outcome describes how the unit ended.
func (c *cell) outcome() string {
	return fmt.Sprintf("%.200v %v; %d writes, %v before and %v with them", c.unit.reply, c.unit.err, c.unit.n,
		c.unit.wait, c.unit.work)
}

// equal waits until all servers are at the same offset of the same history. It fails the cell unless their data is
// equal.
func (c *cell) equal(all []*testkit.Server) {
	for try := 0; ; try++ {
		at := c.still(all)
		var digests []string
		same := true
		for _, s := range all {
			digests = append(digests, s.Do("DEBUG", "DIGEST").Text)
			same = same && digests[len(digests)-1] == digests[0]
		}
		if same {
			return
		}
		if c.still(all) == at && try > 2 {
			c.Errorf("servers differ at one offset, %s: %v (%s)", at, digests, c.outcome())
			for _, s := range all {
				is, detail := c.row.look(c, s)
				c.Errorf("  %s: the unit is %v: %s\n%s", s.Addr, is, detail, difference(all[0], s))
			}
			return
		}
	}
}

// still returns when all servers are at the same offset.
func (c *cell) still(all []*testkit.Server) (at string) {
	c.await("one offset on all servers", func() error {
		at = ""
		for _, s := range all {
			own := offset(s)
			if at == "" {
				at = own
			}
			if own == "down" {
				hurry(s)
			}
			if own != at || own == "down" {
				return fmt.Errorf("%s at %s, another at %s", s.Addr, own, at)
			}
		}
		return nil
	})
	return at
}

// hurry ends the pause of a link that has failed several times in a row. Cells break links more often than networks do.
func hurry(s *testkit.Server) {
	if i := s.Info("replication"); i["role"] == "slave" && s.Info("cluster")["cluster_enabled"] == "0" {
		_, _ = s.Ask("REPLICAOF", i["master_host"], i["master_port"])
	}
}

// offset returns the offset of s in its replication stream.
func offset(s *testkit.Server) string {
	i := s.Info("replication")
	if i["role"] == "slave" {
		if i["master_link_status"] != "up" {
			return "down"
		}
		return i["master_replid"] + ":" + i["slave_repl_offset"]
	}
	return i["master_replid"] + ":" + i["master_repl_offset"]
}

// clean removes the unit's keys.
func (c *cell) clean() {
	u := &c.unit
	for _, s := range append([]*testkit.Server{c.p}, c.more...) {
		if s.Info("replication")["role"] == "master" {
			_, _ = s.Ask("UNLINK", u.key("c"), u.key("l"), u.key("m"), u.key("k"), u.key("v"), u.key("src"))
		}
	}
}
