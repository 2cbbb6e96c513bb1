package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/internal/reason"
	"spindle/internal/version"
)

const checkRDBUsage = "Usage: spindle check-rdb [--keys] <file.rdb> ...\n"

// checkRDB runs the program check-rdb. It reads whole RDB files, compressed or not, and reports whether they are valid.
// It checks every length, type and compressed string, every packed collection, and the checksum. It skips through
// values of every type of versions 1 to 12, and counts their elements.
//
// Lines that redis-check-rdb also prints have the same words. Exit code: 0 if every file is valid, or 1.
func checkRDB(p process) (code int) {
	if len(p.args) == 1 && (p.args[0] == "-v" || p.args[0] == "--version") {
		fmt.Fprint(p.out, strings.Replace(version.Text(), "Redis server", "redis-check-rdb", 1))
		return 0
	}
	files, keys := p.args, false
	if len(files) > 0 && files[0] == "--keys" {
		files, keys = files[1:], true
	}
	if len(files) == 0 || strings.HasPrefix(files[0], "-") {
		fmt.Fprint(p.err, checkRDBUsage)
		return 1
	}
	for _, path := range files {
		c := checker{out: p.out, path: path, list: keys, nowMs: time.Now().UnixMilli(), bar: newBar(p)}
		if !c.check() {
			code = 1
		}
	}
	return code
}

// A checker checks one file and counts its keys.
type checker struct {
	out   io.Writer
	path  string
	list  bool
	nowMs int64
	bar   *bar

	dec        *rdb.Decoder
	last       rdb.Record // the last valid record; its Key is a copy
	keys       int
	volatile   int
	expired    int
	subexpires int // hashes with fields that have a deadline
	kinds      map[rdb.Kind]tally
	reader     codec.Expander
	sum        string
}

// A tally has the number of keys of a kind, and the number of their elements.
type tally struct{ keys, elements int }

// check reports whether the file is valid, and prints everything else to out.
func (c *checker) check() bool {
	c.kinds = map[rdb.Kind]tally{}
	c.reader.Env = codec.Env{Limits: codec.DefaultLimits}
	c.at(0, "Checking RDB file %s", c.path)
	err := c.read()
	c.bar.end()
	if err == nil {
		c.at(c.dec.Offset(), "%s", c.sum)
		c.at(c.dec.Offset(), `\o/ RDB looks OK! \o/`)
	} else {
		c.explain(err)
	}
	if c.dec == nil { // the file could not be read at all
		return false
	}
	c.say("[info] %d keys read", c.keys)
	c.say("[info] %d expires", c.volatile)
	c.say("[info] %d already expired", c.expired)
	c.say("[info] %d subexpires", c.subexpires)
	if c.dec.Dialect() == rdb.Valkey {
		c.say("[info] RDB version %d of Valkey", c.dec.Version())
	} else {
		c.say("[info] RDB version %d", c.dec.Version())
	}
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		if t := c.kinds[k]; k == rdb.KindString || t.elements < 0 {
			c.say("[info] %d x %s", t.keys, k)
		} else {
			c.say("[info] %d x %s, %d elements", t.keys, k, t.elements)
		}
	}
	return err == nil
}

