package bgsave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/engine/data/keyspace"
	"spindle/internal/logging"
	"spindle/internal/reason"
)

// Loading is a pipeline of three steps. The splitter cuts the file into batches and writes the entries of plain keys.
// The expanders decompress and check other values. The loader passes the batches to the Inserter in the file's order,
// in short turns.
//
//	file ─▶ splitter ─▶ batch ─▶ expanders ─▶ batch ─▶ Inserter, inside turns
//	            ▲                                 │
//	            └────────── empty batches ────────┘    loadBatches of them: memory is bounded by that

const (
	loadBatches = 4
	turnRecords = 128 // records of one turn: about 20 µs
	turnWritten = 512 // plain keys of one turn; most are written before
)

// An Inserter puts the contents of a file into a keyspace. Load calls it from one goroutine.
type Inserter interface {
	// Prepare is the first call. env is the Env with which the values were read.
	Prepare(env codec.Env)
	// Databases returns the number of databases.
	Databases() int
	// Reserve announces how many keys db will get.
	Reserve(db int, keys, volatile uint64) error
	// Insert inserts keys, in turns. Records of KindString hold Verbatim or Integer values; other records are as
	// codec.Expander read them. done is the number of records inserted before err. Records without elements are marked
	// Empty.
	Insert(records []rdb.Record) (done int, err error)
	// Function gets a function library's source.
	Function(code []byte) error
	// Finish is the last call, also after an error. When it returns, all inserted keys are in their databases.
	Finish() error
}

// A PlainInserter also takes keys in their shortest form. Most keys of a file have it.
type PlainInserter interface {
	// WritePlain writes entries for keys of b before their insertion. It leaves out expired keys, and may leave out
	// others. It runs concurrently with the other methods, between Prepare and Finish.
	WritePlain(b *rdb.Batch, keys []rdb.Plain, expired func(deadlineMs int64) bool, into []keyspace.Written)
	// InsertPlain inserts keys of b into db, in turns. written are their entries from WritePlain. done is the number of
	// keys inserted before err.
	InsertPlain(b *rdb.Batch, db int, keys []rdb.Plain, written []keyspace.Written) (done int, err error)
	// Unwrite frees entries that were not inserted, in one turn.
	Unwrite(written []keyspace.Written)
}

// LoadOptions say how a file is read.
type LoadOptions struct {
	KeepExpired    bool                     // load keys past their deadline, too: on a replica, and for an AOF's base
	Lapsed         func(db int, key []byte) // called for each expired key that is not loaded; key is lent
	NowMs          int64                    // the time that deadlines are compared with; 0: the clock
	NoChecksum     bool
	SkipModuleData bool // skip a module's data outside keys; without it such a file is refused
	// Values of unknown kinds come to the Inserter as raw bytes. Without Foreign such a file is refused.
	Foreign  bool
	SkipKeys bool         // skip keys of types that this server does not have; without it such a file is refused
	Relaxed  bool         // read a file of any version, up to the first thing that is not known
	Limits   codec.Limits // sizes up to which values are packed; zero: the defaults
	Delay    func() int64 // key-load-delay; nil: none
	Interval int64        // loading-process-events-interval-bytes: file bytes inserted in one turn; 0: no bound
	Size     int64        // length of the stream, if known
	Live     bool         // the stream is a connection
	First    int          // the database that gets the file's database 0
	Name     string       // the file's name, for messages
	Log      *logging.Logger
	Progress *Loading // nil: no progress is shown

	read func() int64 // bytes read of a compressed file
}

// Loaded is the result of a load.
type Loaded struct {
	Keys, Expired int64
	Empty         int64 // keys without elements, which were skipped
	Unsupported   int64 // keys of types that this server does not have, which were skipped
	Version       int
	Replication   *ReplicationState // nil: the file has none
	AOFBase       bool
	UsedMemory    int64
	Rest          []byte // bytes read after the file's end
}

