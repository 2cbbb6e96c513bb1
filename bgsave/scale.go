package bgsave

import (
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/intset"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// A Scale finds how much memory a file's keys would take here, like MEMORY USAGE with SAMPLES 0, one key at a time.
//
// It computes the cost of keys that fit into their entry. It builds, measures and frees other values, so at most one
// exists. One goroutine owns it, in a process without clients.
type Scale struct {
	space *keyspace.Keyspace
	into  Into
}

// A Weight is the size of a key.
type Weight struct {
	Bytes    int
	Elements int // 1 for a string
	Type     value.Type
	Encoding value.Encoding
}

// NewScale makes an empty Scale. Errors: no memory can be reserved.
func NewScale() (*Scale, error) {
	heap, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		return nil, err
	}
	space := keyspace.New(heap, keyspace.Options{Databases: 1})
	space.Trusting = true // expired keys are measured, too
	return &Scale{space: space, into: Into{Space: space, Replace: true}}, nil
}

// Prepare gets the Env with which the values were read; see Inserter.
func (s *Scale) Prepare(env codec.Env) { s.into.Prepare(env) }

// Plain measures a key of b in its shortest form.
func (s *Scale) Plain(b *rdb.Batch, k *rdb.Plain) Weight {
	text, number := b.Value(k)
	key, volatile := len(b.Key(k)), k.DeadlineMs != rdb.None
	f := value.IntForm(key, volatile)
	if !number {
		f.OfText(key, text, volatile)
	}
	if f.Rooted { // a long key with a long value
		db := s.space.DB(0)
		db.SetString(b.Key(k), text, deadlineIn(k.DeadlineMs))
		return s.measure(b.Key(k))
	}
	return Weight{f.Cost(), 1, value.String, f.Encoding}
}

// Key measures a record in the form that an Inserter gets. An Empty value has size 0.
// Errors: the value is damaged and cannot be built.
func (s *Scale) Key(r *rdb.Record) (Weight, error) {
	volatile := r.DeadlineMs != rdb.None
	switch {
	case r.Kind == rdb.KindString:
		f := value.IntForm(len(r.Key), volatile)
		if r.Value.Form != rdb.Integer {
			f.OfText(len(r.Key), r.Value.Bytes, volatile)
		}
		if !f.Rooted {
			return Weight{f.Cost(), 1, value.String, f.Encoding}, nil
		}
	case r.Empty:
		return Weight{}, nil
	case !known(r): // a value of unknown kind counts as its bytes in the file
		f := value.RootForm(value.Module, value.Raw, len(r.Key), volatile)
		return Weight{f.Cost() + memory.GoodSize(len(r.Raw)), 1, value.Module, value.Raw}, nil
	case !builds(r):
		t, enc := codec.TypeOf(r.Kind, r.Raw), value.Encoding(r.Encoding)
		if f := value.PackedForm(t, enc, len(r.Key), len(r.Packed), volatile); !f.Rooted {
			return Weight{f.Cost(), packedCount(t, enc, r.Packed), t, enc}, nil
		}
	}
	alone := *r
	alone.DB, alone.Idle, alone.Freq = 0, rdb.None, rdb.None
	if builds(r) {
		if err := s.into.build(&alone); err != nil || alone.Empty {
			return Weight{}, err
		}
	} else if err := s.into.put(&alone); err != nil {
		return Weight{}, err
	}
	return s.measure(r.Key), nil
}

func known(r *rdb.Record) bool {
	yes, _ := codec.Known(r.Kind, r.Raw)
	return yes
}

// measure measures a key of the keyspace and removes it.
func (s *Scale) measure(key []byte) Weight {
	db := s.space.DB(0)
	v := db.Peek(key)
	w := Weight{s.space.MemoryUsage(v, 0), 1, v.Type(), v.Encoding()}
	switch {
	case v.Type() == value.String:
	case v.Rooted() && value.HeaderAt(v.Root()).Kind() != value.KindPacked:
		w.Elements = s.space.Store().Count(v)
	default:
		w.Elements = packedCount(v.Type(), v.Encoding(), v.Packed())
	}
	db.Delete(key)
	for job, _ := s.space.Heap().TakeJob(); job != nil; job, _ = s.space.Heap().TakeJob() {
		for !job(1 << 16) {
		}
	}
	return w
}

// packedCount returns how many elements a packed collection has.
func packedCount(t value.Type, enc value.Encoding, p []byte) int {
	switch {
	case enc == value.IntSet:
		return intset.Len(p)
	case enc == value.ListpackEx:
		return listpack.Count(p) / 3
	case t == value.Hash, t == value.ZSet:
		return listpack.Count(p) / 2
	}
	return listpack.Count(p)
}
