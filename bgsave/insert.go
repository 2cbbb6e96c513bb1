package bgsave

import (
	"errors"
	"fmt"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// Into is an Inserter that fills a keyspace.
type Into struct {
	Space *keyspace.Keyspace
	Turn  func(f func()) // runs f inside a turn; nil: the caller holds it, or nobody else knows Space
	// Replace lets a key that is there give way (DEBUG RELOAD MERGE); otherwise it is an error.
	Replace bool
	// Functions takes a library's source; nil refuses it.
	Functions func(code []byte) error

	env codec.Env
}

// prefetchAhead is how many keys' cache misses are under way at once.
const prefetchAhead = 16

// Databases implements Inserter.
func (in *Into) Databases() int { return in.Space.Len() }

// Prepare implements Inserter.
func (in *Into) Prepare(env codec.Env) { in.env = env }

// Reserve implements Inserter.
func (in *Into) Reserve(db int, keys, _ uint64) {
	if db < in.Space.Len() {
		in.turn(func() { in.Space.DB(db).Reserve(int(keys)) })
	}
}

// Function implements Inserter.
func (in *Into) Function(code []byte) error {
	if in.Functions == nil {
		return fmt.Errorf("functions are not supported")
	}
	return in.Functions(code)
}

func (in *Into) turn(f func()) {
	if in.Turn == nil {
		f()
		return
	}
	in.Turn(f)
}

// Insert implements Inserter. Values that are built have turns of their own.
func (in *Into) Insert(records []rdb.Record) (done int, err error) {
	for done < len(records) && err == nil {
		if r := &records[done]; builds(r) {
			if err = in.build(r); err == nil {
				done++
			}
			continue
		}
		n := 1
		for done+n < len(records) && !builds(&records[done+n]) {
			n++
		}
		n, err = in.inserts(records[done : done+n])
		done += n
	}
	return done, err
}

// inserts takes over keys whose values go in as they are.
func (in *Into) inserts(records []rdb.Record) (done int, err error) {
	in.turn(func() {
		var hashes [prefetchAhead]uint64
		for i := range len(records) + prefetchAhead {
			if at := i - prefetchAhead; at >= 0 {
				if err = in.insert(&records[at], hashes[at%prefetchAhead]); err != nil {
					return
				}
				done++
			}
			if i < len(records) {
				hashes[i%prefetchAhead] = in.Space.DB(records[i].DB).Expect(records[i].Key)
			}
		}
	})
	return done, err
}

// InsertPlain implements PlainInserter.
func (in *Into) InsertPlain(b *rdb.Batch, db int, keys []rdb.Plain, offset int64) (done int, err error) {
	in.turn(func() {
		d := in.Space.DB(db)
		var hashes [prefetchAhead]uint64
		for i := range len(keys) + prefetchAhead {
			if done = i - prefetchAhead; done >= 0 && !in.plain(d, b, &keys[done], hashes[done%prefetchAhead]) {
				err = fmt.Errorf("%w: key %q of database %d, at offset %d", ErrDuplicate, b.Key(&keys[done]), db, offset+keys[done].Distance(&keys[0]))
				return
			}
			if i < len(keys) {
				hashes[i%prefetchAhead] = d.Expect(b.Key(&keys[i]))
			}
		}
		done = len(keys)
	})
	return done, err
}

// plain takes one key over; false if it is there and must not be.
func (in *Into) plain(db *keyspace.DB, b *rdb.Batch, k *rdb.Plain, hash uint64) bool {
	deadline := int64(0)
	if k.DeadlineMs != rdb.None {
		deadline = max(1, k.DeadlineMs) // 0 would be none
	}
	key := b.Key(k)
	for {
		created := false
		if text, number := b.Value(k); number {
			created = db.AddInt(hash, key, k.Int, deadline)
		} else {
			created = db.AddString(hash, key, text, deadline)
		}
		if created || !in.Replace {
			return created
		}
		db.Delete(key)
	}
}

func (in *Into) insert(r *rdb.Record, hash uint64) error {
	if r.Empty {
		return nil
	}
	db, deadline := in.Space.DB(r.DB), deadlineIn(r)
	var created bool
	switch {
	case r.Kind != rdb.KindString:
		created = db.AddPacked(hash, r.Key, codec.TypeOf(r.Kind, r.Raw), value.Encoding(r.Encoding), r.Packed, deadline)
	case r.Value.Form == rdb.Integer:
		created = db.AddInt(hash, r.Key, r.Value.Int, deadline)
	default:
		created = db.AddString(hash, r.Key, r.Value.Bytes, deadline)
	}
	if !created {
		if !in.Replace {
			return duplicate(r)
		}
		db.Delete(r.Key)
		return in.insert(r, hash)
	}
	if r.Least != 0 {
		db.SetFieldsDeadline(r.Key, r.Least)
	}
	in.setClock(r)
	return nil
}

// deadlineIn is a record's deadline as the keyspace has it.
func deadlineIn(r *rdb.Record) int64 {
	if r.DeadlineMs == rdb.None {
		return 0
	}
	return max(1, r.DeadlineMs) // 0 would be none
}

func duplicate(r *rdb.Record) error {
	return fmt.Errorf("%w: key %q of database %d, at offset %d", ErrDuplicate, r.Key, r.DB, r.Offset)
}

func (in *Into) setClock(r *rdb.Record) {
	if r.Idle == rdb.None && r.Freq == rdb.None {
		return
	}
	v := in.Space.DB(r.DB).Peek(r.Key)
	switch lfu := in.Space.Policy.LFU(); {
	case !v.Exists(): // past its deadline by now, and the keyspace not told to trust it
	case !lfu && r.Idle != rdb.None:
		in.Space.SetIdle(v, min(r.Idle, 1<<40)*1000)
	case lfu && r.Freq != rdb.None:
		in.Space.SetFrequency(v, r.Freq)
	}
}

// readyOf is what reading has made of a record.
func readyOf(r *rdb.Record) codec.Ready {
	return codec.Ready{Encoding: value.Encoding(r.Encoding), Packed: r.Packed, FieldsDeadline: r.Least}
}

// builds says that a record's value is a structure, which takes as many turns as it needs.
func builds(r *rdb.Record) bool {
	if r.Kind == rdb.KindString || r.Empty {
		return false
	}
	ready := readyOf(r)
	return !ready.Whole()
}

// A turn that builds ends after buildTurn, and looks at the clock after buildElements: they may be long ones.
const (
	buildElements = 16
	buildTurn     = 150 * time.Microsecond
)

// build takes over a key whose value is a structure. It is in no database until it is whole.
func (in *Into) build(r *rdb.Record) (err error) {
	db, t := in.Space.DB(r.DB), codec.TypeOf(r.Kind, r.Raw)
	var b codec.Builder
	for done := false; !done && err == nil; {
		in.turn(func() {
			if b == nil {
				if !in.Replace && db.Peek(r.Key).Exists() {
					err = duplicate(r)
					return
				}
				b = codec.Start(r.Kind, r.Raw, readyOf(r), in.Space.Store(), &in.env)
			}
			for began := time.Now(); !done && err == nil && time.Since(began) < buildTurn; {
				done, err = b.Step(buildElements)
			}
			switch {
			case err != nil:
				codec.LetGo(in.Space.Store(), t, b)
			case done:
				finish(db, r.Key, t, value.Encoding(r.Encoding), b, deadlineIn(r))
				in.setClock(r)
			}
		})
	}
	switch {
	case err == codec.ErrEmpty:
		r.Empty = true
		return nil
	case err != nil && !errors.Is(err, ErrDuplicate):
		return &rdb.FormatError{Offset: r.Offset, What: codec.Complaint(r.Kind, err), Doing: r.Kind.String(), DB: r.DB, Key: string(r.Key)}
	}
	return err
}

// finish puts a structure that is built in key's place.
func finish(db *keyspace.DB, key []byte, t value.Type, enc value.Encoding, b codec.Builder, deadline int64) {
	db.PutRoot(key, t, enc, b.Root(), deadline)
	if d, ok := b.(codec.Deadlines); ok && d.FieldsDeadline() != 0 {
		db.SetFieldsDeadline(key, d.FieldsDeadline())
	}
}
