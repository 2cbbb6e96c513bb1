package aof

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spindle/internal/disk"
	"spindle/internal/setting"
)

// A manifest is the list of the files that make up the data set, in the order in which they are loaded.
//
//	file appendonly.aof.2.base.rdb seq 2 type b      the data set at the beginning of the last rewrite
//	file appendonly.aof.1.incr.aof seq 1 type h      replaced by a rewrite, and not removed yet
//	file appendonly.aof.2.incr.aof seq 2 type i      every change since, in one file or several
//
// aof.M1. There is at most one base. Increments stand in ascending order of their numbers.
// aof.M2. The file on disk is always a whole manifest: it is replaced by a rename, and the folder is synced.
// aof.M3. A server that writes to a log's files holds the log's lock, a file next to them. Two servers that write to
// one log would damage it.
// Source: the manifest's description in redis.conf of Redis 7.
type manifest struct {
	base    *part
	history []part
	incrs   []part
	end     *ending // nil: the log is in use, or may have lost its end
	baseSeq int64   // the last number that a base has had
	incrSeq int64
}

// An ending notes that a server has ended in good order: all its data were in the log. It is a comment for Redis.
type ending struct {
	offset int64 // of the server's stream for replicas
	size   int64 // of the last file
}

// endMark begins the line of an ending: #end OFFSET SIZE.
const endMark = "#end "

func parseEnding(line string) *ending {
	var e ending
	if n, err := fmt.Sscanf(line, endMark+"%d %d", &e.offset, &e.size); n != 2 || err != nil {
		return nil
	}
	return &e
}

// A part is one file of the log.
type part struct {
	name string
	seq  int64
}

// The types of files in a manifest.
const (
	typeBase    = 'b'
	typeHistory = 'h'
	typeIncr    = 'i'
)

// longestLine is the greatest length of a line in bytes, with its line end.
const longestLine = 1024

// A ManifestError describes a manifest that is not valid.
type ManifestError struct {
	Line   int    // from 1; 0: the file as a whole
	Text   string // the line
	Reason string
}

func (e *ManifestError) Error() string { return e.Reason }

var (
	errManifestFormat = "Invalid AOF manifest file format"
	errManifestLong   = "The AOF manifest file contains too long line"
	errManifestPath   = "File can't be a path, just a filename"
	errManifestTwo    = "Found duplicate base file information"
	errManifestOrder  = "Found a non-monotonic sequence number"
	errManifestType   = "Unknown AOF file type"
	errManifestEmpty  = "Found an empty AOF manifest"
)

// parseManifest reads a manifest's text.
//
// Errors: a *ManifestError with the number of the line.
func parseManifest(text []byte) (*manifest, error) {
	m, last, number := &manifest{}, int64(0), 0
	for len(text) > 0 {
		number++
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if len(line)+1 > longestLine || !ended && len(line) == longestLine {
			return nil, &ManifestError{number, string(line[:min(len(line), longestLine)]), errManifestLong}
		}
		text = rest
		if len(line) > 0 && line[0] == '#' {
			if strings.HasPrefix(string(line), endMark) {
				m.end = parseEnding(string(line))
			}
			continue
		}
		if !ended || bytes.IndexByte(line, 0) >= 0 { // a manifest that has lost its end, or has zeros
			return nil, &ManifestError{number, string(line), errManifestLong}
		}
		if reason := m.add(strings.Trim(string(line), " \t\r\n"), &last); reason != "" {
			return nil, &ManifestError{number, strings.Trim(string(line), " \t\r\n"), reason}
		}
	}
	if number == 0 {
		return nil, &ManifestError{Reason: errManifestEmpty}
	}
	return m, nil
}

