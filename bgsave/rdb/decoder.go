package rdb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"spindle/internal/crc"
)

// A Record is one entry of a file: a key with its value, or an opcode.
//
// Lifetime: until its Batch is filled again.
type Record struct {
	Offset int64  // of its first byte in the uncompressed file; a key: of its type, after deadline and clock
	Key    []byte // the key; AUX: the field's name
	Value  Text   // for KindString; AUX: the field's value; FUNCTION2: the source
	Raw    []byte // for every other kind: the value's bytes in the file
	// The reader of Raw sets the next fields in Expand: the value as one block, and its encoding.
	Packed     []byte
	Encoding   uint8
	Least      int64 // the earliest deadline within Packed, Unix ms; 0: none
	DeadlineMs int64 // Unix ms, or None
	Idle       int64 // seconds, or None
	Freq       int   // 0..255, or None
	// Keys has several meanings. For a key, it is a count that the reader of Raw sets. For plain keys, it is their
	// number. For RESIZEDB and SLOT_INFO, it is the number of keys to come. For MODULE_AUX, it is the module's id. For
	// EOF, it is the checksum in the file.
	Keys     uint64
	Volatile uint64 // RESIZEDB, SLOT_INFO, plain keys: how many of the keys have a deadline. EOF: the computed checksum.
	DB       int
	Op       Op // OpKey for a key
	Kind     Kind
	Form     Kind // a key: its kind in the file, if Kind is another because the decoder has changed the value
	Empty    bool // the value has no elements; set by the reader of Raw
	Meta     bool // for a key: modules have kept metadata for it, which was skipped
}

// A Batch is a part of a file with its records. One goroutine fills it; another may expand and read it. Then the Batch
// is filled again, in the same memory.
type Batch struct {
	Records []Record
	Plain   []Plain // with DecoderOptions.Plain: an OpPlain record stands for the next Keys of them
	Packed  bool    // a value waits for Expand

	buf  []byte // the part's bytes; records are views into it
	side []byte // expanded keys and values
	grew int    // bytes that the decoder has added to values; it ends a batch in which they are many
}

// Usual sizes of a batch. A longer record gets a block of that length. Smaller blocks cost more: on one processor each
// block takes two thread switches.
const (
	blockSize  = 256 << 10
	maxRecords = 4096
)

// DecoderOptions say what is known about a stream.
type DecoderOptions struct {
	Size       int64 // length of the stream; 0: unknown. With it, a false length is refused at once
	Live       bool  // a connection: decode the bytes that have come, without waiting for a full block
	NoChecksum bool  // do not compute the checksum (rdbchecksum no)
	Plain      bool  // plain keys go to Batch.Plain
	Relaxed    bool  // read files of any version, up to the first thing that is not understood
}

// A Decoder cuts a stream into batches of records. It only looks into a value to find its end.
//
// Memory: a record is held whole. Memory is allocated only for bytes that have arrived, or with Size, for bytes that
// can still arrive. So a false length costs nothing.
type Decoder struct {
	r         io.Reader
	o         DecoderOptions
	version   int
	dialect   Dialect
	templates templates

	rest     []byte // bytes read but not consumed: the beginning of the next record
	base     int64  // stream offset of rest[0]
	sum      uint64 // checksum of everything before rest
	ended    bool   // r returned EOF
	finished bool   // OpEOF and the checksum were read
	readErr  error
	err      error // the error of Next; it returns it every time

	db       int
	next     Attributes // attributes of the next key, from opcodes
	meta     bool       // modules keep metadata for the next key
	progress progress
}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader, o DecoderOptions) *Decoder {
	return &Decoder{r: r, o: o, next: noAttributes}
}

// Version returns the file's version. It is known after the first batch, or after Header.
func (d *Decoder) Version() int { return d.version }

// Dialect returns the file's dialect, as soon as Version is known.
func (d *Decoder) Dialect() Dialect { return d.dialect }

// Offset returns the offset of the next record.
func (d *Decoder) Offset() int64 { return d.base }

// Rest returns the bytes that were read after the file's end, once Next has returned io.EOF.
// Lifetime: the decoder's.
func (d *Decoder) Rest() []byte { return d.rest }

