package bgsave

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// Into is an Inserter that fills a keyspace.
type Into struct {
	Space *keyspace.Keyspace
	Turn  func(f func()) // runs f in a turn, on one of two goroutines; nil: only this load uses Space
	// Replace overwrites existing keys (DEBUG RELOAD MERGE). Without it an existing key is an error.
	Replace bool
	// Functions gets a library's source. If it is nil, a library is an error.
	Functions func(code []byte) error

	mu       sync.Mutex // allows one turn at a time, also if Turn is nil
	writer   *keyspace.Writer
	env      codec.Env
	loader   *keyspace.Loader // for the database of the current keys; nil before the first key
	reserved []int            // databases with an announced size
	next     announced        // the last announced size, until its first key comes
}

// An announced is the number of keys that a database will get.
type announced struct{ db, keys int }

func (in *Into) Databases() int { return in.Space.Len() }

func (in *Into) Prepare(env codec.Env) {
	in.env = env
	if !in.Replace {
		in.writer = in.Space.Writer(in.turn)
	}
}

func (in *Into) Reserve(db int, keys, _ uint64) error {
	if err := in.settle(); err != nil {
		return err
	}
	in.turn(func() { in.Space.DB(db).Reserve(int(keys)) })
	in.next = announced{db, int(keys)}
	if !slices.Contains(in.reserved, db) {
		in.reserved = append(in.reserved, db)
	}
	return nil
}

func (in *Into) Finish() error {
	err := in.settle()
	for _, db := range in.reserved {
		in.turn(func() { in.Space.DB(db).Reserve(0) })
	}
	in.reserved = nil
	if in.writer != nil {
		in.writer.Close()
		in.writer = nil
	}
	return err
}

// into switches in.loader to db. It runs outside turns, because a new loader may allocate 4 MB.
func (in *Into) into(db int) error {
	if in.loader != nil && in.loader.DB().Index() == db {
		return nil
	}
	if err := in.settle(); err != nil {
		return err
	}
	keys := 0
	if in.next.db == db {
		keys, in.next.keys = in.next.keys, 0
	}
	in.loader = in.Space.DB(db).Loader(keys) // only for a first key: a file may announce many sizes without keys
	return nil
}

// settle finishes in.loader: its keys move into the database. A key that exists already is an error.
func (in *Into) settle() (err error) {
	l := in.loader
	in.loader = nil
	for done := l == nil; !done; {
		in.turn(func() {
			var key []byte
			if key, done = l.Finish(); key != nil && err == nil {
				err = duplicate(l.DB().Index(), key)
			}
		})
	}
	return err
}

// settleSome moves some of in.loader's keys into the database, to make room.
func (in *Into) settleSome() error {
	if key := in.loader.Settle(); key != nil {
		return duplicate(in.loader.DB().Index(), key)
	}
	return nil
}

func (in *Into) Function(code []byte) error {
	if in.Functions == nil {
		return fmt.Errorf("functions are not supported")
	}
	return in.Functions(code)
}

func (in *Into) turn(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.Turn == nil {
		f()
		return
	}
	in.Turn(f)
}

// Insert implements Inserter. Values that must be built take several turns.
func (in *Into) Insert(records []rdb.Record) (done int, err error) {
	for done < len(records) && err == nil {
		r := &records[done]
		switch {
		case r.Empty:
			done++
		case builds(r):
			if err = in.build(r); err == nil {
				done++
			}
		case in.Replace || r.Least != 0:
			in.turn(func() { done, err = in.puts(records, done) })
		default:
			if err = in.into(r.DB); err == nil {
				in.turn(func() { done, err = in.adds(records, done) })
			}
		}
	}
	return done, err
}

// puts inserts keys with packed values one by one, without in.loader. It stops at the first record of another kind.
func (in *Into) puts(records []rdb.Record, from int) (done int, err error) {
	for done = from; done < len(records); done++ {
		r := &records[done]
		if r.Empty || builds(r) || !in.Replace && r.Least == 0 {
			break
		}
		if err = in.put(r); err != nil {
			break
		}
	}
	return done, err
}

