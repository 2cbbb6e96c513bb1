package replication

import (
	"bytes"
	"strconv"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// Ends are both ends of replication in this server: the feed for its replicas, and the follower of its primary.
type Ends struct {
	feed     *Feed
	follower *Follower
	failover *failover
}

// Join joins both ends.
func Join(feed *Feed, follower *Follower) *Ends {
	x := &failover{core: feed.core, feed: feed, follower: follower, log: follower.parts.Log}
	follower.over, follower.connect = x.answered, follower.startReader
	return &Ends{feed, follower, x}
}

// Tick is replication's share of the core's duty that runs every 100 ms. nowMs is by Core.SteadyMs.
func (e *Ends) Tick(nowMs int64) {
	e.feed.Tick(nowMs)
	e.failover.tick(nowMs)
	e.follower.Tick(nowMs)
}

// HandingOver reports whether this server follows a replica that has not yet taken over.
func (e *Ends) HandingOver() bool { return e.failover.stage == failoverUnderWay }

// State returns what a saved file says of the history: its name, its offset and the stream's database. ok is false if
// no server could continue the history.
func (e *Ends) State() (id string, offset int64, db int, ok bool) {
	f := e.feed
	f.flush()
	switch {
	case e.feed.following:
		return f.ID, e.feed.offset, e.StreamDB(), e.follower.known
	case f.log != nil:
		return f.ID, e.feed.offset, max(f.selected, 0), true
	}
	return "", 0, 0, false
}

// StreamDB returns the stream's database, for a replica that begins to read the stream here. A primary's own stream
// begins with SELECT.
func (e *Ends) StreamDB() int {
	if e.feed.following {
		return e.follower.streamDB()
	}
	return 0
}

// Family returns the commands that replicas send, and the commands of clients that control replication.
func (e *Ends) Family() command.Family {
	const role = command.NoAsyncLoading | command.Admin | command.NoScript | command.Stale
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "sync", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti,
			Run: e.sync},
		{Name: "psync", Arity: -3, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti,
			Run: e.psync},
		{Name: "replconf", Arity: -1, Flags: command.Admin | command.NoScript | command.Loading | command.Stale |
			command.AllowBusy, Run: e.replconf},
		{Name: "role", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.Sentinel,
			ACL: command.ACLAdmin | command.ACLDangerous, Run: e.role},
		{Name: "replicaof", Arity: 3, Flags: role, Run: e.replicaOf},
		{Name: "slaveof", Arity: 3, Flags: role, Run: e.replicaOf},
		{Name: "failover", Arity: -1, Flags: command.Admin | command.NoScript | command.Stale, Run: e.failover.run},
	}}
}

// hostMax is one more than the length of the longest host name.
const hostMax = 256

// refuses returns why no replica can get data at present, or nil. A replica asks again after such an error.
func (e *Ends) refuses() error {
	switch {
	case e.feed.following && !e.follower.Up():
		return errNoLink
	case e.feed.withheld:
		return errWithheld
	}
	return nil
}

// sync runs SYNC. It sends the length, the RDB stream, then the effects. There is no other reply.
func (e *Ends) sync(c *command.Context) error {
	if c.Client.Is(client.Replica) {
		return nil
	}
	if err := e.refuses(); err != nil {
		return err
	}
	if c.Reply.Len() > 0 {
		return errPending
	}
	r := replicaOf(c.Client)
	if r.filter != (Filter{}) && !r.eof {
		return errFiltered
	}
	e.feed.settings.Log.Notice("Replica %s asks for synchronization", r.name())
	r.eof = r.eof && r.rdbOnly // a replica that uses SYNC never reports that it has loaded the view
	e.feed.request(r)
	return nil
}

// psync runs PSYNC <id> <offset> [FAILOVER]. It replies +CONTINUE [<id>] and sends the rest of the stream, or it
// replies +FULLRESYNC <id> <offset> and continues like SYNC. With FAILOVER this server first takes the place of its
// primary.
func (e *Ends) psync(c *command.Context) error {
	if c.Client.Is(client.Replica) {
		return nil
	}
	if len(c.Args) > 3 && command.Is(c.Args[3], "FAILOVER") {
		return e.failover.takeOver(c, e.resync)
	}
	return e.resync(c)
}