// Loading is the progress of a load. Any goroutine may read it.
type Loading struct {
	Active                          atomic.Bool
	ServesOld                       atomic.Bool // the old data set is served meanwhile
	StartUnix, Total, Read          atomic.Int64
	UsedMemory                      atomic.Int64 // memory use of the server that wrote the file
	LastKeysLoaded, LastKeysExpired atomic.Int64
}

// Begin starts a load of total bytes. Active.Store(false) ends it.
func (p *Loading) Begin(total int64) {
	p.StartUnix.Store(time.Now().Unix())
	p.Total.Store(total)
	p.Read.Store(0)
	p.UsedMemory.Store(0)
	p.LastKeysLoaded.Store(0)
	p.LastKeysExpired.Store(0)
	p.Active.Store(true)
}

// Errors of a valid file that cannot be loaded here.
var (
	ErrDatabases = errors.New("the file has more databases than this server is configured for")
	ErrDuplicate = errors.New("the file holds a key twice")
)

// A DuplicateError is ErrDuplicate with the key.
type DuplicateError struct {
	DB  int
	Key string
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%s: key %q of database %d", ErrDuplicate, e.Key, e.DB)
}

func (e *DuplicateError) Unwrap() error { return ErrDuplicate }

// Public implements logging.Private. It is Error without the key.
func (e *DuplicateError) Public() string { return (&DuplicateError{e.DB, logging.Redacted}).Error() }

// An UnsupportedError names something that this server cannot read yet.
type UnsupportedError struct {
	What      string
	Offset    int64
	DB        int
	Key       string
	Skippable bool // it is not a value, and LoadOptions.SkipModuleData skips it
}

// Public implements logging.Private. It is Error without the key.
func (e *UnsupportedError) Public() string {
	shown := *e
	if shown.Key != "" {
		shown.Key = logging.Redacted
	}
	return shown.Error()
}

func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("%s at offset %d cannot be loaded by this version", e.What, e.Offset)
	if e.Key != "" {
		s += fmt.Sprintf(" (key %q of database %d)", e.Key, e.DB)
	}
	return s
}

// Load reads the RDB file at path, compressed or not, into to.
//
// Errors: fs.ErrNotExist, without a log line. Every other error is logged with its place and with advice. After such an
// error the process must not serve the data, because it has loaded only a part.
func Load(ctx context.Context, path string, to Inserter, o LoadOptions) (Loaded, error) {
	began := time.Now()
	file, err := os.Open(path)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			o.Log.Warning("Fatal error loading the DB, check server logs. Can't open %s: %s. Exiting.", path, reason.Of(err))
		}
		return Loaded{}, err
	}
	defer file.Close()
	size := int64(0)
	if stat, err := file.Stat(); err == nil {
		size = stat.Size()
	}
	o.Name = path
	if o.Progress == nil {
		o.Progress = &Loading{}
	}
	o.Progress.Begin(size)
	defer o.Progress.Active.Store(false)
	counted := &countingReader{r: file}
	plain, wrapped, err := UnwrapReader(counted)
	if err != nil {
		Complain(err, o)
		return Loaded{}, err
	}
	defer plain.Close()
	if wrapped {
		o.read = counted.n.Load
	} else {
		o.Size = size
	}
	l, err := Read(ctx, plain, to, o)
	if err != nil {
		Complain(err, o)
		return l, err
	}
	o.Log.Notice("DB loaded from disk: %.3f seconds", time.Since(began).Seconds())
	return l, nil
}

