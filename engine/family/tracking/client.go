package tracking

import (
	"bytes"
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// modes are the flags that CLIENT TRACKING sets and CLIENT TRACKINGINFO shows.
const modes = client.TrackingBcast | client.TrackingOptIn | client.TrackingOptOut | client.TrackingNoLoop

// options are the parsed arguments of CLIENT TRACKING ON.
type options struct {
	redirect int64
	modes    client.Flags
	prefixes [][]byte
}

// tracking is CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix …] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]. Replies: OK.
func (t *Tracker) tracking(c *command.Context) error {
	o, err := t.parse(c.Args[3:])
	if err != nil {
		return err
	}
	switch {
	case command.Is(c.Args[2], "ON"):
		if err := t.check(c.Client, &o); err != nil {
			return err
		}
		t.enable(c.Client, &o)
	case command.Is(c.Args[2], "OFF"):
		t.Forget(c.Client)
	default:
		return protocol.ErrSyntax
	}
	c.Reply.OK()
	return nil
}

func (t *Tracker) parse(args [][]byte) (o options, err error) {
	for i := 0; i < len(args); i++ {
		word, more := args[i], i+1 < len(args)
		switch {
		case command.Is(word, "REDIRECT") && more:
			if o.redirect != 0 {
				return o, errRedirectTwice
			}
			i++
			if o.redirect, err = command.Int(args[i]); err != nil {
				return o, err
			}
			if t.registry.Get(o.redirect) == nil {
				return o, errNoRedirect
			}
		case command.Is(word, "BCAST"):
			o.modes |= client.TrackingBcast
		case command.Is(word, "OPTIN"):
			o.modes |= client.TrackingOptIn
		case command.Is(word, "OPTOUT"):
			o.modes |= client.TrackingOptOut
		case command.Is(word, "NOLOOP"):
			o.modes |= client.TrackingNoLoop
		case command.Is(word, "PREFIX") && more:
			i++
			o.prefixes = append(o.prefixes, args[i])
		default:
			return o, protocol.ErrSyntax
		}
	}
	return o, nil
}

// check returns the error if the options contradict each other or the client's present mode.
func (t *Tracker) check(cl *client.Client, o *options) error {
	bcast, in, out := o.modes&client.TrackingBcast != 0, o.modes&client.TrackingOptIn != 0,
		o.modes&client.TrackingOptOut != 0
	switch {
	case !bcast && len(o.prefixes) > 0:
		return errPrefix
	case cl.Is(client.Tracking) && bcast != cl.Is(client.TrackingBcast):
		return errSwitchBcast
	case bcast && (in || out):
		return errBcastOpt
	case in && out:
		return errBothOpts
	case in && cl.Is(client.TrackingOptOut) || out && cl.Is(client.TrackingOptIn):
		return errSwitchOpt
	}
	var mine []string
	if cl.Is(client.Tracking) {
		mine = t.clients[cl].prefixes
	}
	for i, text := range o.prefixes {
		if other, is := overlap(mine, string(text)); is {
			return errOverlapsExisting(text, other)
		}
		for _, other := range o.prefixes[i+1:] {
			if bytes.HasPrefix(text, other) || bytes.HasPrefix(other, text) {
				return errOverlapsProvided(text, other)
			}
		}
	}
	return nil
}

// enable makes cl track. Keys and prefixes that it tracked before stay.
func (t *Tracker) enable(cl *client.Client, o *options) {
	if !cl.Is(client.Tracking) {
		t.clients[cl] = &own{}
		t.space.Watching++
	}
	cl.Flags = cl.Flags&^(modes|client.TrackingBroken) | client.Tracking | o.modes
	cl.Redirect = o.redirect
	if o.modes&client.TrackingBcast == 0 {
		return
	}
	if len(o.prefixes) == 0 {
		t.join(cl, "")
	}
	for _, text := range o.prefixes {
		t.join(cl, string(text))
	}
}

// caching is CLIENT CACHING YES|NO. It decides whether the keys of the next command or transaction are tracked.
func (t *Tracker) caching(c *command.Context) error {
	cl := c.Client
	switch {
	case !cl.Is(client.Tracking):
		return errNotTracking
	case command.Is(c.Args[2], "YES"):
		if !cl.Is(client.TrackingOptIn) {
			return errNotOptIn
		}
	case command.Is(c.Args[2], "NO"):
		if !cl.Is(client.TrackingOptOut) {
			return errNotOptOut
		}
	default:
		return protocol.ErrSyntax
	}
	cl.Flags |= client.Caching
	c.Reply.OK()
	return nil
}

// redirection returns the id of the client that gets cl's invalidations. 0 means cl itself. -1 means that cl does not
// track.
func redirection(cl *client.Client) int64 {
	if !cl.Is(client.Tracking) {
		return -1
	}
	return cl.Redirect
}

// getRedir is CLIENT GETREDIR. Replies: see redirection.
func (t *Tracker) getRedir(c *command.Context) error {
	c.Reply.Int(redirection(c.Client))
	return nil
}

// trackingInfo is CLIENT TRACKINGINFO. Replies: a map of flags, redirect and prefixes.
func (t *Tracker) trackingInfo(c *command.Context) error {
	cl, r := c.Client, c.Reply
	flags := []string{"off"}
	if cl.Is(client.Tracking) {
		flags[0] = "on"
	}
	for _, f := range []struct {
		flag client.Flags
		word string
	}{
		{client.TrackingBcast, "bcast"},
		{client.TrackingOptIn, "optin"}, {client.TrackingOptIn | client.Caching, "caching-yes"},
		{client.TrackingOptOut, "optout"}, {client.TrackingOptOut | client.Caching, "caching-no"},
		{client.TrackingNoLoop, "noloop"}, {client.TrackingBroken, "broken_redirect"},
	} {
		if cl.Flags&f.flag == f.flag {
			flags = append(flags, f.word)
		}
	}
	r.Map(3)
	r.BulkString("flags")
	r.Set(len(flags))
	for _, word := range flags {
		r.BulkString(word)
	}
	r.BulkString("redirect")
	r.Int(redirection(cl))
	r.BulkString("prefixes")
	var prefixes []string
	if mine := t.clients[cl]; mine != nil {
		prefixes = slices.Clone(mine.prefixes)
	}
	r.Array(len(prefixes))
	for _, text := range prefixes {
		r.BulkString(text)
	}
	return nil
}
