package aof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
)

// ErrLoad means that a log cannot be loaded. The server's log says why.
var ErrLoad = errors.New("the append-only file cannot be loaded")

// A load is one run that reads a whole log.
type load struct {
	ctx    context.Context
	folder *folder
	mayCut bool // aof-load-truncated: an incomplete end is cut off
	log    *logging.Logger
	to     Target
	before int64 // bytes of the files that were read before
	as     *client.Client
	apart  bool           // the log is one file from before Redis 7, in the server's folder
	passed map[string]int // how often each command of this file was skipped
	moves  moves          // under way; followed only outside cluster mode
}

// A Target is what a load fills, and how.
type Target struct {
	// Replay is engine.Core.Replay. The load calls it in turns.
	Replay func(cl *client.Client, args [][]byte) (passed bool, err error)
	// CanReplay is engine.Core.CanReplay. The load calls it in turns.
	CanReplay func(args [][]byte) error
	// DropSlots is engine.Core.DropKeysIn. The load calls it in turns, for the moves of slots that failed (aof.V1). It is
	// nil in cluster mode: the node itself ends its moves.
	DropSlots func(has func(slot uint16) bool)
	// Turn runs f in a turn. It is nil if the caller holds the turn.
	Turn func(f func())
	// Into and Options say how the RDB file of a base is read.
	Into    func() bgsave.Inserter
	Options func(name string) bgsave.LoadOptions
}

// A Loaded is the result of a load.
type Loaded struct {
	manifest *manifest
	size     int64 // of all files
	baseSize int64
	there    bool   // there was something to load
	cut      int64  // bytes at the end of the last file that are no whole unit, and are cut off
	last     int64  // size of the last file
	ends     []byte // commands that end the moves that the log did not see end
}

// Ended reports whether the server that wrote the log had ended in good order, with all its data in the log. offset is
// that of its stream then.
func (l Loaded) Ended() (offset int64, whole bool) {
	if e := l.manifest.end; e != nil && l.cut == 0 && e.size == l.last {
		return e.offset, true
	}
	return 0, false
}

// Truncated reports whether a damaged end was cut off.
func (l Loaded) Truncated() bool { return l.cut > 0 }

// files reads every file that m names, in order.
//
// Errors: ErrLoad, logged; the context's.
func (l *load) files(m *manifest) (found Loaded, err error) {
	found = Loaded{manifest: m, there: !m.empty()}
	if !found.there {
		return found, nil
	}
	sizes := make([]int64, len(m.parts()))
	for i, p := range m.parts() {
		if sizes[i], err = l.folder.disk.Size(l.path(p)); err != nil {
			l.log.Warning("Unable to obtain the AOF file %s length. stat: %s", p.name, reason.Of(err))
			return Loaded{}, ErrLoad
		}
		found.size += sizes[i]
	}
	if m.base != nil {
		found.baseSize = sizes[0]
	}
	progress := l.to.Options("").Progress
	progress.Begin(found.size)
	defer progress.Active.Store(false)
	began := time.Now()
	for i, p := range m.parts() {
		fileBegan := time.Now()
		cut, err := l.file(p, m.base != nil && i == 0, i == len(sizes)-1)
		if err != nil {
			return Loaded{}, err
		}
		found.size -= cut
		found.cut, found.last = cut, sizes[i]
		kind := "incr"
		if m.base != nil && i == 0 {
			kind = "base"
		}
		l.log.Notice("DB loaded from %s file %s: %.3f seconds", kind, p.name, time.Since(fileBegan).Seconds())
		l.before += sizes[i]
		progress.Read.Store(l.before)
	}
	if len(l.moves) > 0 { // aof.V1
		l.log.Notice("The log ends within moves of slots to its server: their keys are dropped")
		found.ends = l.moves.ends("The log ended during the move")
		l.turn(func() {
			for _, one := range l.moves {
				l.drop(one.slots)
			}
		})
	}
	l.log.Notice("DB loaded from append only file: %.3f seconds", time.Since(began).Seconds())
	return found, nil
}

// drop drops the keys of slots.
func (l *load) drop(slots slotRuns) {
	if len(slots) > 0 {
		l.to.DropSlots(slots.has)
	}
}

// path is where a file lies.
func (l *load) path(p part) string {
	if l.apart {
		return l.folder.oldPath()
	}
	return l.folder.path(p.name)
}

