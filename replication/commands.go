package replication

import (
	"bytes"
	"strconv"
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/setting"
	"spindle/protocol"
)

// Family is what replicas say to a primary, and what clients ask about them.
func (f *Feed) Family() command.Family {
	const role = command.NoAsyncLoading | command.Admin | command.NoScript | command.Stale
	return command.Family{Name: "server", Rows: []command.Spec{
		{Name: "sync", Arity: 1, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti,
			Run: f.sync},
		{Name: "psync", Arity: -3, Flags: command.Admin | command.NoScript | command.NoAsyncLoading | command.NoMulti,
			Run: f.psync},
		{Name: "replconf", Arity: -1, Flags: command.Admin | command.NoScript | command.Loading | command.Stale |
			command.AllowBusy, Run: f.replconf},
		{Name: "role", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.Sentinel,
			ACL: command.ACLAdmin | command.ACLDangerous, Run: f.role},
		{Name: "replicaof", Arity: 3, Flags: role, Run: f.follower.ReplicaOf},
		{Name: "slaveof", Arity: 3, Flags: role, Run: f.follower.ReplicaOf},
		{Name: "failover", Arity: -1, Flags: command.Admin | command.NoScript | command.Stale, Run: f.follower.Failover},
	}}
}

// WaitFamily is WAIT and WAITAOF, which the reference lists among the generic commands.
func (f *Feed) WaitFamily() command.Family {
	return command.Family{Name: "generic", Rows: []command.Spec{
		{Name: "wait", Arity: 3, Flags: command.Blocking, ACL: command.ACLConnection,
			Tips: []string{"request_policy:all_shards", "response_policy:agg_min"}, Run: f.wait},
		{Name: "waitaof", Arity: 4, Flags: command.Blocking, ACL: command.ACLConnection,
			Tips: []string{"request_policy:all_shards", "response_policy:agg_min"}, Run: f.waitaof},
	}}
}

var (
	// What a replica reads as the RDB stream must not begin with the reply to something else.
	errPending  = &protocol.Error{Code: "ERR", Text: "SYNC and PSYNC are invalid with pending output"}
	errNoLink   = &protocol.Error{Code: "NOMASTERLINK", Text: "Can't SYNC while not connected with my master"}
	errFiltered = &protocol.Error{Code: "ERR", Text: "Filtered replica requires EOF capability"}
	errNoFilter = &protocol.Error{Code: "ERR", Text: "Missing rdb-filter-only values"}
	errFailover = &protocol.Error{Code: "ERR", Text: "PSYNC FAILOVER can't be sent to a master."}
	errNegative = &protocol.Error{Code: "ERR", Text: "timeout is negative"}
	errTimeout  = &protocol.Error{Code: "ERR", Text: "timeout is not an integer or out of range"}
	errTooLong  = &protocol.Error{Code: "ERR", Text: "timeout is out of range"}
	errNoAOF    = &protocol.Error{Code: "ERR",
		Text: "WAITAOF cannot be used when numlocal is set but appendonly is disabled."}
	errNotPositive = &protocol.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	errNotBit      = &protocol.Error{Code: "ERR", Text: "value is out of range, value must between 0 and 1"}
)

// hostMax is the first length that no host name has.
const hostMax = 256

var errReplicaHost = &protocol.Error{Code: "ERR", Text: "REPLCONF ip-address provided by replica instance is invalid"}

// bit reads a 0 or a 1.
func bit(arg []byte) (bool, error) {
	n, err := command.Int(arg)
	if err == nil && n != 0 && n != 1 {
		err = errNotBit
	}
	return n == 1, err
}

// sync is SYNC, the form without a handshake: the length, the RDB stream, then the effects. No reply of its own.
func (f *Feed) sync(c *command.Context) error {
	if c.Client.Is(client.Replica) {
		return nil
	}
	if f.following && !f.follower.Up() {
		return errNoLink
	}
	if c.Reply.Len() > 0 {
		return errPending
	}
	r := f.of(c.Client)
	if r.filter != (Filter{}) && !r.eof {
		return errFiltered
	}
	f.settings.Log.Notice("Replica %s asks for synchronization", r.name())
	r.eof = r.eof && r.rdbOnly // who takes the stream this way never says that it has loaded the view
	f.request(r)
	return nil
}