// Header reads magic and version. Next calls it if needed.
// Errors: ErrSignature, ErrVersion, *FormatError for a file shorter than its header.
func (d *Decoder) Header() error {
	if d.version != 0 {
		return nil
	}
	var head [headerLen]byte
	n, err := io.ReadFull(d.r, head[:])
	if err != nil && n >= len(Magic) && !strings.HasPrefix(string(head[:n]), Magic) &&
		!strings.HasPrefix(string(head[:n]), ValkeyMagic[:min(n, len(ValkeyMagic))]) {
		return ErrSignature
	}
	if err != nil {
		return d.short(err, int64(n), "its header")
	}
	digits, valkey := bytes.CutPrefix(head[:], []byte(ValkeyMagic))
	if !valkey {
		var redis bool
		if digits, redis = bytes.CutPrefix(head[:], []byte(Magic)); !redis {
			return ErrSignature
		}
	}
	version := 0
	for _, digit := range digits {
		if digit -= '0'; digit > 9 {
			return fmt.Errorf("%w %q", ErrVersion, digits)
		}
		version = version*10 + int(digit)
	}
	if valkey {
		d.dialect = Valkey
	}
	if version < 1 || !d.o.Relaxed && !d.dialect.understood(version) {
		return &VersionError{d.dialect, version}
	}
	d.version, d.base = version, int64(headerLen)
	if !d.o.NoChecksum && version >= checksumSince {
		d.sum = crc.Update64(0, head[:])
	}
	return nil
}

// short returns the error for a stream that ended too early, or failed.
func (d *Decoder) short(err error, at int64, doing string) error {
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("reading at offset %d: %w", at, err)
	}
	return &FormatError{Offset: at, What: "the file ends too early", Doing: doing, DB: d.db, Truncated: true}
}

// Next fills b with at least one record. It returns io.EOF alone, after the file's end and a correct checksum.
// Errors: those of Header, *FormatError, *ChecksumError, and the reader's own. b holds the records before the error.
func (d *Decoder) Next(b *Batch) error {
	b.Records, b.Plain, b.Packed, b.side = b.Records[:0], b.Plain[:0], false, b.side[:0]
	b.grew = 0
	if d.finished {
		return io.EOF
	}
	if d.err != nil {
		return d.err
	}
	d.err = d.batch(b)
	return d.err
}

// batch does the work of Next.
func (d *Decoder) batch(b *Batch) error {
	if err := d.Header(); err != nil {
		return err
	}
	b.buf = append(b.buf[:0], d.rest...)
	if cap(b.buf) < blockSize {
		b.buf = append(make([]byte, 0, blockSize), b.buf...)
	} else if cap(b.buf) > 4*blockSize && len(b.buf) < blockSize {
		b.buf = append(make([]byte, 0, blockSize), b.buf...) // free the block of a long record
	}
	c := cursor{p: b.buf, progress: &d.progress, templates: d.templates}
	for {
		err := d.parse(&c, b)
		if err == nil {
			break
		}
		if err != errShort {
			return d.fail(&c, err)
		}
		if len(b.Records) > 0 {
			break
		}
		if err := d.fill(&c, b); err != nil {
			return err
		}
	}
	d.consume(c.p, c.i)
	if d.finished {
		return d.checksum(b)
	}
	return nil
}

// consume moves the decoder past the first n bytes of p.
func (d *Decoder) consume(p []byte, n int) {
	d.account(p[:n])
	d.rest = append(d.rest[:0], p[n:]...)
}

// fill reads more bytes into b's block, or into a longer one if the block is full. b has no record yet.
//
// For a file, fill fills the block before parse runs again, so that a long record is scanned only a few times. For a
// Live stream, parse gets all bytes at once when they arrive, because no more may come. Loops in a record resume.
func (d *Decoder) fill(c *cursor, b *Batch) error {
	if d.ended || d.o.Size > 0 && c.need > 0 && int64(c.need) > d.o.Size-d.base {
		return d.truncated(c)
	}
	if c.i > 0 { // attributes of the next key: they are read, and kept in d.next
		d.account(c.p[:c.i])
		b.buf = append(b.buf[:0], c.p[c.i:]...)
		c.need = max(0, c.need-c.i)
		c.i = 0
	}
	room := cap(b.buf)
	if len(b.buf) == room {
		room *= 2
	}
	if d.o.Size > 0 && c.need > room {
		room = c.need // the stream is long enough for it
	}
	if room > cap(b.buf) {
		b.buf = append(make([]byte, 0, room), b.buf...)
	}
	for idle := 0; len(b.buf) < cap(b.buf); {
		n, err := d.r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if err != nil {
			d.ended, d.readErr = true, err
			break
		}
		if d.o.Live && n > 0 && len(b.buf) >= c.need {
			break
		}
		if n > 0 {
			idle = 0
		} else if idle++; idle == 100 {
			return io.ErrNoProgress
		}
	}
	c.p, c.need = b.buf, 0
	return nil
}

