package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
)

// A census sums up the memory that the keys of an RDB file would use, by type, prefix, lifetime and database. It is a
// bgsave.Inserter that stores no keys.
//
// Memory: maxPrefixes prefixes and as many databases, the largest keys, and one value at a time.
type census struct {
	o     *reportOptions
	out   *bufio.Writer
	scale *bgsave.Scale
	watch func() // draws the progress
	nowMs int64

	source    string
	version   int
	fileBytes int64

	all       total
	kinds     map[kind]*total
	databases map[int]*total
	otherDBs  total // beyond maxPrefixes
	lifetimes [len(lifetimes)]total
	prefixes  map[string]*total
	folded    total // the total of prefixes that were merged because there were too many
	folds     int
	largest   largestKeys

	lastPrefix []byte // the last key's prefix, with its total
	lastTally  *total
	lastDB     int
	lastOf     *total // of lastDB
}

// A total is the sum over some keys.
type total struct {
	Keys     int64 `json:"keys"`
	Bytes    int64 `json:"bytes"`
	Elements int64 `json:"elements"`
	Largest  int64 `json:"largest"` // bytes of the largest key
}

func (t *total) add(w *bgsave.Weight) {
	t.Keys++
	t.Bytes += int64(w.Bytes)
	t.Elements += int64(w.Elements)
	t.Largest = max(t.Largest, int64(w.Bytes))
}

func (t *total) join(of *total) {
	t.Keys += of.Keys
	t.Bytes += of.Bytes
	t.Elements += of.Elements
	t.Largest = max(t.Largest, of.Largest)
}

// A kind is a type with one of its encodings.
type kind struct {
	t   value.Type
	enc value.Encoding
}

// lifetimes has classes of the remaining time of keys, each up to a number of milliseconds.
var lifetimes = [...]struct {
	name  string
	below int64
}{
	{"past its deadline", 0}, {"under a minute", 60_000}, {"under an hour", 3_600_000}, {"under a day", 86_400_000},
	{"under a week", 7 * 86_400_000}, {"under a month", 30 * 86_400_000}, {"longer", math.MaxInt64}, {"no deadline", 0},
}

// lifetime returns a key's index in lifetimes.
func (c *census) lifetime(deadlineMs int64) int {
	if deadlineMs == rdb.None {
		return len(lifetimes) - 1
	}
	left := deadlineMs - c.nowMs
	for i := range lifetimes[:len(lifetimes)-1] {
		if left < lifetimes[i].below {
			return i
		}
	}
	return len(lifetimes) - 2
}

// maxPrefixes is the number of prefixes that are counted separately. Beyond it, the smaller half of them is merged into
// one.
const maxPrefixes = 1 << 16

// maxPrefix is the number of bytes of a prefix that are compared.
const maxPrefix = 256

func newCensus(o *reportOptions, out io.Writer) (*census, error) {
	scale, err := bgsave.NewScale()
	if err != nil {
		return nil, err
	}
	c := &census{
		o: o, out: bufio.NewWriterSize(out, 64<<10), scale: scale, nowMs: time.Now().UnixMilli(), watch: func() {},
		kinds: map[kind]*total{}, databases: map[int]*total{}, prefixes: map[string]*total{}, lastDB: -1,
	}
	if o.keys {
		fmt.Fprintln(c.out, "database,type,encoding,bytes,elements,deadline,key")
	}
	return c, nil
}

func (c *census) Prepare(env codec.Env) { c.scale.Prepare(env) }

func (c *census) Databases() int { return math.MaxInt32 }

func (c *census) Reserve(int, uint64, uint64) error { return nil }

func (c *census) Function([]byte) error { return nil }

func (c *census) Finish() error { return nil }

func (c *census) Insert(records []rdb.Record) (done int, err error) {
	c.watch()
	for i := range records {
		r := &records[i]
		w, err := c.scale.Key(r)
		if err != nil {
			return i, err
		}
		if w.Bytes > 0 {
			c.count(r.DB, r.Key, r.DeadlineMs, &w)
		}
	}
	return len(records), nil
}

// WritePlain implements bgsave.PlainInserter. It does nothing, because a census stores no keys.
func (c *census) WritePlain(*rdb.Batch, []rdb.Plain, func(int64) bool, []keyspace.Written) {}

func (c *census) Unwrite([]keyspace.Written) {}

func (c *census) InsertPlain(b *rdb.Batch, db int, keys []rdb.Plain, _ []keyspace.Written) (done int, err error) {
	c.watch()
	for i := range keys {
		k := &keys[i]
		w := c.scale.Plain(b, k)
		c.count(db, b.Key(k), k.DeadlineMs, &w)
	}
	return len(keys), nil
}

// count adds a key to the totals.
func (c *census) count(db int, key []byte, deadlineMs int64, w *bgsave.Weight) {
	c.all.add(w)
	if db != c.lastDB {
		c.lastDB, c.lastOf = db, c.database(db)
	}
	c.lastOf.add(w)
	at(c.kinds, kind{w.Type, w.Encoding}).add(w)
	c.lifetimes[c.lifetime(deadlineMs)].add(w)
	c.prefix(key).add(w)
	if len(c.largest) < c.o.top || w.Bytes > c.largest[0].Bytes {
		c.largest.add(largeKey{DB: db, Key: bytes.Clone(key), Weight: *w, DeadlineMs: deadlineMs}, c.o.top)
	}
	if c.o.keys {
		c.line(db, key, deadlineMs, w)
	}
}

