package introspect

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// A digest is DEBUG DIGEST's: equal for equal data whatever the order of keys. Its algorithm is the reference's, so
// that a spindle and a redis-server with the same data agree.
//
//	mix(d, x)  d ← SHA1(d xor SHA1(x))     what comes in order: key, type, content
//	xor(d, x)  d ← d xor SHA1(x)           what has no order: members, the mark of a deadline
//
// A key's digest starts at zero, mixes the key, the type as 4 bytes big endian, the content, and xors "!!expire!!" if
// it has a deadline. The whole mixes the number of each database that is not empty, as 4 bytes big endian, then xors
// its keys' digests.
type digest [sha1.Size]byte

func (d *digest) join(x digest) {
	for i := range d {
		d[i] ^= x[i]
	}
}

// xor takes in what has no order.
func (d *digest) xor(p []byte) { d.join(sha1.Sum(p)) }

// mix takes in what comes next.
func (d *digest) mix(p []byte) {
	d.xor(p)
	*d = sha1.Sum(d[:])
}

func (d *digest) mixNumber(n uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	d.mix(b[:])
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// typeNumbers are the value types as the reference counts them.
var typeNumbers = map[value.Type]uint32{
	value.String: 0, value.List: 1, value.Set: 2, value.ZSet: 3, value.Hash: 4, value.Module: 5, value.Stream: 6,
}

// contents are how the values of each type are taken in: a line each, and a file of its own beside the strings.
var contents = map[value.Type]func(d *digest, v value.Value, scratch []byte) []byte{
	value.String: digestString,
	value.List:   digestList,
	value.Hash:   digestHash,
	value.Set:    digestSet,
	value.ZSet:   digestZSet,
	value.Stream: digestStream,
}

// addValue takes in a value: its type, its content and whether it has a deadline. scratch is memory to use again.
func (d *digest) addValue(v value.Value, scratch []byte) []byte {
	d.mixNumber(typeNumbers[v.Type()])
	if content := contents[v.Type()]; content != nil {
		scratch = content(d, v, scratch)
	}
	if v.Deadline() != 0 {
		d.xor([]byte("!!expire!!"))
	}
	return scratch
}

// digestString mixes the string in.
func digestString(d *digest, v value.Value, scratch []byte) []byte {
	if !v.Long() {
		scratch = v.AppendTo(scratch[:0])
		d.mix(scratch)
		return scratch
	}
	h := sha1.New()
	for piece := range v.Chunks {
		h.Write(piece)
	}
	d.join(digest(h.Sum(nil)))
	*d = sha1.Sum(d[:])
	return scratch
}

// digestOf is DEBUG DIGEST: every key of every database.
func digestOf(k *keyspace.Keyspace) (whole digest) {
	var scratch []byte
	for i := range k.Len() {
		db := k.DB(i)
		if db.Len() == 0 {
			continue
		}
		whole.mixNumber(uint32(i))
		for v := range db.All {
			var d digest
			d.mix(v.Key())
			scratch = d.addValue(v, scratch)
			whole.xor(d[:])
		}
	}
	return whole
}