// read reads the whole file.
func (c *checker) read() error {
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer file.Close()
	plain, wrapped, err := bgsave.UnwrapReader(file)
	if err != nil {
		return err
	}
	defer plain.Close()
	o := rdb.DecoderOptions{Relaxed: true}
	total := int64(0)
	if stat, err := file.Stat(); err == nil && !wrapped {
		o.Size, total = stat.Size(), stat.Size()
	}
	if wrapped {
		c.say("[info] compressed as a whole: offsets are those of the file within")
	}
	c.dec = rdb.NewDecoder(plain, o)
	var b rdb.Batch
	for {
		err := c.dec.Next(&b)
		c.reader.Reset()
		if expanded := b.Expand(c.count); expanded != nil { // its error comes before the error of Next
			err = expanded
		}
		c.bar.at(c.dec.Offset(), total)
		for i := range b.Records {
			next := c.dec.Offset()
			if i+1 < len(b.Records) {
				next = b.Records[i+1].Offset
			}
			c.note(&b.Records[i], next)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// note counts a valid record. next is the offset of the next record.
func (c *checker) note(r *rdb.Record, next int64) {
	switch r.Op {
	case rdb.OpKey:
		c.keys++
		kind := formOf(r)
		t := c.kinds[kind]
		c.kinds[kind] = tally{t.keys + 1, t.elements + int(int64(r.Keys))}
		if r.DeadlineMs != rdb.None {
			c.volatile++
			if r.DeadlineMs < c.nowMs {
				c.expired++
			}
		}
		switch r.Kind {
		case rdb.KindHashTTL, rdb.KindHashTTLListpack, rdb.KindHashTTLPre, rdb.KindHashTTLPackPre, rdb.KindHash2:
			c.subexpires++
		}
		if c.list {
			size := r.Value.Size
			if r.Kind != rdb.KindString {
				size = int(int64(r.Keys))
			}
			c.say("%d\tdb %d\t%q\t%s\t%d\t%d", r.Offset, r.DB, r.Key, c.kindOf(r), r.DeadlineMs, size)
		}
	case rdb.OpAux:
		c.at(next, "AUX FIELD %s = '%s'", harmless(r.Key), harmless(r.Value.Bytes))
	case rdb.OpSelectDB:
		c.at(r.Offset+selectLen(r.DB), "Selecting DB ID %d", r.DB)
	case rdb.OpSlotImport:
		c.at(next, "an import of slots %s, not done when the file was written", r.Value.Bytes)
	case rdb.OpFunction2:
		c.at(next, "a function library of %d bytes", len(r.Value.Bytes))
	case rdb.OpModuleAux:
		name, version := rdb.ModuleName(r.Keys)
		c.at(next, "what module type %q (version %d) keeps beside the keys", name, version)
	case rdb.OpEOF:
		switch {
		case c.dec.Version() < 5:
			c.sum = "Files of this version have no checksum"
		case r.Keys == 0:
			c.sum = "Saved without a checksum (rdbchecksum no)"
		default:
			c.sum = "Checksum OK"
		}
	}
	key := c.last.Key[:0]
	c.last = *r
	c.last.Key = append(key, r.Key...)
}

// count counts a value's elements, and checks the value as a load would. Two kinds of errors are found only when a
// value is built. These are equal members in a table, and contradictions between a stream's groups and its entries.
func (c *checker) count(r *rdb.Record) error {
	n, err := elements(&c.reader, r.Kind, r.Raw)
	if known, _ := codec.Known(r.Kind, r.Raw); known && err == nil && n != 0 { // old files may have empty ones
		_, err = c.reader.Read(r.Kind, r.Raw)
	}
	r.Keys = uint64(n)
	if err != nil {
		return rdb.Corrupt(codec.Complaint(r.Kind, err))
	}
	return nil
}

// kindOf returns the name of a record's type. For a module's value it returns the module's name.
func (c *checker) kindOf(r *rdb.Record) string {
	if r.Kind != rdb.KindModule2 {
		return formOf(r).String()
	}
	_, what := codec.Known(r.Kind, r.Raw)
	return strings.TrimPrefix(what, "a value of ")
}

// formOf returns the kind by which the file stores a key.
func formOf(r *rdb.Record) rdb.Kind {
	if r.Form != 0 {
		return r.Form
	}
	return r.Kind
}

// selectLen returns the length of a SELECTDB record.
func selectLen(db int) int64 {
	return int64(len(rdb.AppendLength([]byte{byte(rdb.OpSelectDB)}, uint64(db))))
}

// explain prints the error, its place, and up to where the file can be trusted.
func (c *checker) explain(err error) {
	c.say("--- RDB ERROR DETECTED ---")
	var format *rdb.FormatError
	var sum *rdb.ChecksumError
	switch {
	case errors.As(err, &format):
		c.at(format.Offset, "%s", strings.TrimSuffix(format.What, ",")) // the text continues after the comma
		if format.Doing != "" {
			c.say("[additional info] While doing: reading %s", format.Doing)
		}
		if format.Key != "" {
			c.say("[additional info] Reading key '%s' of database %d", harmless([]byte(format.Key)), format.DB)
		}
	case errors.As(err, &sum):
		c.at(sum.Offset, "RDB CRC error: computed %x, the file says %x", sum.Computed, sum.Announced)
		c.say("[additional info] Every record can be read, but the bytes are not those that were written")
		return
	case c.dec != nil:
		c.at(c.dec.Offset(), "%s", err)
	default:
		c.at(0, "%s", reason.Of(err))
	}
	if c.keys > 0 {
		c.say("[additional info] The last record in order begins at offset %d: %s '%s' of database %d",
			c.last.Offset, c.last.Op, harmless(c.last.Key), c.last.DB)
	}
}

// at prints a line about a place in the file.
func (c *checker) at(offset int64, format string, args ...any) {
	c.say("[offset %d] %s", offset, fmt.Sprintf(format, args...))
}

func (c *checker) say(format string, args ...any) {
	c.bar.end() // otherwise the line would begin after the bar
	fmt.Fprintf(c.out, format+"\n", args...)
}