// resync replies to PSYNC. The reply may come in a later turn.
func (e *Ends) resync(c *command.Context) error {
	if err := e.refuses(); err != nil {
		return err
	}
	if c.Reply.Len() > 0 {
		return errPending
	}
	r := replicaOf(c.Client)
	if r.filter != (Filter{}) && !r.eof {
		return errFiltered
	}
	offset, err := command.Int(c.Args[2])
	if err != nil {
		e.feed.settings.Log.Warning("Replica %s asks for synchronization but with a wrong offset", r.name())
		return err
	}
	e.feed.settings.Log.Notice("Replica %s asks for synchronization", r.name())
	if e.feed.tryContinue(c, r, c.Args[1], offset) {
		return nil
	}
	if string(c.Args[1]) != "?" {
		e.feed.refused++
	}
	r.psync = true
	if !c.Client.Is(client.Blocked) { // otherwise c.Reply is sent after the first bytes of the copy
		r.answer = c.Reply
	}
	e.feed.request(r)
	r.answer = nil
	return nil
}

// replconf runs REPLCONF option value …, with which a replica describes itself. It replies +OK, or nothing to ACK and
// GETACK.
func (e *Ends) replconf(c *command.Context) error {
	if len(c.Args)%2 == 0 {
		return protocol.ErrSyntax
	}
	r, holder := replicaOf(c.Client), ""
	for i := 1; i < len(c.Args); i += 2 {
		value := c.Args[i+1]
		switch strings.ToLower(string(c.Args[i])) {
		case "listening-port":
			port, err := command.Int(value)
			if err != nil {
				return err
			}
			r.port = int(port)
		case "ip-address":
			if len(value) >= hostMax {
				return errLongHost(len(value))
			}
			if !isOneWord(string(value)) {
				return errReplicaHost
			}
			r.addr = string(value)
		case "capa":
			switch {
			case bytes.EqualFold(value, []byte("eof")):
				r.eof = true
			case bytes.EqualFold(value, []byte("psync2")):
				r.psync2 = true
			case bytes.EqualFold(value, []byte(capaFieldDeadlines)):
				r.reads |= FieldDeadlines | redisFields | payload11 | payload12
			case bytes.EqualFold(value, []byte(capaBlooms)):
				r.reads |= Blooms
			case bytes.EqualFold(value, []byte(capaPayloads)):
				r.reads |= payloads
			case bytes.EqualFold(value, []byte(capaMessages)):
				r.reads |= Messages
			}
		case "version":
			if !r.sayVersion(string(value)) {
				return errVersion(value)
			}
		case "set-cluster-node-id", "rdb-no-compress":
			// A Valkey 9 in a cluster, or a Redis 8.6, sends these options. They do not change the copy or the stream.
		case "rdb-only":
			only, err := bit(value)
			if err != nil {
				return err
			}
			r.rdbOnly = only
		case "rdb-filter-only":
			if err := r.setFilter(string(value)); err != nil {
				return err
			}
		case "holder":
			if len(value) > holderMost {
				return errHolder
			}
			holder = string(value)
		case "hold-acks":
			if err := e.holdAcks(c, holder, value); err != nil {
				return err
			}
		case "ack":
			e.acked(c, r, c.Args[i+1:])
			return nil
		case "getack":
			if e.follower.primary == c.Client { // a primary asks its replica
				e.follower.wire.asked = true
			}
			return nil
		default:
			return errReplconf(c.Args[i])
		}
	}
	c.Reply.OK()
	return nil
}

const (
	holdMost   = 24 * 60 * 60 * 1000 // the longest time of REPLCONF hold-acks, in ms
	holderMost = 64                  // the longest name of a holder
)

// holdAcks runs REPLCONF [holder <id>] hold-acks <ms>. A Sentinel of spindle sends it to the replicas before it chooses
// one of them. They confirm nothing to their primary for so long, or until the Sentinel with that id ends it with 0. So
// the primary cannot confirm a write that the chosen replica lacks. Until then, the primary's FAILOVER is refused.
func (e *Ends) holdAcks(c *command.Context, holder string, value []byte) error {
	ms, err := command.Int(value)
	switch f := e.follower; {
	case err != nil:
		return err
	case ms < 0 || ms > holdMost || f.parts.Clustered:
		return errHold
	case ms > 0 && len(f.holds) >= holdersMax && f.holds[holder] == 0:
		return errHolders
	case ms > 0:
		if f.on {
			f.parts.Log.Notice("A Sentinel is about to choose a new primary ('%s'). The primary gets no acknowledgements "+
				"for %d ms.", describe(c.Client), ms)
		}
		f.holdAcks(holder, ms)
	case f.holds[holder] != 0:
		if f.holdAcks(holder, 0); f.on && len(f.holds) == 0 {
			f.parts.Log.Notice("The primary gets acknowledgements again: the Sentinel's failover has ended.")
		}
	}
	return nil
}

