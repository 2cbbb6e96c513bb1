// Package faulty is a disk in memory that fails like real disks: it loses unsynced data, tears writes, refuses
// operations, and stalls.
//
// Owner: one test. Any goroutine may call its methods.
// Never: fails unless a test requests it, or uses randomness other than its seed.
// Start at Disk; Crash is the power cut.
package faulty

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"spindle/internal/disk"
)

// ErrPower is the error of every operation after the power is off.
var ErrPower = errors.New("the power is off")

// An Op is a kind of operation that can be made to fail or stall.
type Op string

const (
	Open     Op = "open"
	Read     Op = "read"
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	Rename   Op = "rename"
	Remove   Op = "remove"
	Mkdir    Op = "mkdir"
	SyncDir  Op = "syncdir"
)

// sector is the size of the unit that a disk usually writes as a whole.
const sector = 512

// word is the size of the unit that a disk always writes as a whole.
const word = 8

// A Disk is a file tree as programs see it, with the state that a power cut may leave.
//
// faulty.D1. names is the tree that programs see; kept is the least that a power cut leaves. Applying changes in order
// turns kept into names.
// faulty.D2. A file's kept bytes differ from its data only in dirty sectors, and in sectors that a failed Sync has
// lost.
// faulty.D3. A power cut keeps a prefix of each folder's changes. Of each dirty sector it keeps the old bytes, the new
// ones, or a prefix of the new ones in words of eight bytes.
type Disk struct {
	mu      sync.Mutex
	moved   *sync.Cond // a stall has ended
	rng     *rand.Rand
	names   map[string]*inode
	kept    map[string]*inode
	changes []change
	folders map[string]bool
	faults  []*Fault
	stalls  map[Op]int
	off     bool
	left    int   // operations until the power fails; -1 means never
	Space   int64 // bytes that may still be written; -1 means no limit
	Ops     int   // number of changing operations so far
}

// An inode is a file's content.
type inode struct {
	data  []byte
	kept  []byte
	dirty map[int]bool // sectors
}

// A change is a change of a folder's entry: name gets this file, or none if it is nil. A rename also removes the name
// from at the same instant. It belongs to the changes of the folder into which it moves the file.
type change struct {
	name string
	to   *inode
	from string
}

// A Fault makes operations fail.
type Fault struct {
	Op    Op
	Name  string // a part of the file's name; "" means any file
	Err   syscall.Errno
	After int // how many operations succeed first
	Times int // how many operations fail; 0 means all
	Short bool
}

// New returns an empty disk.
func New(seed uint64) *Disk {
	d := &Disk{
		rng: rand.New(rand.NewPCG(seed, 1)), names: map[string]*inode{}, kept: map[string]*inode{},
		folders: map[string]bool{".": true, "/": true}, stalls: map[Op]int{}, left: -1, Space: -1,
	}
	d.moved = sync.NewCond(&d.mu)
	return d
}

// Fail makes operations fail as f describes, until heal is called.
func (d *Disk) Fail(f Fault) (heal func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.faults = slices.DeleteFunc(d.faults, func(other *Fault) bool { return other == &f })
	}
}

// Stall makes operations of a kind wait until release is called.
func (d *Disk) Stall(op Op) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalls[op]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stalls[op]--
		d.moved.Broadcast()
	}
}

// CrashAfter turns the power off after n more changing operations.
func (d *Disk) CrashAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Off reports whether the power is off.
func (d *Disk) Off() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off
}

// Crash turns the power off and returns the disk that the next start finds. Operations on d then return ErrPower.
func (d *Disk) Crash() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	d.moved.Broadcast()
	next := New(d.rng.Uint64())
	next.folders = maps.Clone(d.folders)
	names := maps.Clone(d.kept)
	byFolder := map[string][]change{}
	for _, c := range d.changes {
		folder := filepath.Dir(c.name)
		byFolder[folder] = append(byFolder[folder], c)
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		list := byFolder[folder]
		for _, c := range list[:d.rng.IntN(len(list)+1)] {
			apply(names, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left := names[name].afterCrash(d.rng)
		next.names[name] = &inode{data: left, kept: slices.Clone(left), dirty: map[int]bool{}}
		next.kept[name] = next.names[name]
	}
	return next
}

func apply(names map[string]*inode, c change) {
	if c.to == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.to
	}
	if c.from != "" {
		delete(names, c.from)
	}
}