// psync is PSYNC <id> <offset>: +CONTINUE [<id>] and the stream from there on, or +FULLRESYNC <id> <offset>, then as
// SYNC.
func (f *Feed) psync(c *command.Context) error {
	if c.Client.Is(client.Replica) {
		return nil
	}
	if len(c.Args) > 3 && command.Is(c.Args[3], "FAILOVER") {
		if err := f.follower.takeOver(c); err != nil {
			return err
		}
	}
	if f.following && !f.follower.Up() {
		return errNoLink
	}
	if c.Reply.Len() > 0 {
		return errPending
	}
	r := f.of(c.Client)
	if r.filter != (Filter{}) && !r.eof {
		return errFiltered
	}
	offset, err := command.Int(c.Args[2])
	if err != nil {
		f.settings.Log.Warning("Replica %s asks for synchronization but with a wrong offset", r.name())
		return err
	}
	f.settings.Log.Notice("Replica %s asks for synchronization", r.name())
	if f.tryContinue(c, r, c.Args[1], offset) {
		return nil
	}
	if string(c.Args[1]) != "?" {
		f.refused++
	}
	r.psync, r.answer = true, c.Reply
	f.request(r)
	r.answer = nil
	return nil
}

// replconf is REPLCONF option value …: what a replica tells of itself; +OK, or nothing for ACK and GETACK.
func (f *Feed) replconf(c *command.Context) error {
	if len(c.Args)%2 == 0 {
		return protocol.ErrSyntax
	}
	r := f.of(c.Client)
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
				return protocol.Errorf("ERR", "REPLCONF ip-address provided by replica instance is too long: %d bytes", len(value))
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
				r.reads |= FieldDeadlines
			case bytes.EqualFold(value, []byte(capaBlooms)):
				r.reads |= Blooms
			}
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
		case "ack":
			f.acked(c, r, c.Args[i+1:])
			return nil
		case "getack":
			if f.follower.primary == c.Client { // what a primary tells its replica
				f.follower.wire.asked = true
			}
			return nil
		default:
			return protocol.Errorf("ERR", "Unrecognized REPLCONF option: %s", c.Args[i])
		}
	}
	c.Reply.OK()
	return nil
}

// setFilter is REPLCONF rdb-filter-only, whose value lists what the RDB stream is to hold. Only functions can be
// asked for: every filter means a stream without keys.
func (r *replica) setFilter(list string) error {
	words, err := setting.SplitArgs(list)
	if err != nil {
		return errNoFilter
	}
	r.filter = Filter{NoKeys: true, NoFunctions: true} // also when a word is refused
	for _, word := range words {
		if !strings.EqualFold(word, "functions") {
			return protocol.Errorf("ERR", "Unsupported rdb-filter-only option: %s", word)
		}
		r.filter.NoFunctions = false
	}
	return nil
}

// acked is REPLCONF ACK <offset> [FACK <offset>]: what the replica has applied, and what it has fsynced. args begin
// behind ACK.
func (f *Feed) acked(c *command.Context, r *replica, args [][]byte) {
	offset, err := strconv.ParseInt(string(args[0]), 10, 64)
	if err != nil || !c.Client.Is(client.Replica) {
		return
	}
	r.ackOffset, r.ackMs = max(r.ackOffset, offset), f.core.SteadyMs()
	if len(args) > 2 && bytes.EqualFold(args[1], []byte("fack")) {
		if synced, err := strconv.ParseInt(string(args[2]), 10, 64); err == nil {
			r.diskOffset = max(r.diskOffset, synced)
		}
	}
	switch r.state {
	case sending:
		r.loaded = true
	case awaitAck:
		f.goOnline(r)
	}
	f.acks = true
}

// role is ROLE: [master, offset, [[address, port, offset] …]], or that of a replica.
func (f *Feed) role(c *command.Context) error {
	if f.following {
		f.follower.describeRole(c)
		return nil
	}
	c.Reply.Array(3)
	c.Reply.BulkString("master")
	c.Reply.Int(f.offset)
	n := 0
	for _, r := range f.replicas {
		if r.state == online {
			n++
		}
	}
	c.Reply.Array(n)
	for _, r := range f.replicas {
		if r.state == online {
			c.Reply.Array(3)
			c.Reply.BulkString(r.host())
			c.Reply.BulkString(strconv.Itoa(r.port))
			c.Reply.BulkString(strconv.FormatInt(r.ackOffset, 10))
		}
	}
	return nil
}
