package sentinel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spindle/protocol/respclient"
	"spindle/tests/testkit/simnet"
)

// This file has simulated servers with data. Their primary confirms a write when N replicas have it.

// An ackServer is a server with data, which are the numbers of writes.
type ackServer struct {
	sim      *ackSim
	host     *simnet.Host
	runID    string
	priority int64
	follows  string   // a host; "": it is a primary. It survives a crash, and so does log.
	log      []uint64 // its length is the offset

	history, before string
	until           int  // the offset at which before ended
	known           bool // the data are of history
	link            *simnet.Conn
	up              bool     // the stream has begun
	linked          bool     // it has, since the server has this primary
	copying         bool     // a full copy is on its way
	began           bool     // the copy replaces the data
	later           []uint64 // the stream after the copy
	heardAt         int64
	downSince       int64
	replicas        []*ackReplica
	shown           int // of a primary: how many of its writes are confirmed
	holds           map[string]int64
	listeners       []*simnet.Conn
	queued          map[*simnet.Conn][][]string
}

// An ackReplica is a connection of a replica, with the offset that it has acknowledged.
type ackReplica struct {
	conn  *simnet.Conn
	acked int
}

// The messages between servers. A psync asks for the stream after an offset, and proceed and whole begin it.
type (
	psync struct {
		history string
		offset  int
	}
	proceed struct {
		history string
		tail    []uint64
	}
	whole struct {
		history string
		log     []uint64
	}
	piece []uint64
	acked int
)

// boot starts the server with the data on its disk. A replica may have lost its place in the stream.
func (s *ackServer) boot() {
	s.runID = s.sim.name("a")
	s.link, s.up, s.linked, s.copying, s.began, s.replicas, s.listeners = nil, false, false, false, false, nil, nil
	s.queued, s.shown = map[*simnet.Conn][][]string{}, 0
	if s.holds == nil || s.sim.waitsForAll() { // else a restart while the primary lives is a case of doc/acks.md
		s.holds = map[string]int64{}
	}
	if s.follows == "" || s.sim.net.Rand.IntN(2) == 0 {
		s.history, s.before, s.known = s.sim.name("b"), "", false
	}
	s.host.Listen(simPort, func(c *simnet.Conn) {
		c.Handle(func(message any) { s.take(c, message) }, func() {
			s.listeners = slices.DeleteFunc(s.listeners, func(x *simnet.Conn) bool { return x == c })
			s.replicas = slices.DeleteFunc(s.replicas, func(r *ackReplica) bool { return r.conn == c })
		})
	})
	var beat func()
	beat = func() {
		s.beat()
		s.host.After(100, beat)
	}
	s.host.After(s.sim.net.Rand.Int64N(100), beat)
}

// beat is what a server does ten times a second. A primary writes. A replica keeps its connection, and acknowledges.
func (s *ackServer) beat() {
	now := s.sim.net.Now()
	for holder, until := range s.holds { // a hold that ends while the server is cut off is a case of doc/acks.md
		if s.sim.calmAt != 0 && now >= max(until, s.sim.calmAt+30_000) {
			delete(s.holds, holder)
			if s.follows != "" {
				s.sim.late++
			}
		}
	}
	if s.follows == "" {
		s.sim.next++
		s.log = append(s.log, s.sim.next)
		s.send(piece{s.sim.next})
		return
	}
	switch {
	case s.link == nil:
		s.heardAt = now
		var c *simnet.Conn
		c = s.host.Dial(s.follows, simPort, func(message any) { s.receive(c, message) }, func() { s.lose(c) })
		s.link = c
		from := psync{"?", 0}
		if s.known {
			from = psync{s.history, len(s.log)}
		}
		c.Send(from)
	case now-s.heardAt > 3000:
		c := s.link
		c.Close()
		s.lose(c)
	default:
		s.ack()
	}
}

// send sends a message to all replicas.
func (s *ackServer) send(message any) {
	for _, r := range s.replicas {
		r.conn.Send(message)
	}
}

// ack acknowledges what the server has, unless a Sentinel holds that.
func (s *ackServer) ack() {
	if s.up && len(s.holds) == 0 {
		s.link.Send(acked(len(s.log)))
	}
}

// lose notes that the connection to the primary is gone. A copy that has begun leaves no data.
func (s *ackServer) lose(c *simnet.Conn) {
	if s.link != c {
		return
	}
	if s.up {
		s.downSince = s.sim.net.Now()
	}
	if s.copying && s.began {
		s.log, s.history, s.known = nil, s.sim.name("c"), false
	}
	s.link, s.up, s.copying, s.began = nil, false, false, false
}

// dismiss closes the connections of replicas.
func (s *ackServer) dismiss() {
	for _, r := range s.replicas {
		r.conn.Close()
	}
	s.replicas = nil
}

// receive handles what the primary sends.
func (s *ackServer) receive(c *simnet.Conn, message any) {
	if s.link != c {
		return
	}
	s.heardAt = s.sim.net.Now()
	switch x := message.(type) {
	case proceed:
		if x.history != s.history {
			s.before, s.until, s.history = s.history, len(s.log), x.history
			s.dismiss()
		}
		s.append(x.tail)
		s.up, s.linked, s.known = true, true, true
		s.ack()
	case whole:
		s.copying, s.later = true, nil
		s.host.After(s.sim.net.Rand.Int64N(1000), func() { s.began = s.began || s.link == c })
		s.host.After(1000+s.sim.net.Rand.Int64N(1000), func() {
			if s.link != c || !s.copying {
				return
			}
			s.log, s.history, s.before, s.known = append(slices.Clone(x.log), s.later...), x.history, "", true
			s.copying, s.began, s.up, s.linked = false, false, true, true
			s.dismiss()
			s.ack()
		})
	case piece:
		if s.copying {
			s.later = append(s.later, x...)
			return
		}
		s.append(x)
		s.ack()
	}
}

