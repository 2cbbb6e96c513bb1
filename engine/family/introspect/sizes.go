package introspect

import (
	"strconv"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/info"
)

// SizesSection returns INFO keysizes: for each database and type, the number of keys in each bin of sizes. A bin is
// named by its least size, and ends before twice that size.
func SizesSection(k *keyspace.Keyspace) info.Section {
	return info.Section{Name: "Keysizes", Fields: []info.Field{info.Lines("db0", func(w *info.Writer) {
		k.CheckSizes(checkedSizes)
		for i := range k.Len() {
			for _, s := range sized {
				appendSizes(w, k.DB(i), s.of, s.name)
			}
		}
	})}}
}

// checkedSizes is the maximum number of keys that checked builds count again.
const checkedSizes = 2000

// sized are the types that get a line, in this order.
var sized = []struct {
	of   value.Type
	name string
}{
	{value.String, "_distrib_strings_sizes:"}, {value.List, "_distrib_lists_items:"}, {value.Set, "_distrib_sets_items:"},
	{value.ZSet, "_distrib_zsets_items:"}, {value.Hash, "_distrib_hashes_items:"},
}

// appendSizes writes the line of a type, unless the database has no key of that type.
func appendSizes(w *info.Writer, db *keyspace.DB, t value.Type, name string) {
	before := len(w.B)
	w.B = append(strconv.AppendInt(append(w.B, "db"...), int64(db.Index()), 10), name...)
	first := len(w.B)
	for least, keys := range db.Sizes(t) {
		if len(w.B) > first {
			w.B = append(w.B, ',')
		}
		w.B = append(appendBin(w.B, least), '=')
		w.B = strconv.AppendInt(w.B, keys, 10)
	}
	if len(w.B) == first {
		w.B = w.B[:before]
		return
	}
	w.B = append(w.B, "\r\n"...)
}

// appendBin writes a power of two, or 0: 512, 1K, 2M.
func appendBin(b []byte, n uint64) []byte {
	unit := 0
	for ; n >= 1024; unit++ {
		n >>= 10
	}
	b = strconv.AppendUint(b, n, 10)
	if unit > 0 {
		b = append(b, "KMGTPE"[unit-1])
	}
	return b
}
