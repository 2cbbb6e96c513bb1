package conn

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// auth is AUTH [username] password.
//
// Errors: WRONGPASS; ERR if no username is given and the default user has no password.
func (f *family) auth(c *command.Context) error {
	if len(c.Args) > 3 {
		return protocol.ErrSyntax
	}
	password := c.Args[len(c.Args)-1]
	defer c.Redact(len(c.Args) - 1)
	if len(c.Args) == 2 {
		if f.Users.Default().Rights().NoPass() {
			return errNoPassword
		}
		return f.replyOK(c, f.authenticate(c, []byte(acl.DefaultName), password))
	}
	defer c.Redact(1)
	return f.replyOK(c, f.authenticate(c, c.Args[1], password))
}

func (f *family) replyOK(c *command.Context, err error) error {
	if err == nil {
		c.Reply.OK()
	}
	return err
}

// authenticate makes name the user of c's client, if the password is right.
func (f *family) authenticate(c *command.Context, name, password []byte) error {
	user := f.Users.Authenticate(name, password)
	if user == nil {
		f.AuthFailed(c, name)
		return errWrongPass
	}
	f.SetUser(c.Client, user)
	c.Client.Authenticated = true
	return nil
}

// hello is HELLO [protover [AUTH username password] [SETNAME clientname]]. It greets and sets the protocol version. An
// error in any option changes nothing.
func (f *family) hello(c *command.Context) error {
	cl, args := c.Client, c.Args
	proto := int64(cl.Protocol)
	var user, password, name []byte
	named := false
	if len(args) > 1 {
		n, ok := number.ParseInt(args[1])
		if !ok {
			return errBadProto
		}
		if n != 2 && n != 3 {
			return errNoProto
		}
		proto = n
	}
	for i := 2; i < len(args); i++ {
		left := len(args) - 1 - i
		switch {
		case command.Is(args[i], "AUTH") && left >= 2:
			user, password = args[i+1], args[i+2]
			defer c.Redact(i + 1)
			defer c.Redact(i + 2)
			i += 2
		case command.Is(args[i], "SETNAME") && left >= 1:
			name, named = args[i+1], true
			if !printable(name) {
				return errClientName
			}
			i++
		default:
			return errHelloOption(args[i])
		}
	}
	if user != nil {
		if err := f.authenticate(c, user, password); err != nil {
			return err
		}
	}
	if !cl.Authenticated {
		return errHelloAuth
	}
	if named {
		cl.Name = string(name)
	}
	if cl.Protocol != int(proto) {
		cl.Protocol = int(proto)
		if f.Speaks != nil {
			f.Speaks(cl)
		}
	}
	r := c.Reply
	r.RESP3 = proto == 3

	mode, role := "standalone", "master"
	if f.Mode != nil {
		mode = f.Mode()
	}
	if f.Role != nil {
		role = f.Role()
	}
	fields, zone := 7, ""
	if f.Zone != nil {
		zone = f.Zone()
	}
	if mode == "sentinel" {
		fields--
	}
	if zone != "" {
		fields++
	}
	r.Map(fields)
	r.BulkString("server")
	r.BulkString("redis")
	r.BulkString("version")
	r.BulkString(c.Settings.Redis())
	r.BulkString("proto")
	r.Int(proto)
	r.BulkString("id")
	r.Int(cl.ID)
	r.BulkString("mode")
	r.BulkString(mode)
	if mode != "sentinel" {
		r.BulkString("role")
		r.BulkString(role)
	}
	r.BulkString("modules")
	if f.Modules == nil {
		r.Array(0)
	} else {
		f.Modules(r)
	}
	if zone != "" {
		r.BulkString("availability_zone")
		r.BulkString(zone)
	}
	return nil
}

// ping is PING [message]. A subscribed RESP2 client gets the reply in the form of a pub/sub message.
func ping(c *command.Context) error {
	if len(c.Args) > 2 {
		return command.ErrArity(c.Spec)
	}
	switch {
	case c.Client.Is(client.PubSub) && c.Client.Protocol == 2:
		c.Reply.Array(2)
		c.Reply.BulkString("pong")
		if len(c.Args) == 2 {
			c.Reply.Bulk(c.Args[1])
		} else {
			c.Reply.BulkString("")
		}
	case len(c.Args) == 2:
		c.Reply.Bulk(c.Args[1])
	default:
		c.Reply.Simple("PONG")
	}
	return nil
}

func echo(c *command.Context) error {
	c.Reply.Bulk(c.Args[1])
	return nil
}

func selectDB(c *command.Context) error {
	n, err := command.Int32(c.Args[1])
	if err != nil {
		return err
	}
	if n != 0 && c.Space.BySlot() && c.Space.Len() == 1 {
		return errSelectInCluster
	}
	if n < 0 || n >= c.Space.Len() {
		return protocol.ErrDBIndex
	}
	c.Client.DB = n
	c.Reply.OK()
	return nil
}

// quit is QUIT. Replies: OK; then the connection is closed.
func (f *family) quit(c *command.Context) error {
	c.Reply.OK()
	if c.Client.Conn != nil {
		f.Kill(c.Client, true)
	}
	return nil
}

// reset is RESET. The connection returns to its initial state, except for its library name.
func (f *family) reset(c *command.Context) error {
	cl := c.Client
	if cl.Is(client.Replica|client.Primary) && !cl.Is(client.Monitor) {
		return errResetLink
	}
	if f.Reset != nil {
		f.Reset(cl)
	}
	const kept = client.Unix | client.CloseASAP | client.CloseAfter | client.ReplySkip | client.Paused |
		client.Redirects
	cl.Flags &= kept
	cl.DB, cl.Name, cl.AckWish = 0, "", 0
	cl.Protocol, c.Reply.RESP3 = 2, false
	f.SetUser(cl, f.Users.Default())
	cl.Authenticated = f.Users.DefaultIsOpen()
	c.Reply.Simple("RESET")
	return nil
}
