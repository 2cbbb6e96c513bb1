package bgsave

import (
	"math"

	"spindle/bgsave/rdb"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// packer encodes values one at a time, on the core.
type packer struct{ e rdb.Encoder }

// append writes v as DUMP shows it: kind and value. A long value is not compressed: its length would be known too late.
func (p *packer) append(dst []byte, v value.Value) []byte {
	dst = append(dst, byte(kindOf(v)))
	if n, ok := v.Int(); ok {
		return rdb.AppendInt(dst, n)
	}
	if b, ok := v.Contiguous(); ok {
		return p.e.AppendText(dst, b)
	}
	return v.AppendTo(rdb.AppendLength(dst, uint64(v.Len())))
}

// keptPayload is how long DUMP's scratch may stay.
const keptPayload = 64 << 10

// dump is DUMP key. Replies: the payload that RESTORE takes, or nil if there is no such key.
//
// The payload's version is the lowest that can say it, so that older servers restore it too.
func (h *Commands) dump(c *command.Context) error {
	v := c.DB.Lookup(c.Args[1])
	if !v.Exists() {
		c.Reply.Null()
		return nil
	}
	h.packer.e.Compress = h.Settings.Compress.Get()
	p := h.payload[:0]
	if room := v.Len() + 64; room > cap(p) {
		p = make([]byte, 0, room)
	}
	p = rdb.AppendFooter(h.packer.append(p, v), 0, stringsVersion)
	if len(p) > protocolLend {
		c.Reply.LendBulk(len(p), nil, p) // this slice is the reply's alone
		return nil
	}
	if cap(p) <= keptPayload {
		h.payload = p
	}
	c.Reply.Bulk(p)
	return nil
}

// protocolLend is the length from which a payload leaves without being copied into the reply.
const protocolLend = keptPayload

// Errors of RESTORE.
var (
	errBusyKey      = &protocol.Error{Code: "BUSYKEY", Text: "Target key name already exists."}
	errRestoreTTL   = &protocol.Error{Code: "ERR", Text: "Invalid TTL value, must be >= 0"}
	errRestoreIdle  = &protocol.Error{Code: "ERR", Text: "Invalid IDLETIME value, must be >= 0"}
	errRestoreFreq  = &protocol.Error{Code: "ERR", Text: "Invalid FREQ value, must be >= 0 and <= 255"}
	errPayload      = &protocol.Error{Code: "ERR", Text: rdb.ErrPayload.Error()}
	errPayloadValue = &protocol.Error{Code: "ERR", Text: rdb.ErrPayloadData.Error()}
)

var (
	wordAbsTTL = []byte("ABSTTL")
	wordDel    = []byte("DEL")
)

// restoreOptions is what stands behind RESTORE's payload.
type restoreOptions struct {
	replace, absolute bool
	idle              int64 // rdb.None, or seconds
	freq              int64 // rdb.None, or 0..255
}

func (o *restoreOptions) parse(args [][]byte) (err error) {
	o.idle, o.freq = rdb.None, rdb.None
	for i := 0; i < len(args); i++ {
		another := i+1 < len(args)
		switch word := args[i]; {
		case command.Is(word, "REPLACE"):
			o.replace = true
		case command.Is(word, "ABSTTL"):
			o.absolute = true
		case command.Is(word, "IDLETIME") && another && o.freq == rdb.None:
			i++
			if o.idle, err = command.Int(args[i]); err != nil {
				return err
			}
			if o.idle < 0 {
				return errRestoreIdle
			}
		case command.Is(word, "FREQ") && another && o.idle == rdb.None:
			i++
			if o.freq, err = command.Int(args[i]); err != nil {
				return err
			}
			if o.freq < 0 || o.freq > 255 {
				return errRestoreFreq
			}
		default:
			return protocol.ErrSyntax
		}
	}
	return nil
}

// restore is RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ counter]. ttl is in ms, 0 for none.
//
// Replies: OK. Errors: BUSYKEY; a payload that is damaged, too new, or whose value does not hold what it says.
// Propagates: with an absolute deadline, so that a replica expires the key at the same instant; if that has passed
// already, the end of the key that was replaced.
func (h *Commands) restore(c *command.Context) error {
	var o restoreOptions
	if err := o.parse(c.Args[4:]); err != nil {
		return err
	}
	key, payload := c.Args[1], c.Args[3]
	old := c.DB.LookupWrite(key).Exists()
	if old && !o.replace {
		return errBusyKey
	}
	ttl, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	if ttl < 0 {
		return errRestoreTTL
	}
	text, err := h.restored(payload)
	if err != nil {
		return err
	}
	deadline := deadlineOf(ttl, o.absolute, c.Now)
	if deadline != 0 && c.HasPassed(deadline) {
		if old {
			c.DB.Delete(key)
			c.Notify(command.EventGeneric, "del", key)
			c.Changed(1)
			c.Propagate(wordDel, key)
		}
		c.Reply.OK()
		return nil
	}
	if text.Form == rdb.Integer {
		c.DB.SetInt(key, text.Int, deadline)
	} else {
		c.DB.SetString(key, text.Bytes, deadline)
	}
	h.setClock(c, key, &o)
	if deadline != 0 && !o.absolute {
		args := append(append([][]byte{c.Args[0], key, c.Effects.Number(deadline)}, c.Args[3:]...), wordAbsTTL)
		c.Propagate(args...)
	}
	c.Notify(command.EventGeneric, "restore", key)
	c.Changed(1)
	c.Reply.OK()
	return nil
}

// restored reads a payload to its last byte: strings are always sanitised deeply, it costs nothing beside reading them.
func (h *Commands) restored(payload []byte) (rdb.Text, error) {
	kind, body, err := rdb.Payload(payload, h.AnyChecksum)
	if err == rdb.ErrPayload {
		return rdb.Text{}, errPayload
	}
	if err != nil {
		return rdb.Text{}, errPayloadValue
	}
	if kind != rdb.KindString {
		return rdb.Text{}, protocol.Errorf("ERR", "%s: a value of type %s cannot be restored by this version", rdb.ErrPayloadData, kind)
	}
	text, rest, err := rdb.StringValue(body)
	if err != nil || len(rest) != 0 {
		return rdb.Text{}, errPayloadValue
	}
	if text.Form == rdb.Packed {
		p, err := text.Append(nil)
		if err != nil {
			return rdb.Text{}, errPayloadValue
		}
		text = rdb.Text{Bytes: p, Size: len(p)}
	}
	return text, nil
}

// deadlineOf is ttl as a deadline; one past the end of time is at the end of time.
func deadlineOf(ttl int64, absolute bool, now int64) int64 {
	if ttl == 0 || absolute {
		return ttl
	}
	if ttl > math.MaxInt64-now {
		return math.MaxInt64
	}
	return ttl + now
}

// setClock gives the key the idle time or counter it came with, where the eviction policy goes by it.
func (h *Commands) setClock(c *command.Context, key []byte, o *restoreOptions) {
	switch lfu := c.Space.Policy.LFU(); {
	case lfu && o.freq != rdb.None:
		c.Space.SetFrequency(c.DB.Peek(key), int(o.freq))
	case !lfu && o.idle != rdb.None:
		c.Space.SetIdle(c.DB.Peek(key), min(o.idle, 1<<40)*1000)
	}
}
