package introspect

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// A digest is the result of DEBUG DIGEST. It is equal for equal data, whatever the order of keys. The algorithm is
// Redis's, so spindle and redis-server return the same digest for the same data.
//
//	mix(d, x)  d ← SHA1(d xor SHA1(x))     ordered parts: key, type, content
//	xor(d, x)  d ← d xor SHA1(x)           unordered parts: members, the mark of a deadline
//
// A key's digest starts at zero. It mixes the key, the type as 4 bytes big endian, and the content. Then it xors
// "!!expire!!" if the key has a deadline. The digest of all data mixes the number of each non-empty database as 4 bytes
// big endian, and then xors its keys' digests.
type digest [sha1.Size]byte

func (d *digest) join(x digest) {
	for i := range d {
		d[i] ^= x[i]
	}
}

// xor adds an unordered part.
func (d *digest) xor(p []byte) { d.join(sha1.Sum(p)) }

// mix adds the next ordered part.
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

// typeNumbers are Redis's numbers of value types.
var typeNumbers = map[value.Type]uint32{
	value.String: 0, value.List: 1, value.Set: 2, value.ZSet: 3, value.Hash: 4, value.Module: 5, value.Stream: 6,
}

// contents has the function for each type that adds a value's content.
var contents = map[value.Type]func(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte{
	value.String: digestString,
	value.List:   digestList,
	value.Hash:   digestHash,
	value.Set:    digestSet,
	value.ZSet:   digestZSet,
	value.Stream: digestStream,
}

// addValue adds a value's type, its content and whether it has a deadline. scratch is a buffer to reuse.
func (d *digest) addValue(r *command.Reading, v value.Value, scratch []byte) []byte {
	d.mixNumber(typeNumbers[v.Type()])
	if content := contents[v.Type()]; content != nil {
		scratch = content(r, d, v, scratch)
	}
	if v.Deadline() != 0 {
		d.xor([]byte("!!expire!!"))
	}
	return scratch
}

func digestString(r *command.Reading, d *digest, v value.Value, scratch []byte) []byte {
	if !v.Long() {
		scratch = v.AppendTo(scratch[:0])
		d.mix(scratch)
		return scratch
	}
	h := sha1.New()
	for piece := range v.Chunks {
		r.Steps(len(piece) >> 8)
		h.Write(piece)
	}
	d.join(digest(h.Sum(nil)))
	*d = sha1.Sum(d[:])
	return scratch
}

// A part holds the keys of one database.
type part struct {
	db   int
	keys func(yield func(value.Value) bool)
}

// partsOf returns the databases that are not empty, as they are now, and the number of their keys and elements. It
// stops counting when it has counted more than most keys or elements.
func partsOf(k *keyspace.Keyspace, most int) (parts []part, n int) {
	for i := range k.Len() {
		if db := k.DB(i); db.Len() > 0 {
			parts = append(parts, part{i, db.Present()})
			n += db.Len()
		}
	}
	for _, p := range parts {
		if n > most {
			break
		}
		p.keys(func(v value.Value) bool {
			n += k.Store().Weight(v)
			return n <= most
		})
	}
	return parts, n
}

// digestOf returns the digest of all databases.
func digestOf(r *command.Reading, parts []part) (whole digest) {
	var scratch []byte
	for _, p := range parts {
		whole.mixNumber(uint32(p.db))
		for v := range p.keys {
			r.Step()
			var d digest
			d.mix(v.Key())
			scratch = d.addValue(r, v, scratch)
			whole.xor(d[:])
		}
	}
	return whole
}