// add reads one line into m. last is the number of the last increment. It returns why the line is not valid, or "".
func (m *manifest) add(line string, last *int64) (reason string) {
	words, err := setting.SplitArgs(line)
	if err != nil || len(words) < 6 || len(words)%2 != 0 {
		return errManifestFormat
	}
	var p part
	kind := byte(0)
	for i := 0; i < len(words); i += 2 {
		value := words[i+1]
		switch strings.ToLower(words[i]) {
		case "file":
			if p.name = value; strings.ContainsAny(value, `/\`) {
				return errManifestPath
			}
		case "seq":
			p.seq = leadingNumber(value)
		case "type":
			if value != "" {
				kind = value[0]
			}
		}
	}
	if p.name == "" || p.seq == 0 || kind == 0 {
		return errManifestFormat
	}
	switch kind {
	case typeBase:
		if m.base != nil {
			return errManifestTwo
		}
		m.base, m.baseSeq = &p, p.seq
	case typeHistory:
		m.history = append(m.history, p)
	case typeIncr:
		if p.seq <= *last {
			return errManifestOrder
		}
		*last, m.incrSeq = p.seq, p.seq
		m.incrs = append(m.incrs, p)
	default:
		return errManifestType
	}
	return ""
}

// leadingNumber reads a number as C's atoll does: it ignores what follows the number, and returns 0 if there is none.
func leadingNumber(s string) (n int64) {
	end := 0
	if end < len(s) && (s[end] == '-' || s[end] == '+') {
		end++
	}
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// text returns the manifest in the form of its file.
func (m *manifest) text() []byte {
	var b bytes.Buffer
	line := func(p part, kind byte) {
		name := p.name
		if needsQuotes(name) {
			name = setting.Quote(name)
		}
		fmt.Fprintf(&b, "file %s seq %d type %c\n", name, p.seq, kind)
	}
	if m.base != nil {
		line(*m.base, typeBase)
	}
	for _, p := range m.history {
		line(p, typeHistory)
	}
	for _, p := range m.incrs {
		line(p, typeIncr)
	}
	if m.end != nil {
		fmt.Fprintf(&b, endMark+"%d %d\n", m.end.offset, m.end.size)
	}
	return b.Bytes()
}

// needsQuotes reports whether a name without quotes would not be read back as one word.
func needsQuotes(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' || c == '#' {
			return true
		}
	}
	return name == ""
}

// clone returns a copy that may be changed while m stays as it is.
func (m *manifest) clone() *manifest {
	c := *m
	if m.base != nil {
		base := *m.base
		c.base = &base
	}
	c.history, c.incrs = slices.Clone(m.history), slices.Clone(m.incrs)
	return &c
}

// parts returns the files that are loaded, in order.
func (m *manifest) parts() []part {
	if m.base == nil {
		return m.incrs
	}
	return append([]part{*m.base}, m.incrs...)
}

// empty reports whether there is nothing to load.
func (m *manifest) empty() bool { return m.base == nil && len(m.incrs) == 0 }

// replaceBase makes base replace everything but the last keep increments. The replaced files become history.
func (m *manifest) replaceBase(base part, keep int) {
	if m.base != nil {
		m.history = append(m.history, *m.base)
	}
	m.base = &base
	cut := len(m.incrs) - keep
	m.history = append(m.history, m.incrs[:cut]...)
	m.incrs = slices.Clone(m.incrs[cut:])
}

// nextIncr returns the increment that follows all increments of m. Its name is not in m: a name there may have another
// number, and the files of m's history will be removed, whatever they hold. Its name is not in taken either, because
// those files must stay. taken may be nil.
func (f *folder) nextIncr(m *manifest, taken *history) part {
	next := part{f.incrName(m.incrSeq + 1), m.incrSeq + 1}
	for taken.took(next.name) || m.names(next.name) {
		next.seq++
		next.name = f.incrName(next.seq)
	}
	return next
}

// nextBase returns the number of the base that follows all bases of m. As with nextIncr, its name is neither in m nor
// in taken, in either format.
func (f *folder) nextBase(m *manifest, taken *history) int64 {
	for seq := m.baseSeq + 1; ; seq++ {
		free := true
		for _, rdb := range []bool{true, false} {
			name := f.baseName(seq, rdb)
			free = free && !taken.took(name) && !m.names(name)
		}
		if free {
			return seq
		}
	}
}

// A folder is the place and the names of a log's files. It never changes: a log that moves gets a new folder.
type folder struct {
	disk disk.System
	root string // the server's folder, which has the log of Redis 6 and before
	dir  string
	name string // appendfilename

	mu      sync.Mutex
	release func() // unlocks the log (aof.M3); nil: it is not locked
}

// The suffixes of two file names, after appendfilename.
const (
	manifestSuffix = ".manifest"
	lockSuffix     = ".lock"
)

// claim locks the log for this process (aof.M3). Any goroutine; it does not wait.
//
// Errors: disk.ErrLocked, if another server has the lock; the system's.
func (f *folder) claim() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.release != nil {
		return nil
	}
	if err = f.disk.Mkdir(f.dir, 0o755); err == nil {
		f.release, err = f.disk.Lock(f.lockPath())
	}
	return err
}

// unclaim unlocks the log for other servers. Any goroutine.
func (f *folder) unclaim() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.release != nil {
		f.release()
		f.release = nil
	}
}

// lies reports whether the folder has this root, directory and name.
func (f *folder) lies(root, dir, name string) bool {
	return f.root == root && f.dir == dir && f.name == name
}

func (f *folder) path(name string) string    { return filepath.Join(f.dir, name) }
func (f *folder) manifestPath() string       { return f.path(f.name + manifestSuffix) }
func (f *folder) temporaryManifest() string  { return f.path("temp-" + f.name + manifestSuffix) }
func (f *folder) lockPath() string           { return f.path(f.name + lockSuffix) }
func (f *folder) incrName(seq int64) string  { return fmt.Sprintf("%s.%d.incr.aof", f.name, seq) }
func (f *folder) temporaryIncr() string      { return "temp-" + f.name + ".incr" }
func (f *folder) oldPath() string            { return filepath.Join(f.root, f.name) }
func (f *folder) rewriteTemporary() string   { return filepath.Join(f.root, rewriteName()) }
func (f *folder) exists(path string) bool    { return disk.Exists(f.disk, path) }
func (f *folder) size(p part) (int64, error) { return f.disk.Size(f.path(p.name)) }

// baseName returns the name of a base in one of its two formats.
func (f *folder) baseName(seq int64, rdb bool) string {
	form := "aof"
	if rdb {
		form = "rdb"
	}
	return fmt.Sprintf("%s.%d.base.%s", f.name, seq, form)
}

// rewriteName returns the name of the temporary file of this process's rewrite.
func rewriteName() string { return fmt.Sprintf("temp-rewriteaof-bg-%d.aof", os.Getpid()) }

// read reads the manifest. A missing file is an empty manifest.
//
// Errors: a *ManifestError, or the system's.
func (f *folder) read() (*manifest, error) {
	text, err := readWhole(f.disk, f.manifestPath())
	if errors.Is(err, fs.ErrNotExist) {
		return &manifest{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseManifest(text)
}

// write replaces the manifest on disk by m (aof.M2).
func (f *folder) write(m *manifest) error {
	return disk.WriteWhole(f.disk, f.manifestPath(), f.temporaryManifest(), m.text())
}

// apart reports whether the log is a single file from before Redis 7, which still lies in the server's folder.
func (f *folder) apart(m *manifest) bool {
	if !f.exists(f.oldPath()) {
		return false
	}
	halfWay := m.base != nil && len(m.incrs) == 0 && m.base.name == f.name && !f.exists(f.path(f.name))
	return m.empty() || halfWay
}

// upgrade moves a log that lies apart into the log's folder, as the base that m names. The manifest is written first:
// after a crash between the two steps, apart finds the file again.
func (f *folder) upgrade(m *manifest) error {
	if err := f.disk.Mkdir(f.dir, 0o755); err != nil {
		return err
	}
	if err := f.write(m); err != nil {
		return err
	}
	if err := f.disk.Rename(f.oldPath(), f.path(f.name)); err != nil {
		return err
	}
	if err := f.disk.SyncDir(f.dir); err != nil {
		return err
	}
	return f.disk.SyncDir(f.root)
}

// readWhole reads a small file.
func readWhole(d disk.System, path string) ([]byte, error) {
	file, err := d.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(file)
	return b.Bytes(), err
}