// database returns the total of a database. Beyond maxPrefixes databases it returns a common total, because a file may
// name any number of databases.
func (c *census) database(db int) *total {
	if c.databases[db] == nil && len(c.databases) >= maxPrefixes {
		return &c.otherDBs
	}
	return at(c.databases, db)
}

// at returns the total of k, and creates it if needed.
func at[K comparable](m map[K]*total, k K) *total {
	t := m[k]
	if t == nil {
		t = &total{}
		m[k] = t
	}
	return t
}

// prefix returns the total of a key's prefix. The prefix ends at the depth-th separator, or at the last one if there
// are fewer.
func (c *census) prefix(key []byte) *total {
	p := key[:c.prefixLen(key)]
	if c.lastTally != nil && bytes.Equal(p, c.lastPrefix) {
		return c.lastTally
	}
	t := c.prefixes[string(p)]
	if t == nil {
		if len(c.prefixes) >= maxPrefixes {
			c.fold()
		}
		t = &total{}
		c.prefixes[string(p)] = t
	}
	c.lastPrefix, c.lastTally = append(c.lastPrefix[:0], p...), t
	return t
}

func (c *census) prefixLen(key []byte) int {
	n := 0
	for range c.o.depth {
		i := bytes.Index(key[n:], []byte(c.o.separator))
		if i < 0 {
			break
		}
		n += i + len(c.o.separator)
	}
	return min(n, maxPrefix)
}

// fold merges the smaller half of the prefixes, so that memory stays bounded.
func (c *census) fold() {
	sizes := make([]int64, 0, len(c.prefixes))
	for _, t := range c.prefixes {
		sizes = append(sizes, t.Bytes)
	}
	slices.Sort(sizes)
	limit, spare := sizes[len(sizes)/2], len(c.prefixes)/2
	for p, t := range c.prefixes {
		if t.Bytes <= limit && spare > 0 {
			spare--
			c.folded.join(t)
			delete(c.prefixes, p)
		}
	}
	c.folds++
	c.lastTally = nil
}

// A largeKey is one of the largest keys.
type largeKey struct {
	DB  int
	Key []byte
	bgsave.Weight
	DeadlineMs int64
}

// largestKeys is a heap of the largest keys, with the smallest first.
type largestKeys []largeKey

func (l largestKeys) Len() int           { return len(l) }
func (l largestKeys) Less(i, j int) bool { return l[i].Bytes < l[j].Bytes }
func (l largestKeys) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *largestKeys) Push(k any)        { *l = append(*l, k.(largeKey)) }
func (l *largestKeys) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// add adds k, and drops the smallest key if there are more than most keys.
func (l *largestKeys) add(k largeKey, most int) {
	heap.Push(l, k)
	if len(*l) > most {
		heap.Pop(l)
	}
}

// A share is one row of the report: the total of some keys, with a name.
type share struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of all bytes, from 0 to 1
	total
}

// shares sorts rows by bytes and returns the first most rows. The others are merged into one more row, named rest.
func (c *census) shares(rows []share, most int, rest string) []share {
	slices.SortFunc(rows, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name))
	})
	if len(rows) > most {
		left := share{Name: rest}
		for _, r := range rows[most:] {
			left.join(&r.total)
		}
		rows = append(rows[:most:most], left)
	}
	for i := range rows {
		rows[i].Share = float64(rows[i].Bytes) / float64(max(c.all.Bytes, 1))
	}
	return rows
}

// byType, byPrefix, byLifetime and byDatabase return the parts of the report.
func (c *census) byType() []share {
	var rows []share
	for k, t := range c.kinds {
		name := k.t.String()
		if k.t != value.Module {
			name += " " + k.enc.String()
		}
		rows = append(rows, share{Name: name, total: *t})
	}
	return c.shares(rows, len(rows), "")
}

func (c *census) byPrefix() []share {
	var rows []share
	for p, t := range c.prefixes {
		if p == "" {
			p = "(none)"
		} else {
			p = text([]byte(p))
		}
		rows = append(rows, share{Name: p, total: *t})
	}
	if c.folds > 0 {
		rows = append(rows, share{Name: "(many small ones)", total: c.folded})
	}
	return c.shares(rows, c.o.top, "(others)")
}

func (c *census) byLifetime() (rows []share) {
	for i, l := range lifetimes {
		if t := c.lifetimes[i]; t.Keys > 0 {
			rows = append(rows, share{Name: l.name, total: t, Share: float64(t.Bytes) / float64(max(c.all.Bytes, 1))})
		}
	}
	return rows
}

func (c *census) byDatabase() []share {
	var rows []share
	for db, t := range c.databases {
		rows = append(rows, share{Name: fmt.Sprintf("db%d", db), total: *t})
	}
	if c.otherDBs.Keys > 0 {
		rows = append(rows, share{Name: "(many more)", total: c.otherDBs})
	}
	return c.shares(rows, c.o.top, "(others)")
}
