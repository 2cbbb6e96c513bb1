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

// This file runs a large RESTORE outside the turn, while its client waits. A goroutine checks and reads the payload and
// builds the value in short slices of turns. The last slice puts the key into its database. Until then the key is
// latched: commands that name it wait. If the client leaves earlier, nothing changes.

const (
	besideFrom   = 64 << 10               // bytes of a large payload
	besideSparse = 8 << 10                // for a filter: it may expand to 90 times this
	besideSlice  = 200 * time.Microsecond // about how long one slice of a turn takes
	besideString = 512 << 10              // bytes of a string that one slice copies
)

// A besideRestore is one RESTORE that works outside the turn.
type besideRestore struct {
	h       *Commands
	o       restoreOptions
	payload []byte
	lent    memory.Ref // the memory of payload; 0: payload is on Go's heap
	release func()     // opens the key's latch
	began   int64      // when the command began, Unix ms

	x    codec.Expander // not h's expander, which other commands use meanwhile
	v    restoredValue
	root memory.Ref // the block of a long string
	err  error      // why the payload is refused
	done bool       // v is complete, or err is set
	left bool       // the client has gone
}

// mayGoBeside reports whether payload is large enough to be restored outside the turn, and c's client can wait.
func (h *Commands) mayGoBeside(c *command.Context, payload []byte) bool {
	const inline = client.Fake | client.DenyBlocking | client.Multi | client.Primary
	least := besideFrom
	if len(payload) > 0 && rdb.Kind(payload[0]) == rdb.KindModule2 {
		least = besideSparse
	}
	return h.Turn != nil && len(payload) >= least && !c.Client.Is(inline)
}

// goBeside parks the client and starts the goroutine.
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
	c.Args[3] = nil // Block copies the arguments; the payload is not copied
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
	cl, store, check := c.Client, c.Space.Store(), h.PayloadCheck()
	go b.run(cl, store, check, counted)
}

// run is the goroutine. It reads the payload.
func (b *besideRestore) run(cl *client.Client, store *value.Store, check rdb.Check, counted bool) {
	kind, body, err := rdb.Payload(b.payload, check)
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
	b.lower()
	b.h.Writable(func() { b.end(cl, store) })
}

// lower gives the payload a footer that older replicas can read. Otherwise forOlder would copy the payload in the turn.
func (b *besideRestore) lower() {
	if kind, ok := rdb.KindOf(b.payload); ok && b.err == nil &&
		rdb.PayloadVersion(b.payload) > max(lowest(kind), codec.CommonVersion) {
		b.payload = rdb.Restamp(b.payload, lowest(kind))
	}
}

// runString copies the bytes of a string to their final block.
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

// runValue reads a collection and builds it, unless it is stored as a packed value.
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

// A pace is the number of elements a builder adds between two looks at the clock.
type pace int

const maxPace = 64

// build adds elements until slice has passed or the value is complete.
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

// after returns the next pace, given how long this one took. The pace stays low even where elements are cheap, because
// the next element may cost a thousand times as much. For example, a filter's zero pages are skipped, but other pages
// are written.
func (p pace) after(took, slice time.Duration) pace {
	switch {
	case took > slice/4:
		return max(p/2, 1)
	case took < slice/16:
		return min(2*p, maxPace)
	}
	return p
}

// end wakes the client and frees what finish did not take. Turn only.
func (b *besideRestore) end(cl *client.Client, store *value.Store) {
	b.done = true
	if !b.left {
		b.h.Wake(cl)
	}
	if b.v.builder != nil { // finish did not take it
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

// finish runs RESTORE's last step. It checks the key again, because other commands have run in between.
func (b *besideRestore) finish(c *command.Context) error {
	if b.err != nil {
		return b.err
	}
	if err := b.h.Readmit(c, c.Args[1]); err != nil {
		return err
	}
	c.Args[3] = b.payload
	return b.h.storeRestored(c, &b.o, b.began, func(deadline int64) {
		key := c.Args[1]
		if b.root != 0 {
			c.DB.PutLong(key, b.root, len(b.v.text.Bytes), deadline)
		} else {
			b.v.put(c.DB, key, deadline)
		}
		b.root, b.v.builder = 0, nil
	})
}