// afterCrash returns what is left of a file (faulty.D3).
func (n *inode) afterCrash(rng *rand.Rand) []byte {
	size := len(n.kept)
	switch grown := len(n.data) - len(n.kept); rng.IntN(3) {
	case 1:
		size = len(n.data)
	case 2:
		size += rng.IntN(max(grown, 0) + 1)
	}
	left := make([]byte, size)
	copy(left, n.kept)
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		from, to := s*sector, min((s+1)*sector, len(n.data), size)
		if from >= to {
			continue
		}
		switch rng.IntN(8) {
		case 0, 1, 2:
		case 3:
			copy(left[from:to], n.data[from:from+word*rng.IntN((to-from)/word+1)])
		default:
			copy(left[from:to], n.data[from:to])
		}
	}
	return left
}

// begin begins every operation. It waits for stalls to end, counts the operation, and returns the fault that applies,
// or nil. The caller holds mu.
func (d *Disk) begin(op Op, name string, changes bool) *Fault {
	for d.stalls[op] > 0 && !d.off {
		d.moved.Wait()
	}
	if d.off {
		return &Fault{}
	}
	if changes {
		d.Ops++
		if d.left == 0 {
			d.off = true
			d.moved.Broadcast()
			return &Fault{}
		}
		if d.left > 0 {
			d.left--
		}
	}
	for _, f := range d.faults {
		if f.Op != op || !strings.Contains(name, f.Name) {
			continue
		}
		if f.After > 0 {
			f.After--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				f.Times = -1
			}
		} else if f.Times < 0 {
			continue
		}
		return f
	}
	return nil
}

// refusal converts a fault to an error.
func (d *Disk) refusal(op Op, name string, f *Fault) error {
	if f.Err == 0 {
		return &fs.PathError{Op: string(op), Path: name, Err: ErrPower}
	}
	return &fs.PathError{Op: string(op), Path: name, Err: f.Err}
}

func notThere(op Op, name string) error {
	return &fs.PathError{Op: string(op), Path: name, Err: syscall.ENOENT}
}

// change records a new entry. The caller holds mu.
func (d *Disk) change(name string, to *inode) {
	c := change{name: name, to: to}
	apply(d.names, c)
	d.changes = append(d.changes, c)
}

func (d *Disk) Open(name string, flag int, _ fs.FileMode) (disk.File, error) {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(Open, name, flag&(os.O_CREATE|os.O_TRUNC) != 0); f != nil {
		return nil, d.refusal(Open, name, f)
	}
	n := d.names[name]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, notThere(Open, name)
	case n == nil && !d.folders[filepath.Dir(name)]:
		return nil, notThere(Open, name)
	case n == nil:
		n = &inode{dirty: map[int]bool{}}
		d.change(name, n)
	case flag&os.O_TRUNC != 0:
		n.cut(0)
	}
	return &file{d: d, n: n, name: name, appends: flag&os.O_APPEND != 0}, nil
}

// Link implements disk.System. It counts as a rename among the operations.
func (d *Disk) Link(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(Rename, to, true); f != nil {
		return d.refusal(Rename, to, f)
	}
	n := d.names[from]
	switch {
	case n == nil || !d.folders[filepath.Dir(to)]:
		return notThere(Rename, from)
	case d.names[to] != nil:
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	d.change(to, n)
	return nil
}

func (d *Disk) Rename(from, to string) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(Rename, to, true); f != nil {
		return d.refusal(Rename, to, f)
	}
	n := d.names[from]
	if n == nil || !d.folders[filepath.Dir(to)] {
		return notThere(Rename, from)
	}
	c := change{name: to, to: n, from: from}
	if from == to {
		c.from = ""
	}
	apply(d.names, c)
	d.changes = append(d.changes, c)
	return nil
}

func (d *Disk) Remove(name string) error {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(Remove, name, true); f != nil {
		return d.refusal(Remove, name, f)
	}
	if d.names[name] == nil {
		return notThere(Remove, name)
	}
	d.change(name, nil)
	return nil
}

// Mkdir implements disk.System. A folder survives every power cut.
func (d *Disk) Mkdir(name string, _ fs.FileMode) error {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(Mkdir, name, true); f != nil {
		return d.refusal(Mkdir, name, f)
	}
	d.folders[name] = true
	return nil
}

func (d *Disk) Size(name string) (int64, error) {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, d.refusal("stat", name, &Fault{})
	}
	if n := d.names[name]; n != nil {
		return int64(len(n.data)), nil
	}
	if d.folders[name] {
		return 4096, nil
	}
	return 0, notThere("stat", name)
}

// Shared implements disk.System.
func (d *Disk) Shared(name string) (bool, error) {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	n, names := d.names[name], 0
	if d.off {
		return false, d.refusal("stat", name, &Fault{})
	}
	if n == nil {
		return false, notThere("stat", name)
	}
	for _, other := range d.names {
		if other == n {
			names++
		}
	}
	return names > 1, nil
}

