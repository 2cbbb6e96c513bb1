package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"spindle/internal/disk"
	"spindle/internal/setting"
)

// A history lists the files from which the data set of an earlier moment can be restored (aof-keep-history). They lie
// in the log's folder. The index is a file beside the manifest.
//
//	offset       0            5,000        9,000    9,001
//	bases        base 1                    base 2   base 3
//	increments   [incr 1     ][incr 2     ]         [incr 3 …      the log was off between the two
//	             └───────── a stretch ────┘         └ another one
//
// An offset counts the bytes of all increments from the beginning of the history. Each offset stands for one moment
// only: a stretch begins one byte after the end of the previous stretch.
//
// aof.H1. A base has the effects before its offset. The increment at that offset has the effects after it.
// aof.H2. Within a stretch the increments adjoin: no effect between them is missing.
// aof.H3. A file in the folder is in the manifest, in the index, or in both. To remove a file, the history marks it in
// the index, removes it, and then takes it out of the index.
type history struct {
	bases []pastBase
	incrs []pastIncr
	gone  []string // marked files
	gap   int64    // offsets to leave out before the next stretch
}

// A pastBase is a base. It holds the data set at an offset and a moment.
type pastBase struct {
	name   string
	size   int64
	offset int64
	atMs   int64 // Unix time of the cut
}

// A pastIncr is an increment of the history.
type pastIncr struct {
	name   string
	size   int64 // liveSize: it still grows
	offset int64
	fromMs int64 // Unix time of its first byte, or earlier
}

// liveSize is the size of an increment that still grows.
const liveSize = -1

// lostGap is more than the bytes of one increment. The offsets of increments that the index lacks are left out, so each
// offset still stands for one moment only.
const lostGap = 1 << 40

// gapAfter returns how many offsets are left out after end, when the log continues with increments that do not adjoin.
// Increments have growing numbers, so that the gap differs if the index cannot be written at several starts.
func gapAfter(end int64, incrs []part) int64 {
	last := int64(0)
	if len(incrs) > 0 {
		last = incrs[len(incrs)-1].seq
	}
	next := (end/lostGap + 1) * lostGap
	return next + last%(1<<20)*lostGap - end - 1 // h.begin adds one
}

// The suffix of the index's name, after appendfilename, and the additional suffix of a damaged index.
const (
	historySuffix = ".history"
	damagedSuffix = ".damaged"
)

// errHistory is an index that cannot be read.
var errHistory = errors.New("the index of the log's history is damaged")

// parseHistory reads the text of an index.
//
// Errors: errHistory, with the line.
func parseHistory(text []byte) (*history, error) {
	h := &history{}
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(line) > 0 && line[0] == '#' && ended {
			continue
		}
		if !ended || !h.add(string(line)) {
			return nil, fmt.Errorf("%w: line %d, %q", errHistory, number, line)
		}
	}
	return h, nil
}