// file reads one file. last means that the file's end may be incomplete. cut is how many bytes were then cut off.
func (l *load) file(p part, base, last bool) (cut int64, err error) {
	file, err := l.folder.disk.Open(l.path(p), os.O_RDONLY, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			l.log.Warning("The append log file %s doesn't exist: %s", p.name, reason.Of(err))
		} else {
			l.log.Warning("Fatal error: can't open the append log file %s for reading: %s", p.name, reason.Of(err))
		}
		return 0, ErrLoad
	}
	defer file.Close()
	l.as, l.passed = engine.NewReplayer(), map[string]int{}
	defer l.logPassed(p)
	head := make([]byte, rdb.MarkLen)
	n, err := io.ReadFull(file, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, l.unreadable(p, err)
	}
	s := newText(file)
	if rdb.Begins(head[:n]) {
		rest, size, err := l.preamble(p, io.MultiReader(readerOf(head), file), p.name == l.folder.name)
		if err != nil {
			return 0, err
		}
		s.buf = append(rest, s.buf...)
		s.to, s.offset = len(rest), size
	} else {
		s.to = copy(s.buf, head[:n])
	}
	err = l.commands(s)
	if errors.Is(err, errTruncated) {
		if damage := l.known(s.torn); damage != nil {
			err = damage
		} else if len(s.torn) > 0 {
			l.log.Warning("Revert incomplete MULTI/EXEC transaction in AOF file %s", p.name)
		}
	}
	switch {
	case err == nil:
		return 0, nil
	case errors.Is(err, errTruncated):
		return l.truncated(p, s, last)
	case errors.Is(err, errFormat):
		l.log.Warning("The append only file has no command at offset %d: spindle check-aof shows what it has, and --fix "+
			"cuts it there.", s.where.at)
		l.log.Warning("Bad file format reading the append only file %s: make a backup of your AOF file, "+
			"then use ./redis-check-aof --fix <filename.manifest>", p.name)
		return 0, ErrLoad
	case errors.Is(err, context.Canceled):
		return 0, err
	}
	if refused := (*engine.ReplayError)(nil); errors.As(err, &refused) {
		switch {
		case refused.Unknown:
			l.log.Warning("Unknown command '%s' reading the append only file %s", refused.Name, p.name)
		case refused.Database > 0:
			l.log.Warning("FATAL: Data file was created with a server configured to handle more databases. Exiting: %s: %s",
				p.name, refused)
			l.log.Warning("What to do: raise 'databases', or 'cluster-databases' of a node of a cluster, and start again.")
		default:
			l.log.Warning("%s: %s", p.name, refused)
		}
		return 0, ErrLoad
	}
	return 0, l.unreadable(p, err)
}

func (l *load) unreadable(p part, err error) error {
	l.log.Warning("Unrecoverable error reading the append only file %s: %s", p.name, reason.Of(err))
	return ErrLoad
}

// preamble reads an RDB file at the beginning of a log. old means that the log is a single file from before Redis 7.
// rest has the bytes that were read past the end of the RDB file, and size is the offset of that end.
func (l *load) preamble(p part, r io.Reader, old bool) (rest []byte, size int64, err error) {
	what := "RDB base file"
	if old {
		what = "RDB preamble of the AOF file"
		l.log.Notice("Reading RDB preamble from AOF file...")
	} else {
		l.log.Notice("Reading RDB base file on AOF loading...")
	}
	o := l.to.Options(p.name)
	o.KeepExpired = true
	counted := &counter{r: r}
	found, err := bgsave.Read(l.ctx, counted, l.to.Into(), o)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil, 0, err
		}
		bgsave.Complain(err, o)
		l.log.Warning("Error reading the %s %s, AOF loading aborted", what, p.name)
		return nil, 0, ErrLoad
	}
	if old {
		l.log.Notice("Reading the remaining AOF tail...")
	}
	return found.Rest, counted.n - int64(len(found.Rest)), nil
}

// A counter counts the bytes read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// readerOf returns a reader of p. The caller must not use p any more.
func readerOf(p []byte) io.Reader { return &bytesReader{p} }

type bytesReader struct{ p []byte }

func (b *bytesReader) Read(p []byte) (int, error) {
	if len(b.p) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.p)
	b.p = b.p[n:]
	return n, nil
}

// commands runs the commands of a text. One turn runs some hundred of them.
func (l *load) commands(s *text) error {
	progress := l.to.Options("").Progress
	for {
		batch, err := s.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		l.turn(func() {
			for _, args := range batch {
				passed, e := l.to.Replay(l.as, args)
				if err = e; err != nil {
					return
				}
				if passed {
					l.passed[nameOf(args)]++
				}
				if l.to.DropSlots != nil {
					l.drop(l.moves.follow(args))
				}
			}
		})
		if err != nil {
			return err
		}
		progress.Read.Store(l.before + s.offset)
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
	}
}

