package acl

import (
	"crypto/rand"
	"encoding/hex"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/protocol"
)

// cat is ACL CAT [category]. Replies: the categories, or the commands and subcommands of one category, under their
// original names.
func (f *family) cat(c *command.Context) error {
	r := c.Reply
	switch len(c.Args) {
	case 2:
		mark, n := r.Mark(), 0
		for name := range (^command.ACL(0)).Names {
			r.BulkString(name)
			n++
		}
		r.ArrayAt(mark, n)
	case 3:
		category, known := command.Category(c.Args[2])
		if !known {
			return errCategory(c.Args[2])
		}
		mark, n := r.Mark(), 0
		for _, row := range f.Catalogue().All() {
			if row.ACL&category != 0 {
				r.BulkString(row.Full)
				n++
			}
		}
		r.ArrayAt(mark, n)
	default:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	return nil
}

// dryRun is ACL DRYRUN username command [arg ...]. Replies: OK, or the refusal as a string.
//
// Errors: an unknown user or command, a wrong number of arguments.
func (f *family) dryRun(c *command.Context) error {
	user := f.Users.Find(c.Args[2])
	if user == nil {
		return errNoUser(c.Args[2])
	}
	args := c.Args[3:]
	row := f.Catalogue().Find(args)
	if row == nil {
		return errNoCommand(args[0])
	}
	if !row.AcceptsArity(len(args)) {
		return command.ErrArity(row)
	}
	rights := user.Rights()
	if d := f.Users.Check(rights, row, args, acl.Place{DB: c.DB.Index(), Of: c.Space.Len()}); d.Refused() {
		c.Reply.BulkString(d.Verbose(rights, row, args))
		return nil
	}
	c.Reply.OK()
	return nil
}

// genPass is ACL GENPASS [bits]. Replies: a random password in hexadecimal, four bits for each digit.
func genPass(c *command.Context) error {
	bits := int64(256)
	switch len(c.Args) {
	case 2:
	case 3:
		n, err := command.Int(c.Args[2])
		if err != nil {
			return err
		}
		bits = n
	default:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	if bits <= 0 || bits > 4096 {
		return errGenPass
	}
	digits := (bits + 3) / 4
	var random [4096 / 8]byte
	var text [2 * len(random)]byte
	rand.Read(random[:(digits+1)/2])
	hex.Encode(text[:], random[:(digits+1)/2])
	c.Reply.Bulk(text[:digits])
	return nil
}

// log is ACL LOG [count | RESET]. Replies: the newest refusals, 10 by default.
func (f *family) log(c *command.Context) error {
	n := int64(10)
	switch {
	case len(c.Args) == 2:
	case len(c.Args) > 3:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case command.Is(c.Args[2], "RESET"):
		f.Log().Reset()
		c.Reply.OK()
		return nil
	default:
		count, err := command.Int(c.Args[2])
		if err != nil {
			return err
		}
		n = min(max(count, 0), int64(f.Log().Len()))
	}
	entries := f.Log().Newest(int(n))
	c.Reply.Array(len(entries))
	for i := range entries {
		appendEntry(c.Reply, &entries[i], c.Now)
	}
	return nil
}

func appendEntry(r *protocol.Reply, e *acl.Entry, nowMs int64) {
	r.Map(10)
	r.BulkString("count")
	r.Int(e.Count)
	r.BulkString("reason")
	r.BulkString(e.Reason.String())
	r.BulkString("context")
	r.BulkString(e.Origin.String())
	r.BulkString("object")
	r.BulkString(e.Object)
	r.BulkString("username")
	r.BulkString(e.User)
	r.BulkString("age-seconds")
	r.Double(float64(nowMs-e.UpdatedMs) / 1000)
	r.BulkString("client-info")
	r.BulkString(e.Client)
	r.BulkString("entry-id")
	r.Int(e.ID)
	r.BulkString("timestamp-created")
	r.Int(e.CreatedMs)
	r.BulkString("timestamp-last-updated")
	r.Int(e.UpdatedMs)
}