// append applies a piece of the stream, and passes it on.
func (s *ackServer) append(ids []uint64) {
	s.log = append(s.log, ids...)
	s.send(piece(ids))
}

// take handles a message of a replica, or a request.
func (s *ackServer) take(c *simnet.Conn, message any) {
	switch x := message.(type) {
	case psync:
		if s.follows != "" && !s.up {
			c.Close()
			return
		}
		if x.history == s.history && x.offset <= len(s.log) || x.history == s.before && x.offset <= s.until {
			c.Send(proceed{s.history, slices.Clone(s.log[x.offset:])})
		} else {
			c.Send(whole{s.history, slices.Clone(s.log)})
		}
		s.replicas = append(s.replicas, &ackReplica{c, 0})
	case acked:
		for _, r := range s.replicas {
			if r.conn == c {
				r.acked = max(r.acked, int(x))
			}
		}
		s.confirm()
	case []string:
		if queue, open := s.queued[c]; open && x[0] != "EXEC" {
			s.queued[c] = append(queue, x)
			c.Send(status("QUEUED"))
			return
		}
		c.Send(s.run(c, x))
	}
}

// confirm notes which writes N replicas have. Two connections of one replica count once.
func (s *ackServer) confirm() {
	if s.follows != "" {
		return
	}
	of := map[string]int{}
	for _, r := range s.replicas {
		of[r.conn.Remote.Name] = max(of[r.conn.Remote.Name], r.acked)
	}
	far := slices.Collect(maps.Values(of))
	slices.Sort(far)
	if len(far) < s.sim.acks {
		return
	}
	for upTo := far[len(far)-s.sim.acks]; s.shown < upTo; s.shown++ {
		s.sim.confirmed[s.log[s.shown]] = true
	}
}

// run runs a request.
func (s *ackServer) run(c *simnet.Conn, words []string) respclient.Value {
	switch words[0] {
	case "PING":
		return status("PONG")
	case "INFO":
		return respclient.Value{Kind: '$', Text: s.info()}
	case "MULTI":
		s.queued[c] = [][]string{}
	case "EXEC":
		queue := s.queued[c]
		delete(s.queued, c)
		if s.copying && s.began {
			return respclient.Value{Kind: '-', Text: "EXECABORT"} // SLAVEOF is refused while data are loaded
		}
		for _, each := range queue {
			s.run(c, each)
		}
	case "REPLCONF":
		ms, _ := strconv.ParseInt(words[4], 10, 64)
		if delete(s.holds, words[2]); ms > 0 {
			s.holds[words[2]] = s.sim.net.Now() + ms
		}
	case "SLAVEOF":
		s.follow(words[1])
	case "SUBSCRIBE":
		s.listeners = append(s.listeners, c)
		return respclient.Value{Kind: '*', Elems: []respclient.Value{
			{Kind: '$', Text: "subscribe"}, {Kind: '$', Text: words[1]}, {Kind: ':', Int: 1}}}
	case "PUBLISH":
		for _, l := range s.listeners {
			l.Send(respclient.Value{Kind: '*', Elems: []respclient.Value{
				{Kind: '$', Text: "message"}, {Kind: '$', Text: words[1]}, {Kind: '$', Text: words[2]}}})
		}
		return respclient.Value{Kind: ':', Int: int64(len(s.listeners))}
	}
	return status("OK")
}

// follow changes the server's primary, or makes it one.
func (s *ackServer) follow(host string) {
	if host == "NO" {
		host = ""
	}
	if host == s.follows {
		return
	}
	was := s.follows
	s.sim.note("%s follows %q, held by %d, offset %d", s.host.Name, host, len(s.holds), len(s.log))
	s.follows, s.linked, s.downSince = host, false, 0
	clear(s.holds)
	if c := s.link; c != nil {
		c.Close()
		s.lose(c)
	}
	switch {
	case host == "":
		s.before, s.until, s.history, s.shown = s.history, len(s.log), s.sim.name("b"), 0
	case was == "":
		s.known = true
	}
	s.dismiss()
}

func (s *ackServer) info() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run_id:%s\r\nspindle_version:1\r\n", s.runID)
	if s.follows == "" {
		fmt.Fprintf(&b, "role:master\r\nack_replicas_wanted:%d\r\n", s.sim.acks)
		for i, r := range s.replicas {
			fmt.Fprintf(&b, "slave%d:ip=%s,port=%d,state=online\r\n", i, r.conn.Remote.Name, simPort)
		}
	} else {
		fmt.Fprintf(&b, "role:slave\r\nmaster_host:%s\r\nmaster_port:%d\r\n", s.follows, simPort)
		switch {
		case s.up:
			b.WriteString("master_link_status:up\r\n")
		case s.linked:
			fmt.Fprintf(&b, "master_link_status:down\r\nmaster_link_down_since_seconds:%d\r\n",
				(s.sim.net.Now()-s.downSince)/1000)
		default:
			b.WriteString("master_link_status:down\r\nmaster_link_down_since_seconds:-1\r\n")
		}
		copying := 0
		if s.copying {
			copying = 1
		}
		fmt.Fprintf(&b, "slave_repl_offset:%d\r\nslave_priority:%d\r\nreplica_announced:1\r\nmaster_sync_in_progress:%d\r\n",
			len(s.log), s.priority, copying)
	}
	fmt.Fprintf(&b, "master_replid:%s\r\nmaster_replid2:%s\r\nsecond_repl_offset:%d\r\n", s.history, s.before, s.until+1)
	return b.String()
}