// acked runs REPLCONF ACK <offset> [FACK <offset>]: how much the replica has applied, and how much it has fsynced. args
// are the arguments after ACK.
func (e *Ends) acked(c *command.Context, r *replica, args [][]byte) {
	offset, err := strconv.ParseInt(string(args[0]), 10, 64)
	if err != nil || !c.Client.Is(client.Replica) {
		return
	}
	r.ackOffset, r.ackMs = max(r.ackOffset, offset), e.feed.core.SteadyMs()
	if len(args) > 2 && bytes.EqualFold(args[1], []byte("fack")) {
		if synced, err := strconv.ParseInt(string(args[2]), 10, 64); err == nil {
			r.diskOffset = max(r.diskOffset, synced)
		}
	}
	e.feed.acks.hears(r)
	switch r.state {
	case sending:
		r.loaded = true
	case awaitAck:
		e.feed.goOnline(r)
	}
	e.feed.heardAcks = true
}

// role runs ROLE. A primary's reply is [master, offset, [[address, port, offset] …]]; see describeFollower for a
// replica's.
func (e *Ends) role(c *command.Context) error {
	if e.feed.following {
		describeFollower(c, e.follower)
		return nil
	}
	c.Reply.Array(3)
	c.Reply.BulkString("master")
	c.Reply.Int(e.feed.offset)
	n := 0
	for _, r := range e.feed.replicas {
		if r.state == online {
			n++
		}
	}
	c.Reply.Array(n)
	for _, r := range e.feed.replicas {
		if r.state == online {
			c.Reply.Array(3)
			c.Reply.BulkString(r.host())
			c.Reply.BulkString(strconv.Itoa(r.port))
			c.Reply.BulkString(strconv.FormatInt(r.ackOffset, 10))
		}
	}
	return nil
}

// describeFollower writes the reply of ROLE on a replica: [slave, host, port, state, offset].
func describeFollower(c *command.Context, f *Follower) {
	c.Reply.Array(5)
	c.Reply.BulkString("slave")
	c.Reply.BulkString(f.link.Host)
	c.Reply.Int(int64(f.link.Port))
	c.Reply.BulkString(f.link.state.String())
	offset := int64(-1)
	if f.primary != nil {
		offset = f.feed.offset
	}
	c.Reply.Int(offset)
}

// replicaOf runs REPLICAOF and SLAVEOF host port, or NO ONE.
func (e *Ends) replicaOf(c *command.Context) error {
	f := e.follower
	if f.parts.Clustered {
		return errReplicaOfInCluster
	}
	if e.failover.stage != noFailover {
		return errFailingOver
	}
	if command.Is(c.Args[1], "no") && command.Is(c.Args[2], "one") {
		if f.on {
			f.Promote()
			f.parts.Log.Notice("MASTER MODE enabled (user request from '%s')", describe(c.Client))
		}
		c.Reply.OK()
		return nil
	}
	if c.Client.Is(client.Replica) {
		return errOfReplica
	}
	port, err := strconv.Atoi(string(c.Args[2]))
	if err != nil || port < 0 || port > maxPort {
		return errPort
	}
	of := Address{string(c.Args[1]), port}
	if !isOneWord(of.Host) {
		return errHost
	}
	if f.on && strings.EqualFold(f.link.Host, of.Host) && f.link.Port == of.Port {
		f.parts.Log.Notice("REPLICAOF would result into synchronization with the master we are already connected with. No " +
			"operation performed.")
		f.Hurry()
		c.Reply.Simple("OK Already connected to specified master")
		return nil
	}
	was := f.on
	f.Follow(of)
	if !was {
		f.parts.Notices.Moved(of.Host, of.Port)
	}
	if q := c.Client.Queue; q != nil && command.Flags(q.Flags)&(command.Write|command.MayReplicate) != 0 {
		// The writes of this transaction are in no stream. Only full copies make this server equal to its primary, and
		// its replicas equal to this server.
		f.known = false
		f.feed.restart(newID(), f.feed.offset)
	}
	f.parts.Log.Notice("REPLICAOF %s:%d enabled (user request from '%s')", of.Host, of.Port, describe(c.Client))
	c.Reply.OK()
	return nil
}
