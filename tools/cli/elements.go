package cli

import (
	"encoding/binary"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/value/stream"
)

// elements counts a value's elements: members, pairs of field and value or of member and score, entries of a stream. It
// returns -1 for a module's value, which only that module understands. It also checks all packed bytes.
func elements(x *codec.Expander, kind rdb.Kind, raw []byte) (n int, err error) {
	r := rdb.NewReader(raw)
	switch kind {
	case rdb.KindModulePre, rdb.KindModule2:
		return -1, nil
	case rdb.KindArray:
		n, err := r.Length()
		return int(n), err
	case rdb.KindHashTTL, rdb.KindHashTTLListpack:
		if _, err = r.Take(8); err != nil { // the earliest deadline
			return 0, err
		}
	}
	per := 1
	switch kind {
	case rdb.KindList, rdb.KindSet, rdb.KindZSet, rdb.KindZSet2, rdb.KindHash, rdb.KindHashTTL, rdb.KindHashTTLPre,
		rdb.KindHash2:
		return r.Count(1)
	case rdb.KindListQuicklist, rdb.KindListQuicklist2:
		return quicklist(x, kind, &r)
	case rdb.KindStream, rdb.KindStream2, rdb.KindStream3, rdb.KindStream4, rdb.KindStream5:
		return entries(x, &r)
	case rdb.KindSetIntset:
		_, n, err = x.Intset(&r)
	case rdb.KindHashZipmap:
		per = 2
		_, n, err = x.Zipmap(&r)
	case rdb.KindListZiplist:
		_, n, err = x.Ziplist(&r, per, false)
	case rdb.KindHashZiplist, rdb.KindZSetZiplist:
		per = 2
		_, n, err = x.Ziplist(&r, per, true)
	case rdb.KindSetListpack:
		_, n, err = x.Listpack(&r, per, true)
	case rdb.KindHashListpack, rdb.KindZSetListpack:
		per = 2
		_, n, err = x.Listpack(&r, per, true)
	case rdb.KindHashTTLListpack, rdb.KindHashTTLPackPre:
		per = 3
		_, n, err = x.Listpack(&r, per, true)
	}
	if err == codec.ErrEmpty {
		return 0, nil
	}
	return n / per, err
}

// quicklist returns the number of elements in the nodes of a list.
func quicklist(x *codec.Expander, kind rdb.Kind, r *rdb.Reader) (total int, err error) {
	nodes, err := r.Count(1)
	for ; err == nil && nodes > 0; nodes-- {
		x.Reset()
		n := 0
		container := uint64(rdb.NodePacked)
		if kind == rdb.KindListQuicklist2 {
			if container, err = r.Length(); err != nil {
				return total, err
			}
		}
		switch {
		case container == rdb.NodePlain:
			n = 1
			_, err = x.Text(r)
		case kind == rdb.KindListQuicklist:
			_, n, err = x.Ziplist(r, 1, false)
		default:
			_, n, err = x.Listpack(r, 1, false)
		}
		if err == codec.ErrEmpty {
			err = nil
		}
		total += n
	}
	return total, err
}

// entries returns the number of entries of a stream, and checks its nodes.
func entries(x *codec.Expander, r *rdb.Reader) (total int, err error) {
	nodes, err := r.Count(2)
	for ; err == nil && nodes > 0; nodes-- {
		var n int
		n, err = entriesOf(x, r)
		total += n
	}
	if err != nil {
		return total, err
	}
	n, err := r.Length()
	if err == nil && n != uint64(total) {
		err = rdb.Corrupt("a stream's length is not that of its nodes")
	}
	return total, err
}

// entriesOf returns the number of entries of a node.
func entriesOf(x *codec.Expander, r *rdb.Reader) (int, error) {
	key, err := x.Text(r)
	if err != nil {
		return 0, err
	}
	if len(key) != 16 {
		return 0, rdb.Corrupt("the key of a stream's node is not 16 bytes long")
	}
	first := stream.ID{Ms: binary.BigEndian.Uint64(key), Seq: binary.BigEndian.Uint64(key[8:])}
	lp, err := x.Text(r)
	if err != nil {
		return 0, err
	}
	_, live, _, err := stream.ValidateNode(lp, first)
	return int(live), err
}