func (d *Disk) ReadDir(name string) (names []string, err error) {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.folders[name] {
		return nil, notThere("readdir", name)
	}
	for path := range d.names {
		if filepath.Dir(path) == name {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Lock implements disk.System. It always succeeds, because only one process uses the disk.
func (d *Disk) Lock(string) (release func(), err error) { return func() {}, nil }

func (d *Disk) SyncDir(name string) error {
	name = filepath.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.begin(SyncDir, name, true); f != nil {
		return d.refusal(SyncDir, name, f)
	}
	rest := d.changes[:0:0]
	for _, c := range d.changes {
		if filepath.Dir(c.name) == name {
			apply(d.kept, c)
		} else {
			rest = append(rest, c)
		}
	}
	d.changes = rest
	return nil
}

// Content returns the bytes of a file that programs see.
func (d *Disk) Content(name string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[filepath.Clean(name)]
	if n == nil {
		return nil, false
	}
	return slices.Clone(n.data), true
}

// String lists the files.
func (d *Disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		n := d.names[name]
		fmt.Fprintf(&b, "%s: %d bytes, %d kept, %d dirty sectors\n", name, len(n.data), len(n.kept), len(n.dirty))
	}
	return b.String()
}

// put writes p at an offset.
func (n *inode) put(at int, p []byte) {
	if at+len(p) > len(n.data) {
		n.data = append(n.data, make([]byte, at+len(p)-len(n.data))...)
	}
	copy(n.data[at:], p)
	for s := at / sector; s*sector < at+len(p); s++ {
		n.dirty[s] = true
	}
}

// cut truncates the file, or extends it with zeros.
func (n *inode) cut(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size:size]
		return
	}
	n.put(len(n.data), make([]byte, size-len(n.data)))
}

// sync makes dirty sectors survive a power cut. With lossy, most of them are lost instead, because the kernel then
// considers them clean.
func (n *inode) sync(rng *rand.Rand, lossy bool) {
	kept := make([]byte, len(n.data))
	copy(kept, n.kept)
	for s := range len(n.data)/sector + 1 {
		if !n.dirty[s] || lossy && rng.IntN(8) > 0 {
			continue
		}
		from, to := s*sector, min((s+1)*sector, len(n.data))
		copy(kept[from:to], n.data[from:to])
	}
	n.kept, n.dirty = kept, map[int]bool{}
}

// A file is one open file on an inode.
type file struct {
	d       *Disk
	n       *inode
	name    string
	at      int
	appends bool
	closed  bool
}

func (f *file) Read(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if fault := f.d.begin(Read, f.name, false); fault != nil {
		return 0, f.d.refusal(Read, f.name, fault)
	}
	if f.at >= len(f.n.data) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[f.at:])
	f.at += n
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	d := f.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.closed {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrClosed}
	}
	dark := d.off
	fault := d.begin(Write, f.name, true)
	if fault != nil && !fault.Short {
		if fault.Err == 0 && len(p) > 0 && !dark { // the power failed during the write
			f.put(p[:d.rng.IntN(len(p)+1)])
		}
		return 0, d.refusal(Write, f.name, fault)
	}
	n, errno := len(p), syscall.Errno(0)
	if fault != nil {
		n, errno = d.rng.IntN(len(p)+1), fault.Err
	}
	if d.Space >= 0 && int64(n) > d.Space {
		n, errno = int(d.Space), syscall.ENOSPC
	}
	if d.Space >= 0 {
		d.Space -= int64(n)
	}
	f.put(p[:n])
	if errno != 0 {
		return n, &fs.PathError{Op: "write", Path: f.name, Err: errno}
	}
	return n, nil
}

func (f *file) put(p []byte) {
	if f.appends {
		f.at = len(f.n.data)
	}
	f.n.put(f.at, p)
	f.at += len(p)
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.closed = true
	return nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if fault := f.d.begin(Truncate, f.name, true); fault != nil {
		return f.d.refusal(Truncate, f.name, fault)
	}
	f.n.cut(int(size))
	return nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if fault := f.d.begin(Sync, f.name, true); fault != nil {
		if fault.Err != 0 {
			f.n.sync(f.d.rng, true)
		}
		return f.d.refusal(Sync, f.name, fault)
	}
	f.n.sync(f.d.rng, false)
	return nil
}

func (f *file) WriteOut(int64, int64, bool) error { return nil }
func (f *file) Forget()                           {}