// nameOf is a command's name in capitals.
func nameOf(args [][]byte) string { return strings.ToUpper(string(args[0])) }

// logPassed logs which commands of a file were skipped.
func (l *load) logPassed(p part) {
	if len(l.passed) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(l.passed))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%d)", name, l.passed[name])
	}
	l.log.Notice("Commands in %s that change neither data nor scripts were passed over: %s.",
		p.name, strings.Join(names, ", "))
}

// known refuses a transaction without an end that has an unknown command. The unknown command may be its damaged EXEC.
// The bytes after it are then not a torn tail.
func (l *load) known(torn commands) (err error) {
	l.turn(func() {
		for i := 0; i < len(torn) && err == nil; i++ {
			err = l.to.CanReplay(torn[i])
		}
	})
	return err
}

func (l *load) turn(f func()) {
	if l.to.Turn == nil {
		f()
		return
	}
	l.to.Turn(f)
}

// truncated handles a file whose last unit is incomplete. It returns how much it has cut off.
func (l *load) truncated(p part, s *text, last bool) (cut int64, err error) {
	switch {
	case !last:
		l.log.Warning("Fatal error: the truncated file is not the last file")
		return 0, ErrLoad
	case !l.mayCut:
		l.log.Warning("Unexpected end of file reading the append only file %s. You can: "+
			"1) Make a backup of your AOF file, then use ./redis-check-aof --fix <filename.manifest>. "+
			"2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and restart the server.", p.name)
		return 0, ErrLoad
	}
	l.log.Warning("!!! Warning: short read while loading the AOF file %s!!!", p.name)
	l.log.Warning("!!! Truncating the AOF %s at offset %d !!!", p.name, s.where.offset)
	if err := cutFile(l.folder.disk, l.path(p), s.where.offset, nil); err != nil {
		l.log.Warning("Error truncating the AOF file %s: %s", p.name, reason.Of(err))
		return 0, ErrLoad
	}
	l.log.Warning("AOF %s loaded anyway because aof-load-truncated is enabled", p.name)
	return s.where.at - s.where.offset, nil
}

// cutFile truncates a file to size and appends end, durably. A file with several names keeps its content under the
// others: those of a backup are files of a server's log.
func cutFile(d disk.System, path string, size int64, end []byte) error {
	if shared, err := d.Shared(path); err != nil {
		return err
	} else if shared {
		temp := filepath.Join(filepath.Dir(path), "temp-"+filepath.Base(path))
		_ = d.Remove(temp)
		if err := copyPart(context.Background(), d, path, temp, size, end); err != nil {
			_ = d.Remove(temp)
			return err
		}
		if err := d.Rename(temp, path); err != nil {
			return err
		}
		return d.SyncDir(filepath.Dir(path))
	}
	file, err := d.Open(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		return err
	}
	if len(end) > 0 {
		if _, err := file.Write(end); err != nil {
			return err
		}
	}
	return file.Sync()
}

// complainOfWriting logs which step of writing a manifest has failed, in Redis's lines. Other errors have their own
// lines.
func complainOfWriting(log *logging.Logger, f *folder, err error) {
	failed := (*disk.StepError)(nil)
	if !errors.As(err, &failed) {
		return
	}
	name, temp, why := filepath.Base(f.manifestPath()), filepath.Base(f.temporaryManifest()), reason.Of(err)
	switch failed.Step {
	case disk.StepOpen:
		log.Warning("Can't open the AOF manifest file %s: %s", temp, why)
	case disk.StepWrite:
		log.Warning("Error trying to write the temporary AOF manifest file %s: %s", temp, why)
	case disk.StepSync:
		log.Warning("Fail to fsync the temp AOF file %s: %s.", temp, why)
	case disk.StepRename:
		log.Warning("Error trying to rename the temporary AOF manifest file %s into %s: %s", temp, name, why)
	case disk.StepSyncDir:
		log.Warning("Fail to fsync AOF directory %s: %s.", f.dir, why)
	}
}

// complainOfManifest logs what is wrong with a manifest, in Redis's lines.
func complainOfManifest(log *logging.Logger, path string, err error) {
	damaged := (*ManifestError)(nil)
	if !errors.As(err, &damaged) {
		log.Warning("Fatal error: can't open the AOF manifest file %s for reading: %s", path, reason.Of(err))
		return
	}
	log.Warning("\n*** FATAL AOF MANIFEST FILE ERROR ***\n")
	if damaged.Line > 0 {
		log.Warning("Reading the manifest file, at line %d\n", damaged.Line)
		log.Warning("%s", fmt.Sprintf(">>> '%s'\n", damaged.Text))
	}
	log.Warning("%s\n", damaged.Reason)
}