// A countingReader counts the bytes read through it.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Complain logs why Read refused a file, where, and what to do next. Tools look for its last line.
func Complain(err error, o LoadOptions) {
	var format *rdb.FormatError
	var sum *rdb.ChecksumError
	var unsupported *UnsupportedError
	log := o.Log
	last := "Terminating server after rdb file reading failure."
	switch {
	case errors.Is(err, rdb.ErrSignature), errors.Is(err, rdb.ErrVersion), errors.Is(err, ErrWrap):
		log.Warning("%s", err)
		if newer := (*rdb.VersionError)(nil); errors.As(err, &newer) {
			log.Warning(
				"What to do: %s is of a version that is not known here: %d for %s. 'rdb-version-check relaxed' reads it up "+
					"to the first thing that is not known. Or have the server that wrote it write for an older one.",
				o.Name, newer.Version, newer.Dialect)
		} else {
			log.Warning("What to do: %s is not an RDB file of Redis or Valkey. Move it away to start with an empty data set, "+
				"or put the right file in its place.", o.Name)
		}
		last = "Fatal error loading the DB: Invalid argument. Exiting."
	case errors.As(err, &sum):
		log.Warning("Wrong RDB checksum expected: (%x) but got (%x). Aborting now.", sum.Computed, sum.Announced)
		log.Warning("Internal error in RDB reading offset %d -> RDB CRC error", sum.Offset)
		log.Warning("What to do: the bytes of %s changed since they were written. Restore a backup or a replica's file. If "+
			"none is left, 'rdbchecksum no' loads it unchecked.", o.Name)
	case errors.As(err, &format) && format.Truncated:
		log.Warning("Short read or OOM loading DB. Unrecoverable error, aborting now.")
		log.Warning("Internal error in RDB reading offset %d -> Unexpected EOF reading RDB file: %s", format.Offset, format)
		log.Warning("What to do: %s is only the beginning of a file (an interrupted copy, a full disk?). Copy it again, or "+
			"restore a backup or a replica's file.", o.Name)
	case errors.As(err, &format) && format.Unknown:
		log.Warning("Internal error in RDB reading offset %d -> %s", format.Offset, format)
		log.Warning(
			"What to do: nothing after this can be read. Have the server that wrote %s delete or convert %s, and save "+
				"again; or copy the keys with a client.", o.Name, namedOr(format.Key, "what is new there"))
	case errors.As(err, &format):
		log.Warning("Internal error in RDB reading offset %d -> %s", format.Offset, format)
		log.Warning("What to do: %s is damaged. Restore a backup or a replica's file; spindle check-rdb --keys %s lists "+
			"what is readable before the damage.", o.Name, o.Name)
	case errors.As(err, &unsupported):
		log.Warning("Internal error in RDB reading offset %d -> %s", unsupported.Offset, unsupported)
		log.Warning("What to do: load %s with the server that wrote it, remove or convert that key there, and save again.",
			o.Name)
		if unsupported.Key != "" && !unsupported.Skippable {
			log.Warning("Or go without it: 'rdb-unsupported-keys skip' loads the other keys, and logs those that it skips.")
		}
		if unsupported.Skippable {
			log.Warning("Or pass over it: 'module-aux-data skip' loads the keys without what modules keep beside them.")
		}
	case errors.Is(err, ErrDatabases):
		log.Warning("FATAL: Data file was created with a server configured to handle more databases. Exiting: %s", err)
		log.Warning("What to do: raise 'databases', or 'cluster-databases' of a node of a cluster, and start again. Or " +
			"have the server that wrote the file move the keys to database 0 first.")
	case errors.Is(err, context.Canceled):
		last = "Loading was given up."
	default:
		log.Warning("Internal error in RDB reading %s -> %s", o.Name, err)
		log.Warning("What to do: if the disk is in order, restore a backup or a replica's file.")
	}
	log.Warning("%s", last)
}

// namedOr returns a key's name for a message, or other if the key is "".
func namedOr(key, other string) any {
	if key == "" {
		return other
	}
	return logging.Data(fmt.Sprintf("key %q", key))
}

