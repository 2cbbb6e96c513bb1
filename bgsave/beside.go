package bgsave

import (
	"time"
	"unsafe"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// RESTORE of a large payload goes on beside the turn while its client waits: a goroutine checks and reads the payload,
// and what it builds is built in slices of turns. The key is put in the last of them. Until then nobody sees anything
// of it, who names the key waits, and if the client leaves before that nothing has happened.

const (
	besideFrom   = 64 << 10               // bytes of a payload
	besideSparse = 8 << 10                // the same for a filter, whose payload may expand to 90 times its length
	besideSlice  = 200 * time.Microsecond // of a turn, about
	besideString = 512 << 10              // bytes of a string that a slice copies
)

// A besideRestore is one of them.
type besideRestore struct {
	h       *Commands
	o       restoreOptions
	payload []byte
	lent    memory.Ref // the payload's memory; 0: it is garbage
	release func()     // of the key's latch
	began   int64      // of the command, Unix ms

	x    codec.Expander // its own: others use h's meanwhile
	v    restoredValue
	root memory.Ref // of a long string
	err  error      // why it is refused
	done bool       // v is whole, or err says why not
	left bool       // the client has gone
}

// mayGoBeside says whether a payload is worth it, and its client can wait.
func (h *Commands) mayGoBeside(c *command.Context, payload []byte) bool {
	const inline = client.Fake | client.DenyBlocking | client.Multi | client.Primary
	least := besideFrom
	if len(payload) > 0 && rdb.Kind(payload[0]) == rdb.KindModule2 {
		least = besideSparse
	}
	return h.Turn != nil && len(payload) >= least && !c.Client.Is(inline)
}

// goBeside parks the client and begins.
func (h *Commands) goBeside(c *command.Context, o restoreOptions) {
	b := &besideRestore{h: h, o: o, began: c.Now}
	b.x.Env = h.env(c)
	payload := c.Args[3]
	if k := c.Bulk; k != nil && !k.Taken && len(k.Data) > 0 && unsafe.SliceData(k.Data) == unsafe.SliceData(payload) {
		k.Taken = true
		b.payload, b.lent = payload, memory.Ref(k.Ref)
	} else {
		b.payload = append([]byte(nil), payload...)
	}
	counted := h.sanitizes(c)
	args := c.Args
	b.release = h.Latch(args[1:2])
	c.Args = append([][]byte{}, args...)
	c.Args[3] = nil // Block copies what it finds
	c.Core.Block(c, command.Wait{
		Busy: true,
		Retry: func(c *command.Context) error {
			if !b.done {
				return nil
			}
			return b.finish(c)
		},
		Left: func() { b.left = true },
	})
	c.Args = args
	cl, store, any := c.Client, c.Space.Store(), h.AnyChecksum
	go b.run(cl, store, any, counted)
}

// run is the goroutine.
func (b *besideRestore) run(cl *client.Client, store *value.Store, anySum, counted bool) {
	kind, body, err := rdb.Payload(b.payload, anySum)
	switch {
	case err == rdb.ErrPayload:
		b.err = errPayload
	case err != nil:
		b.err = errPayloadValue
	case kind == rdb.KindString:
		b.runString(body, store)
	default:
		b.runValue(kind, body, store, counted)
	}
	b.h.Writable(func() { b.end(cl, store) })
}

// runString copies a string's bytes to where they will stay.
func (b *besideRestore) runString(body []byte, store *value.Store) {
	b.v.t = value.String
	if b.v.text, b.err = restoredText(body); b.err != nil || b.v.text.Form == rdb.Integer ||
		len(b.v.text.Bytes) < besideFrom {
		return
	}
	text := b.v.text.Bytes
	for at := 0; at < len(text); at += besideString {
		b.h.Turn(func() {
			if b.left {
				at = len(text)
				return
			}
			if at == 0 {
				b.root = store.NewApart(len(text))
			}
			b.root = store.WriteLong(b.root, at, text[at:min(at+besideString, len(text))])
		})
	}
}

// runValue reads a collection, and builds it unless it goes in as it is.
func (b *besideRestore) runValue(kind rdb.Kind, body []byte, store *value.Store, counted bool) {
	v := &b.v
	v.t = codec.TypeOf(kind, body)
	var err error
	if v.ready, err = b.x.Read(kind, body); err != nil {
		b.err = b.h.refused(kind, err)
		return
	}
	if codec.Packed(kind) && counted {
		b.h.Turn(func() { b.h.sanitizations++ })
	}
	if v.ready.Whole() {
		return
	}
	p := pace(1)
	for done := false; !done && b.err == nil; {
		b.h.Turn(func() {
			if b.left {
				done = true
				return
			}
			if v.builder == nil {
				v.builder = codec.Start(kind, body, v.ready, store, &b.x.Env)
			}
			if done, err = p.build(v.builder, besideSlice); err != nil {
				b.err = b.h.refused(kind, err)
			}
		})
	}
}

// A pace is how many elements a builder puts in before the clock is looked at.
type pace int

const maxPace = 64

// build puts elements in until slice has passed, or until it is done.
func (p *pace) build(b codec.Builder, slice time.Duration) (done bool, err error) {
	for left := slice; !done && err == nil && left > 0; {
		began := time.Now()
		done, err = b.Step(int(*p))
		took := time.Since(began)
		left -= took
		*p = p.after(took, slice)
	}
	return done, err
}

// after is the next pace, after this one took so long. It stays low where elements are cheap, since the next ones may
// cost a thousand times as much: zeros of a filter are stepped over, others are pages to write.
func (p pace) after(took, slice time.Duration) pace {
	switch {
	case took > slice/4:
		return max(p/2, 1)
	case took < slice/16:
		return min(2*p, maxPace)
	}
	return p
}

// end has the client go on, and lets go of what it has not taken. Turn only.
func (b *besideRestore) end(cl *client.Client, store *value.Store) {
	b.done = true
	if !b.left {
		b.h.Wake(cl)
	}
	if b.v.builder != nil { // finish has not taken it
		codec.LetGo(store, b.v.t, b.v.builder)
	}
	if b.root != 0 {
		store.DropLong(b.root)
	}
	if b.lent != 0 {
		store.Heap.Free(b.lent, memory.Values)
	}
	b.release()
}

// finish is the last step of RESTORE: what else may have happened to the key meanwhile is looked at again.
func (b *besideRestore) finish(c *command.Context) error {
	if b.err != nil {
		return b.err
	}
	if err := b.h.Readmit(c, c.Args[1]); err != nil {
		return err
	}
	c.Args[3] = b.payload
	return b.h.place(c, &b.o, b.began, func(deadline int64) {
		key := c.Args[1]
		if b.root != 0 {
			c.DB.PutLong(key, b.root, len(b.v.text.Bytes), deadline)
		} else {
			b.v.put(c.DB, key, deadline)
		}
		b.root, b.v.builder = 0, nil
	})
}