// adds inserts keys of one database with packed values through in.loader. It stops at the first record of another kind,
// or when the loader is full.
func (in *Into) adds(records []rdb.Record, from int) (done int, err error) {
	l := in.loader
	for done = from; done < len(records); done++ {
		r := &records[done]
		if r.Empty || builds(r) || r.Least != 0 || r.DB != l.DB().Index() {
			break
		}
		if l.Full() {
			return done, in.settleSome()
		}
		var v value.Value
		switch {
		case r.Kind != rdb.KindString:
			v = l.AddPacked(r.Key, codec.TypeOf(r.Kind, r.Raw), value.Encoding(r.Encoding), r.Packed, deadlineIn(r.DeadlineMs))
		case r.Value.Form == rdb.Integer:
			v = l.AddInt(r.Key, r.Value.Int, deadlineIn(r.DeadlineMs))
		default:
			v = l.AddString(r.Key, r.Value.Bytes, deadlineIn(r.DeadlineMs))
		}
		in.setClock(r, v)
	}
	return done, nil
}

func (in *Into) WritePlain(b *rdb.Batch, keys []rdb.Plain, expired func(deadlineMs int64) bool,
	into []keyspace.Written) {
	if in.writer == nil {
		return
	}
	for i := range keys {
		k := &keys[i]
		switch text, number := b.Value(k); {
		case k.DeadlineMs != rdb.None && expired(k.DeadlineMs):
		case number:
			into[i] = in.writer.Int(b.Key(k), k.Int, deadlineIn(k.DeadlineMs))
		default:
			into[i] = in.writer.String(b.Key(k), text, deadlineIn(k.DeadlineMs))
		}
	}
}

func (in *Into) Unwrite(written []keyspace.Written) {
	if in.writer != nil {
		in.turn(func() { in.writer.Discard(written) })
	}
}

func (in *Into) InsertPlain(b *rdb.Batch, db int, keys []rdb.Plain, written []keyspace.Written) (done int, err error) {
	if in.Replace {
		in.turn(func() { in.putPlain(b, db, keys) })
		return len(keys), nil
	}
	if err := in.into(db); err != nil {
		return 0, err
	}
	for done < len(keys) && err == nil {
		in.turn(func() {
			l := in.loader
			if in.writer != nil {
				in.writer.Serve()
			}
			for done < len(keys) {
				if l.Full() {
					err = in.settleSome()
					return
				}
				if n := l.AddWritten(written[done:]); n > 0 {
					done += n
					continue
				}
				k := &keys[done]
				if text, number := b.Value(k); number {
					l.AddInt(b.Key(k), k.Int, deadlineIn(k.DeadlineMs))
				} else {
					l.AddString(b.Key(k), text, deadlineIn(k.DeadlineMs))
				}
				done++
			}
		})
	}
	return done, err
}

// putPlain inserts keys and replaces those that exist.
func (in *Into) putPlain(b *rdb.Batch, db int, keys []rdb.Plain) {
	d := in.Space.DB(db)
	for i := range keys {
		k := &keys[i]
		d.Delete(b.Key(k)) // also deletes its access clock
		if text, number := b.Value(k); number {
			d.SetInt(b.Key(k), k.Int, deadlineIn(k.DeadlineMs))
		} else {
			d.SetString(b.Key(k), text, deadlineIn(k.DeadlineMs))
		}
	}
}

