package bgsave

import (
	"math"
	"slices"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// packer encodes values one at a time, on the core.
type packer struct{ w rdb.Writer }

// append appends v's kind and value, in the form of DUMP's reply. It does not compress a long string, which would take
// two passes.
func (p *packer) append(dst []byte, v value.Value, newest int) (payload []byte, kind rdb.Kind) {
	kind = codec.Kind(v, newest)
	p.w.Buf, p.w.Spill = append(dst, byte(kind)), nil
	p.write(kind, v)
	payload, p.w.Buf = p.w.Buf, nil
	return payload, kind
}

func (p *packer) write(kind rdb.Kind, v value.Value) {
	p.w.Compress = p.w.Compress && !v.Long()
	codec.Write(&p.w, kind, v)
}

// elementBytes is the approximate size of an element in a file.
const elementBytes = 16

// length returns how many bytes v takes in a file. r is nil if no long read needs the length.
func (p *packer) length(r *command.Reading, v value.Value, newest int) (n int) {
	p.w.Buf = p.w.Buf[:0]
	p.w.Spill = func(full []byte) []byte {
		if r != nil {
			r.Steps(len(full) / elementBytes)
		}
		n += len(full)
		return full[:0]
	}
	p.write(codec.Kind(v, newest), v)
	n += len(p.w.Buf)
	p.w.Buf = nil
	return n
}

// newest returns the RDB version for which files and payloads are written.
func (h *Commands) newest() int { return int(h.Settings.Version.Get()) }

// SerializedLength returns a function that returns how many bytes a value takes in a file, without its key (DEBUG
// OBJECT). The function may be called outside the turn. SerializedLength may not.
func (h *Commands) SerializedLength() func(r *command.Reading, v value.Value) int {
	own, newest := packer{}, h.newest()
	own.w.Compress = h.Settings.Compress.Get()
	return func(r *command.Reading, v value.Value) int { return own.length(r, v, newest) }
}

// keptPayload is the largest buffer that DUMP reuses for its next payload.
const keptPayload = 64 << 10

// dump runs DUMP key.
// Replies: a payload for RESTORE, or nil if the key does not exist.
// Errors: errDumpLong.
//
// The payload has the lowest version that can hold the value, so that older servers can restore it.
func (h *Commands) dump(c *command.Context) error {
	v := c.DB.Lookup(c.Args[1])
	if !v.Exists() {
		c.Notify(command.EventKeyMiss, "keymiss", c.Args[1])
		c.Reply.Null()
		return nil
	}
	if c.IsLong(c.Space.Store().Weight(v)) {
		d := dumper{newest: h.newest(), compress: h.Settings.Compress.Get(), most: c.MaxBulk(), check: h.mayBeTooLong(c, v)}
		return c.ReadBeside(func(r *command.Reading) error { return d.dump(r, v) })
	}
	if h.tooLong(c, v) {
		return errDumpLong
	}
	h.packer.w.Compress = h.Settings.Compress.Get()
	p := h.payload[:0]
	if v.Type() == value.String && v.Len()+64 > cap(p) {
		p = make([]byte, 0, v.Len()+64)
	}
	p, kind := h.packer.append(p, v, h.newest())
	p = rdb.AppendFooter(p, 0, lowest(kind))
	if len(p) > protocolLend {
		c.Reply.LendBulk(len(p), nil, p) // nothing else refers to p
		return nil
	}
	if cap(p) <= keptPayload {
		h.payload = p
	}
	c.Reply.Bulk(p)
	return nil
}

// A dumper makes one payload outside the turns.
type dumper struct {
	packer
	newest   int
	compress bool
	most     int64 // bytes of a payload
	check    bool  // it may be longer
}

// dump replies with v's payload.
//
// Errors: errDumpLong.
func (d *dumper) dump(r *command.Reading, v value.Value) error {
	kind := codec.Kind(v, d.newest)
	payload := []byte{byte(kind)}
	if v.Type() == value.String {
		payload = append(make([]byte, 0, v.Len()+64), byte(kind))
	}
	tooLong := v.Type() == value.String && int64(v.Len()) > d.most
	d.w.Compress = d.compress
	d.w.Spill = func(full []byte) []byte {
		r.Steps(len(full) / elementBytes)
		if tooLong = tooLong || d.check && int64(len(payload)+len(full)) > d.most; !tooLong {
			payload = append(payload, full...)
		}
		return full[:0]
	}
	if !tooLong {
		d.write(kind, v)
		d.w.Spill(d.w.Buf)
	}
	if tooLong {
		return errDumpLong
	}
	payload = rdb.AppendFooter(payload, 0, lowest(kind))
	r.Reply.LendBulk(len(payload), nil, payload)
	return nil
}

// tooLong reports whether v's payload would be longer than a bulk string may be. It encodes v only if that is possible.
func (h *Commands) tooLong(c *command.Context, v value.Value) bool {
	if v.Type() == value.String {
		return int64(v.Len()) > c.MaxBulk()
	}
	return h.mayBeTooLong(c, v) && int64(h.SerializedLength()(nil, v)) > c.MaxBulk()
}

// mayBeTooLong reports whether v's payload could be longer than a bulk string may be. O(1).
func (h *Commands) mayBeTooLong(c *command.Context, v value.Value) bool {
	return v.Type() == value.Module || v.Rooted() && int64(c.Space.MemoryUsage(v, 5)) > c.MaxBulk()/2
}

// protocolLend is the payload length from which the payload is lent to the reply instead of being copied.
const protocolLend = keptPayload

var wordAbsTTL = []byte("ABSTTL")

// restoreOptions are the arguments that follow RESTORE's payload.
type restoreOptions struct {
	replace, absolute bool
	idle              int64 // seconds, or rdb.None
	freq              int64 // 0..255, or rdb.None
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

// restore runs RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ counter]. ttl is in ms; 0 is none.
//
// Replies: OK.
// Errors: BUSYKEY; a payload that is damaged, too new, or does not hold a valid value.
// Propagates: RESTORE with an absolute deadline, so that a replica expires the key at the same instant. If the deadline
// has passed, it propagates only the deletion of the replaced key.
func (h *Commands) restore(c *command.Context) error {
	var o restoreOptions
	if err := o.parse(c.Args[4:]); err != nil {
		return err
	}
	payload := c.Args[3]
	if c.DB.LookupWrite(c.Args[1]).Exists() && !o.replace {
		return errBusyKey
	}
	if ttl, err := command.Int(c.Args[2]); err != nil {
		return err
	} else if ttl < 0 {
		return errRestoreTTL
	}
	if h.mayGoBeside(c, payload) {
		h.goBeside(c, o)
		return nil
	}
	v, err := h.restored(c, payload)
	if err != nil {
		return err
	}
	taken := false
	err = h.storeRestored(c, &o, c.Now, func(deadline int64) {
		taken = true
		v.put(c.DB, c.Args[1], deadline)
	})
	if !taken && v.builder != nil {
		codec.LetGo(c.Space.Store(), v.t, v.builder)
	}
	return err
}

// storeRestored stores a restored value: it calls put with the deadline that the arguments give. A relative ttl counts
// from began (Unix ms). If the deadline has passed, it deletes the old key and does not call put.
//
// Errors: errBusyKey, if the key was created since restore looked for it.
func (h *Commands) storeRestored(c *command.Context, o *restoreOptions, began int64, put func(deadline int64)) error {
	key := c.Args[1]
	old := c.DB.LookupWrite(key).Exists()
	if old && !o.replace {
		return errBusyKey
	}
	ttl, err := command.Int(c.Args[2])
	if err != nil {
		return err
	}
	deadline := deadlineOf(ttl, o.absolute, began)
	if deadline != 0 && c.HasPassed(deadline) {
		if old {
			c.DB.Delete(key)
			c.Notify(command.EventGeneric, "del", key)
			c.Changed(1)
			c.Propagate(c.Displacement(), key)
		}
		c.Reply.OK()
		return nil
	}
	was := c.Overwritten(c.DB, key)
	put(deadline)
	h.setClock(c, key, o)
	relative := deadline != 0 && !o.absolute
	if payload, other := h.forOlder(c, key, c.Args[3]); relative || other {
		args := append([][]byte{c.Args[0], key, c.Args[2], payload}, c.Args[4:]...)
		if relative {
			args[2] = c.Effects.Number(deadline)
			args = append(args, wordAbsTTL)
		}
		c.Propagate(args...)
	}
	c.NotifyOverwritten(c.DB, key, was, c.DB.Peek(key).Type())
	c.Notify(command.EventNew, "new", key) // also for a replaced key: place deleted the old one
	c.Notify(command.EventGeneric, "restore", key)
	c.Changed(1)
	c.Reply.OK()
	return nil
}

// forOlder returns the payload for replicas and the log. If its version or kind is newer than rdb-write-version allows,
// it becomes the lowest form that can hold the value; other is then true. If the payload has that form, at most the
// footer changes. Otherwise the value at key is encoded again.
func (h *Commands) forOlder(c *command.Context, key, payload []byte) (_ []byte, other bool) {
	most := h.newest()
	if rdb.DialectOf(most) == rdb.Valkey {
		most = codec.CommonVersion // replicas may be of both families
	}
	kind, ok := rdb.KindOf(payload)
	low := ok && kind.Since() <= most
	switch {
	case c.Effects.Unheard, low && rdb.PayloadVersion(payload) <= most:
		return payload, false
	case low:
		return rdb.Restamp(slices.Clone(payload), lowest(kind)), true
	}
	v := c.DB.Peek(key)
	if !v.Exists() { // it has expired; the primary's deletion comes
		return payload, false
	}
	best := codec.Kind(v, most)
	if best.Since() > most {
		most = h.newest()
		best = codec.Kind(v, most)
	}
	switch low := lowest(kind); { // to encode a large value would take the turn for long
	case best == kind && rdb.PayloadVersion(payload) == low:
		return payload, false
	case best == kind:
		return rdb.Restamp(slices.Clone(payload), low), true
	}
	h.packer.w.Compress = h.Settings.Compress.Get()
	p, kind := h.packer.append(nil, v, most)
	return rdb.AppendFooter(p, 0, lowest(kind)), true
}

// lowest returns the lowest version of payloads with this kind.
func lowest(kind rdb.Kind) int { return max(codec.OldestVersion, kind.Since()) }

// A restoredValue is a payload's value, before the key exists.
type restoredValue struct {
	t       value.Type
	text    rdb.Text // set for a string
	ready   codec.Ready
	builder codec.Builder // the builder of the structure; nil for a packed value
}

// put stores the value under key and replaces an old one.
func (v *restoredValue) put(db *keyspace.DB, key []byte, deadline int64) {
	switch {
	case v.builder != nil:
		finish(db, key, v.t, v.ready.Encoding, v.builder, deadline)
	case v.t != value.String:
		db.PutPacked(key, v.t, v.ready.Encoding, v.ready.Packed, deadline)
		if v.ready.FieldsDeadline != 0 {
			db.SetFieldsDeadline(key, v.ready.FieldsDeadline)
		}
	case v.text.Form == rdb.Integer:
		db.SetInt(key, v.text.Int, deadline)
	default:
		db.SetString(key, v.text.Bytes, deadline)
	}
}

// restored reads the whole payload. It always checks the value deeply, whatever sanitize-dump-payload is. The check is
// cheap compared with reading, and the server could not serve a malformed value.
func (h *Commands) restored(c *command.Context, payload []byte) (v restoredValue, err error) {
	kind, body, err := rdb.Payload(payload, h.PayloadCheck())
	if err == rdb.ErrPayload {
		return v, errPayload
	}
	if err != nil {
		return v, errPayloadValue
	}
	if kind == rdb.KindString {
		v.t = value.String
		v.text, err = restoredText(body)
		return v, err
	}
	v.t = codec.TypeOf(kind, body)
	x := &h.expander
	x.Reset()
	x.Env = h.env(c)
	if v.ready, err = x.Read(kind, body); err != nil {
		return v, h.refused(kind, err)
	}
	if codec.Packed(kind) && h.sanitizes(c) {
		h.sanitizations++
	}
	if v.ready.Whole() {
		return v, nil
	}
	v.builder = codec.Start(kind, body, v.ready, c.Space.Store(), &x.Env)
	for done := false; !done; {
		if done, err = v.builder.Step(math.MaxInt); err != nil {
			codec.LetGo(c.Space.Store(), v.t, v.builder)
			return v, h.refused(kind, err)
		}
	}
	return v, nil
}

// PayloadCheck returns which parts of a payload's footer are checked.
func (h *Commands) PayloadCheck() rdb.Check {
	s := h.Settings
	return rdb.Check{AnySum: h.AnyChecksum, Relaxed: s.VersionCheck.Get() == VersionRelaxed,
		SkipMeta: s.ModuleData.Get() == SkipModuleData}
}

// env returns the limits for reading a client's payload.
func (h *Commands) env(c *command.Context) codec.Env {
	return codec.Env{Limits: h.limits(), MaxFilter: c.MaxFilter(), Now: c.Now}
}

// refused returns the error for a payload that holds no valid value. Only the log gets the reason.
func (h *Commands) refused(kind rdb.Kind, why error) error {
	if why == codec.ErrFilterSize {
		return errFilterSize
	}
	h.Log.Verbose("Internal error in RDB reading a payload of RESTORE -> %s", codec.Complaint(kind, why))
	return errPayloadValue
}

// restoredText reads the string in a payload.
func restoredText(body []byte) (rdb.Text, error) {
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

// sanitizes reports whether sanitize-dump-payload asks for a deep check of this client's payloads. INFO counts these
// checks.
func (h *Commands) sanitizes(c *command.Context) bool {
	switch h.Settings.Sanitize.Get() {
	case SanitizeYes:
		return true
	case SanitizeClients:
		return !c.Client.Is(client.Primary) && (h.SkipsSanitize == nil || !h.SkipsSanitize(c.Client))
	}
	return false
}

// limits returns the sizes up to which a value is packed.
func (h *Commands) limits() codec.Limits {
	if h.Limits == nil {
		return codec.DefaultLimits
	}
	return h.Limits()
}

// deadlineOf turns ttl into a deadline. A sum that overflows becomes the largest deadline.
func deadlineOf(ttl int64, absolute bool, now int64) int64 {
	if ttl == 0 || absolute {
		return ttl
	}
	if ttl > math.MaxInt64-now {
		return math.MaxInt64
	}
	return ttl + now
}

// setClock gives the key the idle time or LFU counter of the arguments, if the eviction policy uses it. Otherwise the
// key starts like a new one.
func (h *Commands) setClock(c *command.Context, key []byte, o *restoreOptions) {
	v := c.DB.Peek(key)
	switch lfu := c.Space.Policy.LFU(); {
	case !v.Exists(): // expired; on a replica the key stays until its primary deletes it
	case lfu && o.freq != rdb.None:
		c.Space.SetFrequency(v, int(o.freq))
	case !lfu && o.idle != rdb.None:
		c.Space.SetIdle(v, min(o.idle, 1<<40)*1000)
	default:
		c.Space.Renew(v)
	}
}