// account moves the decoder past p, which begins at offset d.base.
func (d *Decoder) account(p []byte) {
	if !d.o.NoChecksum && d.version >= checksumSince {
		d.sum = crc.Update64(d.sum, p)
	}
	d.base += int64(len(p))
}

// truncated returns the error for a stream that ended inside a record, and names the record.
func (d *Decoder) truncated(c *cursor) error {
	at := d.base + int64(len(c.p))
	if d.o.Size > 0 && !d.ended {
		at = d.o.Size
	}
	err := d.short(d.readErr, at, c.what)
	if format, ok := err.(*FormatError); ok {
		format.Key = c.key
		if c.need > 0 {
			format.What = fmt.Sprintf("the file ends too early: a length at offset %d asks for more bytes than follow,",
				d.base+int64(c.lengthAt))
		}
	}
	return err
}

// fail adds the place and key to a Corrupt error.
func (d *Decoder) fail(c *cursor, err error) error {
	_, unknown := err.(Unknown)
	at := d.base + int64(c.i)
	return &FormatError{Offset: at, What: err.Error(), Doing: c.what, DB: d.db, Key: c.key, Unknown: unknown}
}

// checksum checks the sum after OpEOF. The sum's bytes are in d.rest, or still to be read.
func (d *Decoder) checksum(b *Batch) error {
	if d.version < checksumSince {
		return nil
	}
	for len(d.rest) < 8 {
		var p [8]byte
		n, err := d.r.Read(p[:8-len(d.rest)])
		d.rest = append(d.rest, p[:n]...)
		if err != nil && len(d.rest) < 8 {
			return d.short(err, d.base+int64(len(d.rest)), "the checksum")
		}
	}
	announced := binary.LittleEndian.Uint64(d.rest)
	eof := &b.Records[len(b.Records)-1]
	eof.Keys, eof.Volatile = announced, d.sum
	at := d.base
	d.base += 8
	d.rest = append(d.rest[:0], d.rest[8:]...)
	if !d.o.NoChecksum && announced != 0 && announced != d.sum {
		return &ChecksumError{Offset: at, Computed: d.sum, Announced: announced}
	}
	return nil
}

// parse appends records until b is full, the file ends, or the block ends. In the last case it returns errShort, with
// c.i at the first unfinished record.
func (d *Decoder) parse(c *cursor, b *Batch) error {
	for len(b.Records) < maxRecords && b.grew < blockSize {
		from := c.i
		if d.o.Plain {
			if n, volatile := d.plainKeys(c, b); n > 0 {
				b.Records = append(b.Records, Record{Op: OpPlain, Offset: d.base + int64(from), Keys: uint64(n),
					Volatile: uint64(volatile), DB: d.db})
				if len(b.Plain) >= maxRecords {
					return nil
				}
				continue
			}
		}
		err := d.record(c, b)
		if err != nil {
			if err == errShort {
				c.i = from
			}
			return err
		}
		if d.finished {
			return nil
		}
	}
	return nil
}

// record reads one opcode, or one key with its value, and appends it to b.
func (d *Decoder) record(c *cursor, b *Batch) error {
	c.what, c.key = "the next opcode", ""
	at := d.base + int64(c.i)
	d.progress.enter(c, at)
	op, err := c.byte()
	if err != nil {
		return err
	}
	if kind := d.dialect.Of(op); kind.Known() {
		return d.value(c, b, at, kind)
	}
	r := Record{Offset: at, Op: Op(op), DB: d.db, DeadlineMs: None, Idle: None, Freq: None}
	switch Op(op) {
	case OpExpireTimeMs:
		c.what = "a deadline"
		p, err := c.take(8)
		if err == nil {
			d.next.DeadlineMs = int64(binary.LittleEndian.Uint64(p))
		}
		return err
	case OpExpireTime:
		c.what = "a deadline"
		p, err := c.take(4)
		if err == nil {
			d.next.DeadlineMs = int64(int32(binary.LittleEndian.Uint32(p))) * 1000
		}
		return err
	case OpIdle:
		c.what = "an idle time"
		n, err := c.length()
		if err == nil {
			d.next.Idle = int64(min(n, 1<<62))
		}
		return err
	case OpFreq:
		c.what = "an LFU counter"
		n, err := c.byte()
		if err == nil {
			d.next.Freq = int(n)
		}
		return err
	case OpSelectDB:
		c.what = "a database number"
		n, err := c.length()
		if err != nil {
			return err
		}
		if n > 1<<31-1 {
			return Corrupt("a database number that no server can have")
		}
		d.db, r.DB = int(n), int(n)
	case OpResizeDB:
		c.what = "a database's size"
		if r.Keys, err = c.length(); err != nil {
			return err
		}
		r.Volatile, err = c.length()
	case OpSlotInfo:
		c.what = "a slot's size"
		if err = c.lengths(1); err != nil {
			return err
		}
		if r.Keys, err = c.length(); err != nil {
			return err
		}
		r.Volatile, err = c.length()
	case OpAux:
		c.what = "an AUX field"
		var name Text
		if name, err = c.text(); err != nil {
			return err
		}
		if r.Key, err = b.expand(&name); err != nil {
			return err
		}
		if r.Value, err = c.text(); err != nil {
			return err
		}
		err = b.expandValue(&r)
	case OpFunction2:
		c.what = "a function library"
		if r.Value, err = c.text(); err != nil {
			return err
		}
		err = b.expandValue(&r)
	case OpModuleAux:
		c.what = "a module's data"
		start := c.i
		if r.Keys, err = c.length(); err != nil {
			return err
		}
		c.i = start
		err = skipModule(c)
		r.Raw = c.p[start:c.i]
	case OpTemplate:
		if d.dialect == Valkey {
			return d.unknown(c)
		}
		c.what = "a hash template"
		r.Keys, err = d.readTemplate(c)
	case OpKeyMeta: // OpSlotImport in Valkey's files
		if d.dialect == Valkey {
			c.what, r.Op = "a slot import", OpSlotImport
			r.Keys, err = d.slotImport(c, b, &r)
			break
		}
		c.what = "what modules keep beside a key"
		if err := skipKeyMeta(c); err != nil {
			return err
		}
		d.meta = true
		return nil
	case OpFunctionPre:
		c.i--
		return Corrupt("a function library in a format of pre-release servers, which servers no longer read")
	case OpEOF:
		d.finished = true
	default:
		return d.unknown(c)
	}
	if err != nil {
		return err
	}
	b.Records = append(b.Records, r)
	return nil
}

// slotImport reads the state of a slot import: its name, and the first and last slots of its ranges. r gets the name
// and the ranges as text. It returns the number of slots.
func (d *Decoder) slotImport(c *cursor, b *Batch, r *Record) (n uint64, err error) {
	name, err := c.text()
	if err != nil {
		return 0, err
	}
	if r.Key, err = b.expand(&name); err != nil {
		return 0, err
	}
	var ranges []byte
	count, err := c.length()
	for ; err == nil && count > 0; count-- {
		var first, last uint64
		if first, err = c.length(); err == nil {
			last, err = c.length()
		}
		if err == nil && (first > last || last >= slotCount || len(ranges) > 12*slotCount) {
			err = Corrupt("a range of slots that no cluster has")
		}
		if err == nil {
			ranges = fmt.Appendf(ranges, " %d-%d", first, last)
			n += last - first + 1
		}
	}
	r.Value = Text{Bytes: bytes.TrimPrefix(ranges, []byte(" ")), Size: max(0, len(ranges)-1)}
	return n, err
}

const slotCount = 1 << 14

// unknown returns the error for an unknown type or opcode, at the byte before c. Nothing after it can be read, because
// only its type tells where it ends. If it may be a type, the error has the key's name.
func (d *Decoder) unknown(c *cursor) error {
	c.i--
	op := c.p[c.i]
	if Op(op) < firstOp {
		name, short := d.peekName(*c)
		if short {
			return errShort
		}
		c.key = name
	}
	if d.dialect.understood(d.version) {
		return Corrupt(fmt.Sprintf("value type or opcode %d, which no version of %s up to %d has", op, d.dialect, d.version))
	}
	return Unknown(fmt.Sprintf("value type or opcode %d, which is not known here, in a file of %s version %d",
		op, d.dialect, d.version))
}

// firstOp is where opcodes begin. All versions so far have type numbers far below it.
const firstOp = 0xF0

// peekName returns the key's name after a type at c, if the name is text. short means that the name may be in bytes
// that have not arrived yet.
func (d *Decoder) peekName(c cursor) (name string, short bool) {
	const longest = 64 << 10
	c.i++
	c.need = 0
	t, err := c.text()
	if err == errShort {
		possible := c.need < c.i+longest && (d.o.Size == 0 || int64(c.need) <= d.o.Size-d.base)
		return "", possible && !d.ended
	}
	if err != nil {
		return "", false
	}
	b, err := t.Append(nil)
	if err != nil {
		return "", false
	}
	return string(b), false
}

// value reads a key and its value.
func (d *Decoder) value(c *cursor, b *Batch, at int64, kind Kind) error {
	c.what = "a key's name"
	name, err := c.text()
	if err != nil {
		return err
	}
	key, err := b.expand(&name)
	if err != nil {
		return err
	}
	c.what = kinds[kind].name
	b.Records = append(b.Records, Record{})
	r := &b.Records[len(b.Records)-1]
	r.Offset, r.Key, r.DB, r.Kind = at, key, d.db, kind
	r.DeadlineMs, r.Idle, r.Freq, r.Meta = d.next.DeadlineMs, d.next.Idle, d.next.Freq, d.meta
	if kind == KindString {
		r.Value, err = c.text()
		b.Packed = b.Packed || r.Value.Form == Packed
	} else {
		r.Raw, err = c.skip(kind)
		if err == nil && kind >= KindTmplPacked && kind <= KindTmplRef {
			r.Kind, r.Form = KindHash, kind
			r.Raw, err = plainHash(nil, kind, r.Raw, d.templates)
			b.grew += len(r.Raw)
		}
		b.Packed = true
	}
	if err != nil {
		c.key = string(key)
		b.Records = b.Records[:len(b.Records)-1]
		return err
	}
	d.next, d.meta = noAttributes, false
	return nil
}

// skip skips a value of any kind and returns its bytes in the file.
func (c *cursor) skip(kind Kind) ([]byte, error) {
	step := kinds[kind].skip
	if step == nil {
		return nil, Corrupt("a " + kinds[kind].name + ", whose end only that module knows")
	}
	from := c.i
	if err := step(c); err != nil {
		return nil, err
	}
	return c.p[from:c.i:c.i], nil
}

// expand returns t's text. If the file has it verbatim, the text points into the batch; otherwise it is expanded into
// b.side.
func (b *Batch) expand(t *Text) ([]byte, error) {
	if t.Form == Verbatim {
		return t.Bytes, nil
	}
	if cap(b.side)-len(b.side) < t.Size { // earlier results stay in the old block
		b.side = make([]byte, 0, max(t.Size, blockSize/4))
	}
	from := len(b.side)
	side, err := t.Append(b.side)
	if err != nil {
		return nil, err
	}
	b.side = side
	return side[from:len(side):len(side)], nil
}

// expandValue makes r's value Verbatim, unless it is a number.
func (b *Batch) expandValue(r *Record) error {
	p, err := b.expand(&r.Value)
	if err != nil {
		return err
	}
	r.Value = Text{Bytes: p, Size: len(p)}
	return nil
}

// Expand makes every compressed string of the batch Verbatim. It calls read, unless nil, for values of other kinds. It
// may run on any goroutine while the decoder fills other batches.
//
// Errors: *FormatError for the first value that cannot be expanded or that read refuses. The records before it are
// valid.
func (b *Batch) Expand(read func(*Record) error) error {
	for i := range b.Records {
		r := &b.Records[i]
		var err error
		switch {
		case r.Op == OpKey && r.Kind != KindString:
			if read != nil {
				err = read(r)
			}
		case r.Value.Form == Packed:
			err = b.expandValue(r)
		}
		if err != nil {
			b.Records = b.Records[:i]
			return &FormatError{Offset: r.Offset, What: err.Error(), Doing: r.Kind.String(), DB: r.DB, Key: string(r.Key)}
		}
	}
	b.Packed = false
	return nil
}