// Read reads an RDB file from r into to. It logs facts from the file, but not the error that it returns.
func Read(ctx context.Context, r io.Reader, to Inserter, o LoadOptions) (Loaded, error) {
	if o.NowMs == 0 {
		o.NowMs = time.Now().UnixMilli()
	}
	if o.Progress == nil {
		o.Progress = &Loading{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.Limits == (codec.Limits{}) {
		o.Limits = codec.DefaultLimits
	}
	env := codec.Env{Limits: o.Limits}
	to.Prepare(env)
	plain, takesPlain := to.(PlainInserter)
	l := &loader{ctx: ctx, env: env, to: to, plain: plain, o: o,
		dec: rdb.NewDecoder(r, rdb.DecoderOptions{Size: o.Size, Live: o.Live, NoChecksum: o.NoChecksum, Plain: takesPlain,
			Relaxed: o.Relaxed})}
	err := l.run()
	if unfinished := to.Finish(); err == nil {
		err = metBefore(unfinished, l.dec.Offset())
	}
	l.found.Version = l.dec.Version()
	if err != nil {
		return l.found, err
	}
	if n := l.found.Unsupported; n > 0 {
		o.Log.Warning("Keys of types that this server does not have, and which were skipped: %d", n)
	}
	l.found.Rest = append([]byte(nil), l.dec.Rest()...)
	if l.found.Empty > 0 {
		o.Log.Notice("Done loading RDB, keys loaded: %d, keys expired: %d, empty keys skipped: %d.",
			l.found.Keys, l.found.Expired, l.found.Empty)
	} else {
		o.Log.Notice("Done loading RDB, keys loaded: %d, keys expired: %d.", l.found.Keys, l.found.Expired)
	}
	return l.found, nil
}

// loader is one call of Read.
type loader struct {
	ctx   context.Context
	to    Inserter
	plain PlainInserter // to, if it implements PlainInserter
	o     LoadOptions
	dec   *rdb.Decoder
	env   codec.Env
	found Loaded
	repl  ReplicationState
	says  struct{ db, id, offset bool }

	writing sync.Mutex // held while entries are written early
	over    bool       // no more entries are written
}

// A job is a batch in the pipeline. err is the splitter's error after it.
type job struct {
	batch   *rdb.Batch
	written []keyspace.Written // entries of batch.Plain
	reader  codec.Expander
	end     int64 // offset after the batch
	err     error
	expand  error
	ready   chan struct{}
}

// run moves batches from the splitter to the inserter, in order.
func (l *loader) run() error {
	free := make(chan *job, loadBatches)
	var all [loadBatches]job
	for i := range all {
		all[i] = job{batch: &rdb.Batch{}, reader: codec.Expander{Env: l.env}}
		free <- &all[i]
	}
	jobs := make(chan *job, loadBatches)
	split := make(chan struct{})
	go func() {
		defer close(split)
		l.split(free, jobs)
	}()
	var err error
	for j := range jobs {
		if err == nil {
			end := j.end // take may change end for a compressed file
			err = metBefore(l.insertBatch(j), end)
		}
		if err != nil {
			// The splitter sees the closed channel and stops. If it hangs in a Read, the caller must end the Read.
			break
		}
		free <- j
	}
	if err == io.EOF {
		err = nil
	}
	close(free)
	if !l.o.Live || err == nil {
		for range jobs {
		}
		<-split // the decoder is free now
	}
	l.unwrite(all[:])
	return err
}

// write writes the entries of a batch's plain keys.
func (l *loader) write(j *job) {
	if l.plain == nil || len(j.batch.Plain) == 0 {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	j.written = slices.Grow(j.written[:0], len(j.batch.Plain))[:len(j.batch.Plain)]
	clear(j.written)
	if !l.over {
		l.plain.WritePlain(j.batch, j.batch.Plain, l.expired, j.written)
	}
}

// unwrite frees entries that a failed load has written. The splitter may still be in a Read.
func (l *loader) unwrite(all []job) {
	if l.plain == nil {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.over = true
	for i := range all {
		for part := range slices.Chunk(all[i].written, turnWritten) {
			l.plain.Unwrite(part)
		}
	}
}

// metBefore adds the offset to the error for a duplicate key. Duplicates are found late, when the loader moves its keys
// into the database. So only an upper bound of the offset is known.
func metBefore(err error, end int64) error {
	if errors.Is(err, ErrDuplicate) {
		return fmt.Errorf("%w, before offset %d", err, end)
	}
	return err
}

// split cuts the stream into batches until it ends or fails.
func (l *loader) split(free <-chan *job, jobs chan<- *job) {
	defer close(jobs)
	for j := range free {
		j.err, j.expand, j.ready = l.dec.Next(j.batch), nil, make(chan struct{})
		j.end = l.dec.Offset()
		l.write(j)
		if j.batch.Packed {
			go func() {
				j.reader.Reset()
				j.expand = j.batch.Expand(j.read)
				close(j.ready)
			}()
		} else {
			close(j.ready)
		}
		jobs <- j
		if j.err != nil {
			return
		}
	}
}

// read reads a value that is not a string, if its kind is known. A packed value is checked here.
func (j *job) read(r *rdb.Record) error {
	if known, _ := codec.Known(r.Kind, r.Raw); !known {
		return nil // the loader reports it when it reaches this record
	}
	ready, err := j.reader.Read(r.Kind, r.Raw)
	switch {
	case err == codec.ErrEmpty:
		r.Empty = true
	case err != nil:
		return rdb.Corrupt(codec.Complaint(r.Kind, err))
	}
	r.Packed, r.Encoding, r.Least = ready.Packed, uint8(ready.Encoding), ready.FieldsDeadline
	return nil
}

// insertBatch inserts a batch's keys and handles its opcodes. Consecutive keys are inserted together.
func (l *loader) insertBatch(j *job) error {
	<-j.ready
	records, plain, written := j.batch.Records, j.batch.Plain, j.written
	from := 0 // the first record that is not inserted yet
	for i := range records {
		r := &records[i]
		r.DB += l.o.First
		if r.Op == rdb.OpKey {
			keep, err := l.key(r)
			if err != nil {
				return err
			}
			if keep {
				continue
			}
		}
		if err := l.insert(records[from:i]); err != nil {
			return err
		}
		from = i + 1
		switch r.Op {
		case rdb.OpKey:
		case rdb.OpPlain:
			if err := l.insertPlain(j.batch, r, plain[:r.Keys], written[:r.Keys]); err != nil {
				return err
			}
			plain, written = plain[r.Keys:], written[r.Keys:]
		default:
			if err := l.opcode(r); err != nil {
				return err
			}
		}
	}
	if err := l.insert(records[from:]); err != nil {
		return err
	}
	if l.o.read != nil {
		j.end = l.o.read()
	}
	l.o.Progress.Read.Store(j.end)
	if j.expand != nil { // it comes before the error of Next
		return j.expand
	}
	if j.err == nil && l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return j.err
}

// key reports whether a key is to be inserted.
func (l *loader) key(r *rdb.Record) (keep bool, err error) {
	if r.Kind != rdb.KindString && !l.o.Foreign {
		if known, what := codec.Known(r.Kind, r.Raw); !known {
			return false, l.unsupported(r, what)
		}
	}
	if r.Meta && !l.o.SkipModuleData {
		return false, &UnsupportedError{What: "what modules keep beside a key", Offset: r.Offset, DB: r.DB,
			Key: string(r.Key), Skippable: true}
	}
	if r.DB-l.o.First >= l.to.Databases() {
		return false, fmt.Errorf("%w: database %d, at offset %d", ErrDatabases, r.DB-l.o.First, r.Offset)
	}
	if l.expired(r.DeadlineMs) {
		l.found.Expired++
		l.lapsed(r.DB, r.Key)
		l.o.Progress.LastKeysExpired.Store(l.found.Expired)
		return false, nil
	}
	return true, nil
}

// unsupported handles a key of a type that this server does not have: it is skipped, or the error is returned.
func (l *loader) unsupported(r *rdb.Record, what string) error {
	err := &UnsupportedError{What: what, Offset: r.Offset, DB: r.DB, Key: string(r.Key)}
	if !l.o.SkipKeys {
		return err
	}
	if l.found.Unsupported++; l.found.Unsupported <= skippedLogged {
		l.o.Log.Warning("Skipping key %q of database %d, at offset %d: it is %s, and rdb-unsupported-keys is skip",
			logging.Data(r.Key), r.DB, r.Offset, what)
	}
	return nil
}

// skippedLogged is how many keys of unsupported types the log names.
const skippedLogged = 100

// lapsed reports an expired key that is not loaded.
func (l *loader) lapsed(db int, key []byte) {
	if l.o.Lapsed != nil {
		l.o.Lapsed(db, key)
	}
}

func (l *loader) expired(deadline int64) bool {
	return deadline != rdb.None && deadline < l.o.NowMs && !l.o.KeepExpired
}

// insertPlain inserts the plain keys that r stands for.
func (l *loader) insertPlain(b *rdb.Batch, r *rdb.Record, keys []rdb.Plain, written []keyspace.Written) error {
	if r.DB-l.o.First >= l.to.Databases() {
		return fmt.Errorf("%w: database %d, at offset %d", ErrDatabases, r.DB-l.o.First, r.Offset)
	}
	first := keys[0]
	if r.Volatile > 0 {
		kept := 0
		for i := range keys {
			if !l.expired(keys[i].DeadlineMs) {
				keys[kept], written[kept] = keys[i], written[i]
				kept++
			} else {
				l.lapsed(r.DB, b.Key(&keys[i]))
			}
		}
		clear(written[kept:])
		l.found.Expired += int64(len(keys) - kept)
		l.o.Progress.LastKeysExpired.Store(l.found.Expired)
		keys, written = keys[:kept], written[:kept]
	}
	for len(keys) > 0 {
		n := min(len(keys), turnWritten)
		d := l.delayNow()
		if d != 0 {
			n = 1
		} else if l.o.Interval > 0 {
			for n > 1 && keys[n-1].Distance(&keys[0]) > l.o.Interval {
				n--
			}
		}
		offset := r.Offset + keys[0].Distance(&first)
		done, err := l.plain.InsertPlain(b, r.DB, keys[:n], written[:n])
		l.found.Keys += int64(done)
		l.o.Progress.LastKeysLoaded.Store(l.found.Keys)
		if err != nil {
			return err
		}
		if err := l.rest(d, offset); err != nil {
			return err
		}
		keys, written = keys[n:], written[n:]
	}
	return nil
}

// delayNow returns the current key-load-delay.
func (l *loader) delayNow() delay {
	if l.o.Delay == nil {
		return 0
	}
	return delay(l.o.Delay())
}

// rest waits for d after the key at offset. It returns ctx's cause if the load was cancelled.
func (l *loader) rest(d delay, offset int64) error {
	if d != 0 {
		if l.o.read == nil {
			l.o.Progress.Read.Store(offset)
		}
		d.wait(l.ctx)
	}
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return nil
}

// insert passes keys to the Inserter, at most one turn's worth in a call.
func (l *loader) insert(rest []rdb.Record) error {
	for len(rest) > 0 {
		n := min(len(rest), turnRecords)
		d := l.delayNow()
		if d != 0 {
			n = 1
		} else if l.o.Interval > 0 {
			n = l.within(rest[:n])
		}
		done, err := l.to.Insert(rest[:n])
		l.found.Keys += int64(done)
		for i := range rest[:done] {
			if r := &rest[i]; r.Empty {
				l.found.Keys--
				if l.found.Empty++; l.found.Empty <= emptyLogged {
					l.o.Log.Notice("rdbLoadObject skipping empty key: %s", logging.Data(r.Key))
				}
			}
		}
		l.o.Progress.LastKeysLoaded.Store(l.found.Keys)
		if err != nil {
			return err
		}
		if err := l.rest(d, rest[0].Offset); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// emptyLogged is how many empty keys the log names.
const emptyLogged = 10

// within returns how many of records fit into Interval bytes of the file. It returns at least one.
func (l *loader) within(records []rdb.Record) int {
	last := len(records)
	for last > 1 && records[last-1].Offset-records[0].Offset > l.o.Interval {
		last--
	}
	return last
}

// opcode handles a record that is not a key.
func (l *loader) opcode(r *rdb.Record) error {
	switch r.Op {
	case rdb.OpAux:
		l.aux(string(r.Key), string(r.Value.Bytes))
	case rdb.OpSelectDB:
		if r.DB-l.o.First >= l.to.Databases() {
			return fmt.Errorf("%w: database %d, at offset %d", ErrDatabases, r.DB-l.o.First, r.Offset)
		}
	case rdb.OpResizeDB:
		most := uint64(1 << 24) // a false size must not cost memory; each key takes at least three bytes of the file
		if l.o.Size > 0 {
			most = uint64(l.o.Size / 3)
		}
		return l.to.Reserve(r.DB, min(r.Keys, most), min(r.Volatile, most))
	case rdb.OpFunction2:
		if err := l.to.Function(r.Value.Bytes); err != nil {
			return &UnsupportedError{What: "a function library (" + err.Error() + ")", Offset: r.Offset}
		}
	case rdb.OpModuleAux:
		name, version := rdb.ModuleName(r.Keys)
		what := fmt.Sprintf("data of module type %q (version %d)", name, version)
		if !l.o.SkipModuleData {
			return &UnsupportedError{What: what, Offset: r.Offset, Skippable: true}
		}
		l.o.Log.Warning("Skipping %s, at offset %d: module-aux-data is skip", what, r.Offset)
	case rdb.OpSlotImport:
		l.o.Log.Warning(
			"The file was written while %d slots (%s) were being imported (%s): keys of these slots are only those "+
				"that had come until then", r.Keys, r.Value.Bytes, r.Key)
	case rdb.OpEOF:
		if r.Keys == 0 && l.dec.Version() >= 5 && !l.o.NoChecksum {
			l.o.Log.Warning("RDB file was saved with checksum disabled: no check performed.")
		}
	}
	return nil
}

// aux handles one auxiliary field. It skips unknown fields, as the format requires.
func (l *loader) aux(name, text string) {
	n, _ := strconv.ParseInt(text, 10, 64)
	log := l.o.Log
	switch strings.ToLower(name) {
	case "redis-ver":
		log.Notice("Loading RDB produced by version %s", text)
	case "valkey-ver":
		log.Notice("Loading RDB produced by Valkey version %s", text)
	case "ctime":
		log.Notice("RDB age %d seconds", max(0, l.o.NowMs/1000-n))
	case "used-mem":
		log.Notice("RDB memory usage when created %.2f Mb", float64(n)/(1<<20))
		l.found.UsedMemory = n
		l.o.Progress.UsedMemory.Store(n)
	case "repl-stream-db":
		l.repl.StreamDB, l.says.db = int(n), n >= 0
	case "repl-id":
		l.repl.ID, l.says.id = text, len(text) == 40
	case "repl-offset":
		l.repl.Offset, l.says.offset = n, n != -1
	case "aof-preamble":
		if n != 0 {
			log.Notice("RDB has an AOF tail")
		}
	case "aof-base":
		if l.found.AOFBase = n != 0; l.found.AOFBase {
			log.Notice("RDB is base AOF")
		}
	case "redis-bits", "lua", "lua-sha1", "slot-info": // the last: sizes of slots, as hints
	default:
		if strings.HasPrefix(name, "%") {
			log.Notice("RDB '%s': %s", name, text)
		} else {
			log.Debug("Unrecognized RDB AUX field: '%s'", name)
		}
	}
	if l.says.db && l.says.id && l.says.offset {
		state := l.repl
		l.found.Replication = &state
	}
}
