package conn

import (
	"math"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// printable reports whether name consists of printable ASCII without blanks, as CLIENT LIST requires.
func printable(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}

func (f *family) id(c *command.Context) error {
	c.Reply.Int(c.Client.ID)
	return nil
}

// setName is CLIENT SETNAME name. An empty name removes the old one.
func (f *family) setName(c *command.Context) error {
	if !printable(c.Args[2]) {
		return errClientName
	}
	c.Client.Name = string(c.Args[2])
	c.Reply.OK()
	return nil
}

func (f *family) getName(c *command.Context) error {
	if c.Client.Name == "" {
		c.Reply.Null()
	} else {
		c.Reply.BulkString(c.Client.Name)
	}
	return nil
}

// setInfo is CLIENT SETINFO LIB-NAME name, CLIENT SETINFO LIB-VER version.
func (f *family) setInfo(c *command.Context) error {
	field := (*string)(nil)
	switch {
	case command.Is(c.Args[2], "LIB-NAME"):
		field = &c.Client.LibName
	case command.Is(c.Args[2], "LIB-VER"):
		field = &c.Client.LibVersion
	default:
		return errOption(c.Args[2])
	}
	if !printable(c.Args[3]) {
		return errPrintable(c.Args[2])
	}
	*field = string(c.Args[3])
	c.Reply.OK()
	return nil
}

// capa is CLIENT CAPA capability [capability …]: what this client can do. Only redirect is known. On a replica, a
// client with this capability gets redirected to the primary for commands on data. After READONLY the replica serves
// its reads.
func (f *family) capa(c *command.Context) error {
	for _, word := range c.Args[2:] {
		if command.Is(word, "REDIRECT") {
			c.Client.Flags |= client.Redirects
		}
	}
	c.Reply.OK()
	return nil
}

// onOff sets flag if the argument is ON, and clears it if the argument is OFF.
func onOff(c *command.Context, flag client.Flags) error {
	switch {
	case command.Is(c.Args[2], "ON"):
		c.Client.Flags |= flag
	case command.Is(c.Args[2], "OFF"):
		c.Client.Flags &^= flag
	default:
		return protocol.ErrSyntax
	}
	c.Reply.OK()
	return nil
}

// noEvict is CLIENT NO-EVICT ON|OFF. With ON, maxmemory-clients does not evict this client.
func (f *family) noEvict(c *command.Context) error { return onOff(c, client.NoEvict) }

// noTouch is CLIENT NO-TOUCH ON|OFF. With ON, this client's reads do not update the LRU and LFU data of keys.
func (f *family) noTouch(c *command.Context) error { return onOff(c, client.NoTouch) }

// reply is CLIENT REPLY ON|OFF|SKIP. Only ON has a reply.
func (f *family) reply(c *command.Context) error {
	cl := c.Client
	switch {
	case command.Is(c.Args[2], "ON"):
		cl.Flags &^= client.ReplyOff | client.ReplySkip
		c.Reply.OK()
	case command.Is(c.Args[2], "OFF"):
		cl.Flags |= client.ReplyOff
	case command.Is(c.Args[2], "SKIP"):
		if !cl.Is(client.ReplyOff) {
			cl.Flags |= client.ReplySkipNext
		}
	default:
		return protocol.ErrSyntax
	}
	return nil
}

// pause is CLIENT PAUSE milliseconds [WRITE|ALL].
func (f *family) pause(c *command.Context) error {
	all := true
	switch {
	case len(c.Args) > 4:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case len(c.Args) == 4 && command.Is(c.Args[3], "WRITE"):
		all = false
	case len(c.Args) == 4 && !command.Is(c.Args[3], "ALL"):
		return errPauseMode
	}
	n, ok := number.ParseInt(c.Args[2])
	switch {
	case !ok:
		return errTimeout
	case n < 0:
		return errTimeoutSign
	case n > math.MaxInt64-c.Now:
		return errTimeoutRange
	}
	f.Pause(all, n)
	c.Reply.OK()
	return nil
}

// ack is CLIENT ACK [replicas|DEFAULT]. This connection's replies then wait until that many replicas have the data that
// the replies show. Without an argument it replies the present number. DEFAULT means the user's number, or
// min-replicas-to-ack.
func (f *family) ack(c *command.Context) error {
	switch {
	case len(c.Args) > 3:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case len(c.Args) == 2:
		c.Reply.Int(int64(c.Client.AckLevel()))
		return nil
	case f.SetAcks == nil:
		return errNoAcks
	}
	level := int64(-1)
	if !command.Is(c.Args[2], "DEFAULT") {
		n, ok := number.ParseInt(c.Args[2])
		if !ok || n < 0 || n > protocol.AckLevels {
			return errAcks
		}
		level = n
	}
	f.SetAcks(c.Client, int(level))
	c.Reply.OK()
	return nil
}

func (f *family) unpause(c *command.Context) error {
	f.Unpause()
	c.Reply.OK()
	return nil
}

// unblock is CLIENT UNBLOCK id [TIMEOUT|ERROR]. Replies: 1 if it ended a wait of the client, else 0.
func (f *family) unblock(c *command.Context) error {
	withErr := false
	switch {
	case len(c.Args) > 4:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case len(c.Args) == 4 && command.Is(c.Args[3], "ERROR"):
		withErr = true
	case len(c.Args) == 4 && !command.Is(c.Args[3], "TIMEOUT"):
		return errUnblockReason
	}
	id, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	n := int64(0)
	if cl := f.Clients.Get(id); cl != nil && f.Unblock != nil && f.Unblock(cl, withErr) {
		n = 1
	}
	c.Reply.Int(n)
	return nil
}

func (f *family) help(c *command.Context) error {
	command.Help(c,
		"ACK [<replicas>|DEFAULT]",
		"    How many replicas must have what a reply of this connection shows, before it leaves.",
		"CACHING (YES|NO)",
		"    Whether the keys of the next command are tracked, in OPTIN and OPTOUT mode.",
		"CAPA <capability> [<capability> [...]]",
		"    Say what this connection can do. With redirect, a replica answers -REDIRECT <ip>:<port>.",
		"GETNAME",
		"    The name of this connection.",
		"GETREDIR",
		"    The id of the client that invalidations are redirected to, or -1.",
		"ID",
		"    The id of this connection.",
		"INFO",
		"    This connection as CLIENT LIST shows it.",
		"KILL <ip:port>",
		"    Close the connection made from <ip:port>.",
		"KILL <option> <value> [<option> <value> [...]]",
		"    Close every connection that all the options hold for:",
		"    * ADDR (<ip:port>|<unixsocket>:0)",
		"      it was made from this address",
		"    * LADDR (<ip:port>|<unixsocket>:0)",
		"      it was made to this address of the server",
		"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
		"      it is of this type",
		"    * USER <username>",
		"      it has authenticated as <username>",
		"    * SKIPME (YES|NO)",
		"      whether this connection is spared (default: yes)",
		"    * ID <client-id>",
		"      it has this id",
		"    * MAXAGE <maxage>",
		"      it is at least <maxage> seconds old",
		"    * IDLE <seconds>",
		"      it has sent nothing for so long",
		"    * NAME <name>, LIB-NAME <name>, LIB-VER <version>, DB <index>, IP <ip>, FLAGS <flags>,",
		"      CAPA <capabilities>",
		"      it has this, as CLIENT LIST shows it; of flags at least these",
		"    * NOT-ID, NOT-ADDR, NOT-TYPE and so on, of all but MAXAGE, IDLE and SKIPME",
		"      the opposite",
		"LIST [<option> <value> [...]]",
		"    A line for each connection that all the options hold for, as of KILL.",
		"MAINT_NOTIFICATIONS (ON [MOVING-ENDPOINT-TYPE <type>]|OFF)",
		"    Whether this connection is told of failovers, slot moves and a shutdown of the server.",
		"NO-EVICT (ON|OFF)",
		"    Spare this connection when clients take more memory than they may.",
		"NO-TOUCH (ON|OFF)",
		"    Leave the LRU and LFU clocks of the keys this connection reads as they are.",
		"PAUSE <timeout> [WRITE|ALL]",
		"    Hold back the commands of all clients, or those that write, for <timeout> milliseconds.",
		"REPLY (ON|OFF|SKIP)",
		"    Whether this connection's commands are answered.",
		"SETINFO <option> <value>",
		"    Note LIB-NAME or LIB-VER, which CLIENT LIST shows.",
		"SETNAME <name>",
		"    Give this connection a name.",
		"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
		"    Whether this connection hears that keys it may have cached have changed.",
		"TRACKINGINFO",
		"    How client-side caching is set for this connection.",
		"UNBLOCK <clientid> [TIMEOUT|ERROR]",
		"    End the wait of a blocked client, as its timeout would or with an error.",
		"UNPAUSE",
		"    End a pause.",
	)
	return nil
}