// put inserts one key with a packed value or a string. An existing key is an error unless in.Replace is set.
func (in *Into) put(r *rdb.Record) error {
	db, deadline := in.Space.DB(r.DB), deadlineIn(r.DeadlineMs)
	if !in.Replace && db.Stored(r.Key).Exists() {
		return duplicate(r.DB, r.Key)
	}
	db.Delete(r.Key)
	switch {
	case r.Kind != rdb.KindString:
		db.PutPacked(r.Key, codec.TypeOf(r.Kind, r.Raw), value.Encoding(r.Encoding), r.Packed, deadline)
	case r.Value.Form == rdb.Integer:
		db.SetInt(r.Key, r.Value.Int, deadline)
	default:
		db.SetString(r.Key, r.Value.Bytes, deadline)
	}
	if r.Least != 0 {
		db.SetFieldsDeadline(r.Key, r.Least)
	}
	in.setClock(r, db.Peek(r.Key))
	return nil
}

// deadlineIn converts a file's deadline to the keyspace's.
func deadlineIn(ms int64) int64 {
	if ms == rdb.None {
		return 0
	}
	return max(1, ms) // 0 would mean none
}

func duplicate(db int, key []byte) error {
	return &DuplicateError{db, string(key)}
}

// setClock gives v the idle time or LFU counter that its record r has.
func (in *Into) setClock(r *rdb.Record, v value.Value) {
	if r.Idle == rdb.None && r.Freq == rdb.None {
		return
	}
	switch lfu := in.Space.Policy.LFU(); {
	case !v.Exists(): // the key had expired, and the keyspace did not keep it
	case !lfu && r.Idle != rdb.None:
		in.Space.SetIdle(v, min(r.Idle, 1<<40)*1000)
	case lfu && r.Freq != rdb.None:
		in.Space.SetFrequency(v, r.Freq)
	}
}

// readyOf returns a record's value as codec.Expander returned it.
func readyOf(r *rdb.Record) codec.Ready {
	return codec.Ready{Encoding: value.Encoding(r.Encoding), Packed: r.Packed, FieldsDeadline: r.Least}
}

// builds reports whether a record's value must be built as a structure, over several turns.
func builds(r *rdb.Record) bool {
	if r.Kind == rdb.KindString || r.Empty {
		return false
	}
	ready := readyOf(r)
	return !ready.Whole()
}

// buildTurn is about how long one turn of building takes.
const buildTurn = 150 * time.Microsecond

// build inserts a key whose value is a structure. The key is in no database until the structure is complete.
func (in *Into) build(r *rdb.Record) (err error) {
	db, t := in.Space.DB(r.DB), codec.TypeOf(r.Kind, r.Raw)
	var b codec.Builder
	p := pace(1)
	for done := false; !done && err == nil; {
		in.turn(func() {
			if b == nil {
				if !in.Replace && db.Peek(r.Key).Exists() {
					err = duplicate(r.DB, r.Key)
					return
				}
				in.env.Now = in.Space.Now()
				b = codec.Start(r.Kind, r.Raw, readyOf(r), in.Space.Store(), &in.env)
			}
			done, err = p.build(b, buildTurn)
			switch {
			case err != nil:
				codec.LetGo(in.Space.Store(), t, b)
			case done:
				finish(db, r.Key, t, value.Encoding(r.Encoding), b, deadlineIn(r.DeadlineMs))
				in.setClock(r, db.Peek(r.Key))
			}
		})
	}
	switch {
	case err == codec.ErrEmpty:
		r.Empty = true
		return nil
	case err != nil && !errors.Is(err, ErrDuplicate):
		return &rdb.FormatError{Offset: r.Offset, What: codec.Complaint(r.Kind, err), Doing: r.Kind.String(), DB: r.DB,
			Key: string(r.Key)}
	}
	return err
}

// finish stores a complete structure under key.
func finish(db *keyspace.DB, key []byte, t value.Type, enc value.Encoding, b codec.Builder, deadline int64) {
	db.PutRoot(key, t, enc, b.Root(), deadline)
	if d, ok := b.(codec.Deadlines); ok && d.PartsDeadline() != 0 {
		db.SetPartsDeadline(t, key, d.PartsDeadline())
	}
}