// add reads one line of the index into h. It returns false if the line is not valid.
func (h *history) add(line string) bool {
	words, err := setting.SplitArgs(line)
	if err != nil || len(words) < 2 || words[1] == "" || strings.ContainsAny(words[1], `/\`) {
		return false
	}
	name := words[1]
	if words[0] == "gone" && len(words) == 2 {
		h.gone = append(h.gone, name)
		return true
	}
	if len(words) != 8 || words[2] != "size" || words[4] != "offset" {
		return false
	}
	size, err := strconv.ParseInt(words[3], 10, 64)
	if words[3] == "live" {
		size, err = liveSize, nil
	}
	offset, wrong := strconv.ParseInt(words[5], 10, 64)
	at, bad := strconv.ParseInt(words[7], 10, 64)
	if errors.Join(err, wrong, bad) != nil || offset < 0 {
		return false
	}
	switch {
	case words[0] == "base" && words[6] == "at" && size >= 0:
		h.bases = append(h.bases, pastBase{name, size, offset, at})
	case words[0] == "incr" && words[6] == "from" && (len(h.incrs) == 0 || offset >= h.end()):
		h.incrs = append(h.incrs, pastIncr{name, size, offset, at})
	default:
		return false
	}
	return true
}

// text returns the index in the form of its file.
func (h *history) text() []byte {
	var b bytes.Buffer
	quoted := func(name string) string {
		if needsQuotes(name) {
			return setting.Quote(name)
		}
		return name
	}
	b.WriteString("# The history of the append-only file beside it. spindle history shows it, spindle restore uses it.\n")
	for _, p := range h.bases {
		fmt.Fprintf(&b, "base %s size %d offset %d at %d\n", quoted(p.name), p.size, p.offset, p.atMs)
	}
	for _, p := range h.incrs {
		size := "live"
		if p.size != liveSize {
			size = strconv.FormatInt(p.size, 10)
		}
		fmt.Fprintf(&b, "incr %s size %s offset %d from %d\n", quoted(p.name), size, p.offset, p.fromMs)
	}
	for _, name := range h.gone {
		fmt.Fprintf(&b, "gone %s\n", quoted(name))
	}
	return b.Bytes()
}

// end is the offset after the last increment. A live increment counts as empty.
func (h *history) end() int64 {
	if len(h.incrs) == 0 {
		return 0
	}
	last := h.incrs[len(h.incrs)-1]
	return last.offset + max(last.size, 0)
}

// live returns the increment that still grows. It returns nil if the log is off, or writes to none of h's increments.
func (h *history) live() *pastIncr {
	if n := len(h.incrs); n > 0 && h.incrs[n-1].size == liveSize {
		return &h.incrs[n-1]
	}
	return nil
}

// has reports whether a file is in the index. Files marked for removal do not count.
func (h *history) has(name string) bool {
	return slices.ContainsFunc(h.bases, func(p pastBase) bool { return p.name == name }) ||
		slices.ContainsFunc(h.incrs, func(p pastIncr) bool { return p.name == name })
}

// took reports whether the name is taken, so that a new file may not have it. h may be nil.
func (h *history) took(name string) bool {
	return h != nil && (h.has(name) || slices.Contains(h.gone, name))
}

// shut notes the final size of the live increment: the log continues in another file, or not at all.
func (h *history) shut(size int64) {
	if p := h.live(); p != nil {
		p.size = size
	}
}

// next adds an increment that adjoins the last one, or the first of all (aof.H2).
func (h *history) next(name string, nowMs int64) {
	h.incrs = append(h.incrs, pastIncr{name, liveSize, h.end(), nowMs})
}

// begin starts another stretch with a base and its first increment.
func (h *history) begin(base pastBase, incr string, size int64) {
	if len(h.incrs) > 0 {
		base.offset = h.end() + 1 + h.gap
	}
	h.gap = 0
	h.bases = append(h.bases, base)
	h.incrs = append(h.incrs, pastIncr{incr, size, base.offset, base.atMs})
}

// size is the sum of the bytes of all files but the live increment and the base before it.
func (h *history) size() (sum int64) {
	for i, p := range h.bases {
		if i < len(h.bases)-1 {
			sum += p.size
		}
	}
	for _, p := range h.incrs {
		sum += max(p.size, 0)
	}
	return sum
}

// A keep is how much of a log's past is kept. The zero value keeps nothing.
type keep struct {
	seconds int64 // keeps moments up to this age; 0: any age, if bytes are given
	bytes   int64 // bounds files that only the past needs; 0: any number, if seconds are given
}

func (k keep) on() bool { return k.seconds > 0 || k.bytes > 0 }

// prune marks the files that k does not require. The last base always stays, with everything after it.
func (h *history) prune(k keep, nowMs int64) {
	for len(h.bases) > 1 {
		old := k.seconds > 0 && h.bases[1].atMs <= nowMs-1000*k.seconds
		large := k.bytes > 0 && h.size() > k.bytes
		if !old && !large {
			return
		}
		h.gone = append(h.gone, h.bases[0].name)
		h.bases = h.bases[1:]
		for len(h.incrs) > 0 && h.incrs[0].offset < h.bases[0].offset {
			h.gone = append(h.gone, h.incrs[0].name)
			h.incrs = h.incrs[1:]
		}
	}
}

// stretch returns the increments that adjoin the one at offset, beginning with it.
func (h *history) stretch(offset int64) []pastIncr {
	from := slices.IndexFunc(h.incrs, func(p pastIncr) bool { return p.offset == offset })
	if from < 0 {
		return nil
	}
	to := from + 1
	for to < len(h.incrs) && h.incrs[to-1].offset+max(h.incrs[to-1].size, 0) == h.incrs[to].offset {
		to++
	}
	return h.incrs[from:to]
}

func (f *folder) historyPath() string      { return f.path(f.name + historySuffix) }
func (f *folder) temporaryHistory() string { return f.path("temp-" + f.name + historySuffix) }

// readHistory reads the index. A missing file is an empty index.
//
// Errors: errHistory; the system's.
func (f *folder) readHistory() (*history, error) {
	text, err := readWhole(f.disk, f.historyPath())
	if errors.Is(err, fs.ErrNotExist) {
		return &history{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseHistory(text)
}

// writeHistory replaces the index on disk by h, and removes the marked files (aof.H3). Files that the manifest names
// stay marked.
func (f *folder) writeHistory(h *history, m *manifest) error {
	write := func() error { return disk.WriteWhole(f.disk, f.historyPath(), f.temporaryHistory(), h.text()) }
	if err := write(); err != nil || len(h.gone) == 0 {
		return err
	}
	kept := h.gone[:0:0]
	for _, name := range h.gone {
		if m.names(name) {
			kept = append(kept, name)
			continue
		}
		if err := f.disk.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			kept = append(kept, name)
		}
	}
	h.gone = kept
	return write()
}

// names reports whether the manifest has a file of that name.
func (m *manifest) names(name string) bool {
	is := func(p part) bool { return p.name == name }
	return m.base != nil && m.base.name == name || slices.ContainsFunc(m.incrs, is) || slices.ContainsFunc(m.history, is)
}
