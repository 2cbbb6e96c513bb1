package bgsave

import (
	"fmt"

	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
)

// Into is an Inserter that fills a keyspace.
type Into struct {
	Space *keyspace.Keyspace
	Turn  func(f func()) // runs f inside a turn; nil: the caller holds it, or nobody else knows Space
	// Replace lets a key that is there give way (DEBUG RELOAD MERGE); otherwise it is an error.
	Replace bool
	// Functions takes a library's source; nil refuses it.
	Functions func(code []byte) error
}

// prefetchAhead is how many keys' cache misses are under way at once.
const prefetchAhead = 12

// Databases implements Inserter.
func (in *Into) Databases() int { return in.Space.Len() }

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

// Insert implements Inserter.
func (in *Into) Insert(records []rdb.Record) (done int, err error) {
	in.turn(func() {
		for len(records) > 0 && err == nil {
			some := records[:min(len(records), prefetchAhead)]
			for i := range some {
				in.Space.DB(some[i].DB).Prefetch(some[i].Key)
			}
			in.Space.Prefetched()
			for i := range some {
				if err = in.insert(&some[i]); err != nil {
					return
				}
				done++
			}
			records = records[len(some):]
		}
	})
	return done, err
}

func (in *Into) insert(r *rdb.Record) error {
	db := in.Space.DB(r.DB)
	deadline := int64(0)
	if r.DeadlineMs != rdb.None {
		deadline = max(1, r.DeadlineMs) // 0 would be none
	}
	var created bool
	if r.Value.Form == rdb.Integer {
		created = db.SetInt(r.Key, r.Value.Int, deadline)
	} else {
		created = db.SetString(r.Key, r.Value.Bytes, deadline)
	}
	if !created && !in.Replace {
		return fmt.Errorf("%w: key %q of database %d, at offset %d", ErrDuplicate, r.Key, r.DB, r.Offset)
	}
	if r.Idle != rdb.None && !in.Space.Policy.LFU() {
		in.Space.SetIdle(db.Peek(r.Key), min(r.Idle, 1<<40)*1000)
	}
	if r.Freq != rdb.None && in.Space.Policy.LFU() {
		in.Space.SetFrequency(db.Peek(r.Key), r.Freq)
	}
	return nil
}
