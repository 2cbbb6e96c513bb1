// Command checkrdb reads an RDB file to its end, wrapped or not, and says whether it is whole: every length, type and compressed
// string, every packed collection, and the checksum. Values of every type of versions 1 to 12 are stepped through, and their elements counted.
//
//	checkrdb [-keys] file …
//
// Owner: a process of its own; it opens the file for reading and changes nothing.
// Never: needs a server, or memory in proportion to the file.
// Exit status: 0 if every file is whole, 1 if one is not, 2 for a wrong command line.
package main

import (
	"errors"
	"flag"
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
)

func main() {
	keys := flag.Bool("keys", false, "list every key: offset, database, name, type, deadline, length in bytes or elements")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: checkrdb [-keys] file …")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status := 0
	for _, path := range flag.Args() {
		c := checker{out: os.Stdout, path: path, list: *keys, nowMs: time.Now().UnixMilli()}
		if !c.check() {
			status = 1
		}
	}
	os.Exit(status)
}

// A checker goes through one file and keeps count.
type checker struct {
	out   io.Writer
	path  string
	list  bool
	nowMs int64

	dec      *rdb.Decoder
	last     rdb.Record // the last record that was in order; its Key is a copy
	keys     int
	volatile int
	expired  int
	kinds    map[rdb.Kind]tally
	reader   codec.Expander
	sum      string
}

// A tally is how many keys of a kind there are, and what they hold.
type tally struct{ keys, elements int }

// check says whether the file is whole, and everything else on out.
func (c *checker) check() bool {
	c.kinds = map[rdb.Kind]tally{}
	c.reader.Env = codec.Env{Limits: codec.DefaultLimits}
	c.say("checking %s", c.path)
	err := c.read()
	if c.dec != nil {
		c.say("version %d, %d keys, %d with a deadline, %d of those past it", c.dec.Version(), c.keys, c.volatile, c.expired)
		for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
			if t := c.kinds[k]; k == rdb.KindString || t.elements < 0 {
				c.say("%10d × %s", t.keys, k)
			} else {
				c.say("%10d × %s, %d elements", t.keys, k, t.elements)
			}
		}
	}
	if err == nil {
		c.say("%s", c.sum)
		c.say("RDB looks OK")
		return true
	}
	c.explain(err)
	return false
}

// read goes through the file.
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
	var o rdb.DecoderOptions
	if stat, err := file.Stat(); err == nil && !wrapped {
		o.Size = stat.Size()
	}
	if wrapped {
		c.say("compressed as a whole: offsets are those of the file within")
	}
	c.dec = rdb.NewDecoder(plain, o)
	var b rdb.Batch
	for {
		err := c.dec.Next(&b)
		c.reader.Reset()
		if expanded := b.Expand(c.count); expanded != nil { // it lies before what Next met
			err = expanded
		}
		for i := range b.Records {
			c.note(&b.Records[i])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// note counts a record that is in order.
func (c *checker) note(r *rdb.Record) {
	switch r.Op {
	case rdb.OpKey:
		c.keys++
		t := c.kinds[r.Kind]
		c.kinds[r.Kind] = tally{t.keys + 1, t.elements + int(int64(r.Keys))}
		if r.DeadlineMs != rdb.None {
			c.volatile++
			if r.DeadlineMs < c.nowMs {
				c.expired++
			}
		}
		if c.list {
			size := r.Value.Size
			if r.Kind != rdb.KindString {
				size = int(int64(r.Keys))
			}
			c.say("%d\tdb %d\t%q\t%s\t%d\t%d", r.Offset, r.DB, r.Key, c.kindOf(r), r.DeadlineMs, size)
		}
	case rdb.OpAux:
		c.say("AUX %s = %q", r.Key, r.Value.Bytes)
	case rdb.OpSelectDB:
		c.say("database %d", r.DB)
	case rdb.OpEOF:
		switch {
		case c.dec.Version() < 5:
			c.sum = "files of this version have no checksum"
		case r.Keys == 0:
			c.sum = "saved without a checksum (rdbchecksum no)"
		default:
			c.sum = fmt.Sprintf("checksum %016x is right", r.Keys)
		}
	}
	key := c.last.Key[:0]
	c.last = *r
	c.last.Key = append(key, r.Key...)
}

// count notes how many elements a value has, and proves it as loading would, but for what is only seen when it is put together: members
// twice in a table, what a stream's groups say of its entries.
func (c *checker) count(r *rdb.Record) error {
	n, err := elements(&c.reader, r.Kind, r.Raw)
	if known, _ := codec.Known(r.Kind, r.Raw); known && err == nil && n != 0 { // files of old servers hold empty ones
		_, err = c.reader.Read(r.Kind, r.Raw)
	}
	r.Keys = uint64(n)
	if err != nil {
		return rdb.Corrupt(codec.Complaint(r.Kind, err))
	}
	return nil
}

// kindOf names a record's type, a module's by its own name.
func (c *checker) kindOf(r *rdb.Record) string {
	if r.Kind != rdb.KindModule2 {
		return r.Kind.String()
	}
	_, what := codec.Known(r.Kind, r.Raw)
	return strings.TrimPrefix(what, "a value of ")
}

// explain says what is wrong, where, and how far the file can be trusted.
func (c *checker) explain(err error) {
	var format *rdb.FormatError
	var sum *rdb.ChecksumError
	switch {
	case errors.As(err, &format):
		c.say("DAMAGED: %s", format.What)
		c.say("offset:  %d", format.Offset)
		c.say("reading: %s", format.Doing)
		if format.Key != "" {
			c.say("key:     %q of database %d", format.Key, format.DB)
		}
	case errors.As(err, &sum):
		c.say("DAMAGED: %s. Every record can be read, but the bytes are not those that were written", sum)
	default:
		c.say("DAMAGED: %v", err)
	}
	if c.keys > 0 {
		c.say("the last record in order begins at offset %d: %s %q of database %d", c.last.Offset, c.last.Op, c.last.Key, c.last.DB)
	}
}

func (c *checker) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }
