package segments

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/internal/disk"
	"spindle/tests/testkit"
	"spindle/tests/testkit/faulty"
)

const limit = time.Minute

// A bench is a log on a simulated disk, with the stream that was appended.
type bench struct {
	*Log
	t      *testing.T
	disk   *faulty.Disk
	folder *Folder
	stream []byte // after offset base
	lent   atomic.Int64
}

const base = 1000

func newBench(t *testing.T, most int64) *bench {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b := &bench{t: t, disk: faulty.New(seed)}
	b.folder = NewFolder(".", b.disk)
	b.Log = b.folder.New(base, most, b.took)
	t.Cleanup(func() {
		b.Drop()
		b.ended()
	})
	return b
}

func (b *bench) took(p []byte) {
	b.lent.Add(-int64(len(p)))
	for i := range p {
		p[i] = 0xDB
	}
}

// add appends n random bytes.
func (b *bench) add(rng *rand.Rand, n int) {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	b.stream = append(b.stream, p...)
	b.lent.Add(int64(n))
	b.Append(p)
}

func (b *bench) at(offset int64) []byte { return b.stream[offset-base:] }

// settled waits until everything is on disk.
func (b *bench) settled() Figures {
	b.t.Helper()
	testkit.Await(b.t, testkit.Slowly(limit), "the writer", func() bool {
		f := b.Figures()
		return f.Err != nil || f.Queued == 0
	})
	return b.Figures()
}

func (b *bench) ended() {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(testkit.Slowly(limit)):
		b.t.Fatal("the writer does not end")
	}
	if n := b.lent.Load(); n != 0 {
		b.t.Errorf("%d appended bytes were not given back", n)
	}
}

// read reads from offset at to the log's end.
func (b *bench) read(at int64) (got []byte, err error) {
	r := b.From(at)
	defer r.Close()
	p := make([]byte, 100_000)
	for {
		n, err := r.Read(p)
		if got = append(got, p[:n]...); err != nil {
			return got, err
		}
	}
}

// files lists the segments on the disk.
func files(d *faulty.Disk) (names []string) {
	all, _ := d.ReadDir(".")
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// TestModel: compares segments.G1 with a slice. Bytes of any sizes come, limits change, bytes become unneeded.
// Meanwhile, readers at several places continue to read.
func TestModel(t *testing.T) {
	b := newBench(t, 3<<20)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	most := int64(3 << 20)
	type one struct {
		r   *Reader
		got []byte
	}
	readers := map[*one]bool{}
	for step := range 1500 {
		switch n := rng.IntN(50); {
		case n == 0:
			most = 1<<20 + rng.Int64N(4<<20)
			b.Resize(most)
		case n == 1 && len(readers) == 0:
			f := b.Figures()
			b.Need(f.Begin + rng.Int64N(f.End-f.Begin+1))
		case n < 5 && len(readers) < 5:
			f := b.Figures()
			readers[&one{r: b.From(f.Begin + rng.Int64N(f.End-f.Begin+1))}] = true
		default:
			b.add(rng, 1+rng.IntN(1<<rng.IntN(16)))
		}
		for o := range readers {
			if rng.IntN(3) > 0 {
				continue
			}
			from := o.r.At()
			p := make([]byte, rng.IntN(100_000)+1)
			n, err := o.r.Read(p)
			switch {
			case err == nil:
				if !bytes.Equal(p[:n], b.at(from)[:n]) {
					t.Fatalf("step %d: %d bytes after offset %d are others than the stream's", step, n, from)
				}
				continue
			case errors.Is(err, io.EOF):
				if from != b.Figures().End {
					t.Fatalf("step %d: the end at %d, and the log ends at %d", step, from, b.Figures().End)
				}
			case !errors.Is(err, ErrMoved):
				t.Fatalf("step %d: %v", step, err)
			case b.Figures().Begin <= from:
				t.Fatalf("step %d: %v at %d, and the log begins at %d", step, err, from, b.Figures().Begin)
			}
			o.r.Close()
			delete(readers, o)
		}
		if step%100 == 0 {
			f := b.settled()
			if f.Err != nil || f.InFiles > most && most >= 3<<20 || f.End != base+int64(len(b.stream)) {
				t.Fatalf("step %d: %+v, limit %d, stream of %d", step, f, most, len(b.stream))
			}
			var size int64
			for _, name := range files(b.disk) {
				n, _ := b.disk.Size(name)
				size += n
			}
			if f = b.settled(); size > f.InFiles+leastLimit {
				t.Fatalf("step %d: %d bytes in files, counted %d", step, size, f.InFiles)
			}
			if got, err := b.read(f.Begin); !errors.Is(err, io.EOF) || !bytes.Equal(got, b.at(f.Begin)) {
				t.Fatalf("step %d: %d bytes from its begin, %v", step, len(got), err)
			}
		}
	}
	for o := range readers {
		o.r.Close()
	}
}

// TestBoundAndNeed: the files stay below the limit, and files that no reader needs are removed.
func TestBoundAndNeed(t *testing.T) {
	b := newBench(t, 1<<20)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 400 {
		b.add(rng, 16<<10)
		if f := b.settled(); f.InFiles > 1<<20 || f.End-f.Begin < 600<<10 && f.Begin > base {
			t.Fatalf("%+v", f)
		}
	}
	if _, err := b.read(base); !errors.Is(err, ErrMoved) {
		t.Errorf("%v for bytes that have gone", err)
	}
	b.Need(b.Figures().End)
	testkit.Await(t, testkit.Slowly(limit), "one file to be left", func() bool { return len(files(b.disk)) == 1 })
	b.Drop()
	b.ended()
	if left := files(b.disk); len(left) > 0 {
		t.Errorf("%v are left of a log that was dropped", left)
	}
}

// TestDiskFails: an error of the disk ends the log. Its readers get the error, and its files are removed.
func TestDiskFails(t *testing.T) {
	for name, fail := range map[string]func(d *faulty.Disk){
		"full":   func(d *faulty.Disk) { d.Space = 100_000 },
		"write":  func(d *faulty.Disk) { d.Fail(faulty.Fault{Op: faulty.Write, Err: syscall.EIO, After: 5}) },
		"short":  func(d *faulty.Disk) { d.Fail(faulty.Fault{Op: faulty.Write, Err: syscall.EIO, After: 5, Short: true}) },
		"open":   func(d *faulty.Disk) { d.Fail(faulty.Fault{Op: faulty.Open, Err: syscall.EMFILE, After: 1}) },
		"remove": func(d *faulty.Disk) { d.Fail(faulty.Fault{Op: faulty.Remove, Err: syscall.EIO, Times: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1<<20)
			fail(b.disk)
			rng := rand.New(rand.NewPCG(1, 0))
			for range 1000 {
				if b.add(rng, 16<<10); b.settled().Err != nil {
					break
				}
			}
			b.ended()
			f := b.Figures()
			if f.Err == nil || f.Queued != 0 {
				t.Fatalf("%+v after the disk has failed", f)
			}
			if got, err := b.read(f.Begin); len(got) > 0 || !errors.Is(err, f.Err) {
				t.Errorf("%d bytes and %v of a log that has given up because of %v (segments.G2)", len(got), err, f.Err)
			}
			if left := files(b.disk); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// TestReadFails: a reader gets the disk's error.
func TestReadFails(t *testing.T) {
	b := newBench(t, 4<<20)
	b.add(rand.New(rand.NewPCG(1, 0)), 100_000)
	b.settled()
	heal := b.disk.Fail(faulty.Fault{Op: faulty.Read, Err: syscall.EIO})
	if got, err := b.read(base); len(got) > 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("%d bytes and %v", len(got), err)
	}
	heal()
	if got, err := b.read(base); !errors.Is(err, io.EOF) || !bytes.Equal(got, b.stream) {
		t.Errorf("%d bytes and %v", len(got), err)
	}
}

// TestDiskStalls: Append does not wait for a disk that stalls. A reader waits, and gets the error when the log is given
// up.
func TestDiskStalls(t *testing.T) {
	b := newBench(t, 4<<20)
	rng := rand.New(rand.NewPCG(1, 0))
	b.add(rng, 1000)
	b.settled()
	release := b.disk.Stall(faulty.Write)
	for range 100 {
		b.add(rng, 16<<10)
	}
	steps := b.Figures().Steps
	type result struct {
		got []byte
		err error
	}
	results := make(chan result)
	go func() {
		got, err := b.read(base)
		results <- result{got, err}
	}()
	if f := b.Figures(); f.Queued != 100*16<<10 || f.Steps != steps {
		t.Errorf("%+v", f)
	}
	b.GiveUp(ErrSlow)
	if r := <-results; !errors.Is(r.err, ErrSlow) || !bytes.HasPrefix(b.stream, r.got) {
		t.Errorf("%d bytes and %v", len(r.got), r.err)
	}
	release()
	b.ended()
	if left := files(b.disk); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestDamage: if any byte of a file changes, a reader gets only correct bytes of the stream, then an error. The same
// holds wherever a file is cut.
func TestDamage(t *testing.T) {
	b := newBench(t, 8<<20)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for range 100 {
		b.add(rng, 1+rng.IntN(16<<10))
	}
	b.settled()
	name := files(b.disk)[0]
	whole, _ := b.disk.Content(name)
	for range 300 {
		damaged := bytes.Clone(whole)
		if rng.IntN(4) == 0 {
			damaged = damaged[:rng.IntN(len(damaged))]
		} else {
			damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
		}
		replace(t, b.disk, name, damaged)
		got, err := b.read(base)
		if !errors.Is(err, ErrDamaged) || !bytes.HasPrefix(b.stream, got) {
			t.Fatalf("%d bytes and %v", len(got), err)
		}
	}
	replace(t, b.disk, name, whole)
	if got, err := b.read(base); !errors.Is(err, io.EOF) || !bytes.Equal(got, b.stream) {
		t.Fatalf("%d bytes and %v of the whole file", len(got), err)
	}
}

func replace(t *testing.T, d *faulty.Disk, name string, content []byte) {
	t.Helper()
	f, err := d.Open(name, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzSegment: a reader returns only bytes that were appended, whatever a file holds.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add(appendHead(nil, 1, base), uint16(24))
	f.Add(appendBlock(appendHead(nil, 1, base), 1, base, []byte("stream")), uint16(3))
	f.Fuzz(func(t *testing.T, junk []byte, at uint16) {
		b := newBench(t, 1<<20)
		b.add(rand.New(rand.NewPCG(1, 0)), 10_000)
		b.settled()
		name := files(b.disk)[0]
		content, _ := b.disk.Content(name)
		content = append(content[:min(len(content), int(at))], junk...)
		replace(t, b.disk, name, content)
		if got, _ := b.read(base); !bytes.HasPrefix(b.stream, got) {
			t.Fatalf("%d bytes are not the stream's", len(got))
		}
	})
}

// TestKept: the next process can continue a sealed log, once. The old and the new bytes are one stream.
func TestKept(t *testing.T) {
	b := newBench(t, 4<<20)
	rng := rand.New(rand.NewPCG(1, 0))
	for range 120 {
		b.add(rng, 16<<10)
	}
	b.Append([]byte("x")) // a block need not be full
	b.lent.Add(1)
	b.stream = append(b.stream, 'x')
	<-b.Seal(Note{ID: "history", Replicas: []Replica{{"host", 7, base + 5}}})
	if _, err := b.read(base); !errors.Is(err, ErrClosed) {
		t.Errorf("%v of a sealed log", err)
	}
	folder := NewFolder(".", b.disk)
	kept, removed, err := folder.Find()
	if err != nil || removed != 0 || kept == nil || kept.ID != "history" || kept.Begin() != base ||
		kept.End() != base+int64(len(b.stream)) || len(kept.Replicas) != 1 || kept.Replicas[0].At != base+5 {
		t.Fatalf("%+v, %d removed, %v", kept, removed, err)
	}
	b.Log = kept.Continue(4<<20, b.took)
	for range 50 {
		b.add(rng, 16<<10)
	}
	if f := b.settled(); f.Err != nil {
		t.Fatal(f.Err)
	}
	if got, err := b.read(base + 7); !errors.Is(err, io.EOF) || !bytes.Equal(got, b.at(base+7)) {
		t.Errorf("%d bytes of %d, %v", len(got), len(b.stream), err)
	}
	// The next process finds files without a note.
	again := NewFolder(".", b.disk.Crash())
	if kept, removed, err := again.Find(); kept != nil || removed == 0 || !errors.Is(err, errNoNote) {
		t.Errorf("%+v, %d removed, %v: the note counts once (segments.G3)", kept, removed, err)
	}
}

// TestNotKept: what prevents a log from being continued. Files with other names stay.
func TestNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(d *faulty.Disk)
		want  error
	}{
		"no note":           {func(d *faulty.Disk) { must(d.Remove(noteName)) }, errNoNote},
		"a damaged note":    {func(d *faulty.Disk) { change(d, noteName, 60) }, errNote},
		"an empty note":     {func(d *faulty.Disk) { cut(d, noteName, 0) }, errNote},
		"a missing segment": {func(d *faulty.Disk) { must(d.Remove(files(d)[1])) }, errMissing},
		"a shorter segment": {func(d *faulty.Disk) { cut(d, files(d)[1], 100) }, errMissing},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 1<<20)
			rng := rand.New(rand.NewPCG(1, 0))
			for range 40 {
				b.add(rng, 16<<10)
			}
			<-b.Seal(Note{ID: "history"})
			c.spoil(b.disk)
			cut(b.disk, "backlog.other", 3)
			kept, removed, err := NewFolder(".", b.disk).Find()
			if kept != nil || removed == 0 || !errors.Is(err, c.want) {
				t.Errorf("%+v, %d removed, %v", kept, removed, err)
			}
			if names, _ := b.disk.ReadDir("."); len(names) != 1 || names[0] != "backlog.other" {
				t.Errorf("%v are left", names)
			}
		})
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// change changes the byte at offset at of a file.
func change(d *faulty.Disk, name string, at int) {
	p, _ := d.Content(name)
	p[at] ^= 1
	f, err := d.Open(name, os.O_WRONLY|os.O_TRUNC, 0o600)
	must(err)
	_, err = f.Write(p)
	must(err)
}

// cut truncates a file to size, or makes a file of zeros.
func cut(d *faulty.Disk, name string, size int64) {
	f, err := d.Open(name, os.O_WRONLY|os.O_CREATE, 0o600)
	must(err)
	must(f.Truncate(size))
}

// TestSharedFolder: a second server does not touch the first one's files, and keeps no log in their folder.
func TestSharedFolder(t *testing.T) {
	dir := t.TempDir()
	one, two := NewFolder(dir, disk.OS), NewFolder(dir, disk.OS)
	l := one.New(0, 1<<20, func([]byte) {})
	l.Append([]byte("stream"))
	testkit.Await(t, testkit.Slowly(limit), "the writer", func() bool { return l.Figures().Queued == 0 })
	for range 2 { // the collector must not release the lock
		collected := make(chan bool)
		runtime.AddCleanup(new([64]byte), func(c chan bool) { close(c) }, collected)
		runtime.GC()
		<-collected
	}
	if kept, removed, err := two.Find(); kept != nil || removed != 0 || !errors.Is(err, ErrShared) {
		t.Fatalf("%+v, %d removed, %v", kept, removed, err)
	}
	other := two.New(0, 1<<20, func([]byte) {})
	<-other.done
	if f := other.Figures(); !errors.Is(f.Err, ErrShared) {
		t.Errorf("%+v", f)
	}
	stat, err := os.Stat(one.path(nameOf(l.nonce, 0)))
	if err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", stat, err)
	}
	l.Drop()
	<-l.done
}

// BenchmarkAppend writes 16 KB at a time to a real disk. Watch MB/s, and allocs/op of the caller.
func BenchmarkAppend(b *testing.B) {
	var free = make(chan []byte, 64)
	for range cap(free) {
		free <- make([]byte, 16<<10)
	}
	l := NewFolder(b.TempDir(), disk.OS).New(0, 64<<20, func(p []byte) { free <- p })
	b.SetBytes(16 << 10)
	for b.Loop() {
		l.Append(<-free)
	}
	l.Drop()
	<-l.done
}
