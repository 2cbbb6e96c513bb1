package aof

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/rdb"
	"spindle/internal/disk"
)

// A Past is a log whose files are read to restore the data set of an earlier moment. A server may write to the log
// meanwhile.
//
// Owner: its caller, one goroutine. It changes no file of the log.
type Past struct {
	folder   *folder
	manifest *manifest
	history  *history
	warnings []string
}

// A Moment is a point in a log's past: a second or an offset.
type Moment struct {
	Second   int64 // Unix time; the moment includes all effects of that second
	Offset   int64 // offset of the history; the moment includes all whole units before it
	ByOffset bool
}

// String returns the moment in readable form.
func (m Moment) String() string {
	if m.ByOffset {
		return fmt.Sprintf("offset %d", m.Offset)
	}
	return time.Unix(m.Second, 0).Format(time.DateTime)
}

// A PastFile is one file of the past.
type PastFile struct {
	Name   string
	Base   bool
	Size   int64 // bytes on disk now; -1: missing
	Offset int64
	At     time.Time // the moment of a base; the time of an increment's first byte
	Live   bool      // it still grows
	Gap    bool      // effects between the file before it and this one are unknown
}

// OpenPast opens the past of a log. path is the manifest, the folder of the log, or the server's folder.
//
// Errors: the system's; *ManifestError; errHistory.
func OpenPast(d disk.System, path string) (*Past, error) {
	manifestPath, err := findManifest(d, path)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(manifestPath)
	p := &Past{folder: &folder{disk: d, dir: filepath.Clean(dir), name: strings.TrimSuffix(name, manifestSuffix)}}
	p.folder.root = filepath.Dir(p.folder.dir)
	// A server replaces each file by a rename. If it did so between the two reads, both are read again.
	for range 3 {
		if p.manifest, err = p.folder.read(); err != nil {
			return nil, err
		}
		if p.history, err = p.folder.readHistory(); err != nil {
			return nil, err
		}
		again, err := p.folder.read()
		if err == nil && string(again.text()) == string(p.manifest.text()) {
			break
		}
	}
	p.addPresent()
	return p, nil
}

// findManifest returns the path of the only manifest at or below path.
func findManifest(d disk.System, path string) (string, error) {
	if strings.HasSuffix(path, manifestSuffix) {
		return path, nil
	}
	var found []string
	for _, dir := range []string{path, filepath.Join(path, "appendonlydir")} {
		names, err := d.ReadDir(dir)
		if err != nil && dir == path {
			return "", err
		}
		for _, name := range names {
			if strings.HasSuffix(name, manifestSuffix) && !strings.HasPrefix(name, "temp-") {
				found = append(found, filepath.Join(dir, name))
			}
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s has no append-only file: there is no %s", path, "*"+manifestSuffix)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%s has several append-only files; name one: %s", path, strings.Join(found, ", "))
}

// addPresent adds the files of the manifest that the index lacks. It lacks them if no history is kept, or if another
// server wrote the log.
func (p *Past) addPresent() {
	m, h := p.manifest, p.history
	if m.base == nil || len(m.incrs) == 0 || h.has(m.base.name) {
		return
	}
	at := int64(0)
	base := filepath.Join(p.folder.dir, m.base.name)
	if info, err := os.Stat(base); err == nil && p.folder.disk == disk.OS {
		at = info.ModTime().UnixMilli()
	}
	size, _ := p.folder.size(*m.base)
	for i, part := range m.incrs {
		length := int64(liveSize)
		if i < len(m.incrs)-1 {
			length, _ = p.folder.size(part)
		}
		if i == 0 {
			h.begin(pastBase{name: m.base.name, size: size, atMs: at}, part.name, length)
		} else {
			h.next(part.name, at)
			h.incrs[len(h.incrs)-1].size = length
		}
	}
}

// Files returns all files of the past, by offset. A base comes before the increment at its offset.
func (p *Past) Files() (all []PastFile) {
	size := func(name string) int64 {
		n, err := p.folder.disk.Size(p.folder.path(name))
		if err != nil {
			return -1
		}
		return n
	}
	for _, b := range p.history.bases {
		all = append(all, PastFile{Name: b.name, Base: true, Size: size(b.name), Offset: b.offset,
			At: time.UnixMilli(b.atMs)})
	}
	gaps := map[int64]bool{}
	for i, in := range p.history.incrs {
		if i > 0 {
			before := p.history.incrs[i-1]
			gaps[in.offset] = before.offset+max(before.size, 0) != in.offset
		}
		all = append(all, PastFile{Name: in.name, Size: size(in.name), Offset: in.offset, At: time.UnixMilli(in.fromMs),
			Live: in.size == liveSize})
	}
	slices.SortStableFunc(all, func(a, b PastFile) int {
		switch {
		case a.Offset != b.Offset:
			return int(max(-1, min(1, a.Offset-b.Offset)))
		case a.Base != b.Base && a.Base:
			return -1
		case a.Base != b.Base:
			return 1
		}
		return 0
	})
	for i := range all {
		all[i].Gap, gaps[all[i].Offset] = gaps[all[i].Offset], false
	}
	return all
}

// A Route is how the data set of a moment is restored: a base and increments, of which the last one is cut.
type Route struct {
	Moment Moment
	Base   string
	Incrs  []string
	Cut    int64     // bytes of the last increment
	Offset int64     // of the history, at the cut
	Last   time.Time // the second of the last effect, from the log's annotations; zero: unknown
	Skips  []string  // why later bases cannot be used
	moves  moves     // under way at the cut
}

// A NoRouteError says why the data set of a moment cannot be restored, and which moments can.
type NoRouteError struct {
	Moment Moment
	Why    []string
	Still  string // what would work; "": nothing
}

func (e *NoRouteError) Error() string {
	text := fmt.Sprintf("%s cannot be had back: %s.", e.Moment, strings.Join(e.Why, "; "))
	if e.Still != "" {
		text += " " + e.Still
	}
	return text
}

// Route finds the files for a moment. It reads the base that it chooses, and the increments after it, to their ends.
//
// Errors: *NoRouteError; the system's.
func (p *Past) Route(ctx context.Context, m Moment) (*Route, error) {
	failed := &NoRouteError{Moment: m}
	bases := slices.Clone(p.history.bases)
	slices.Reverse(bases)
	tried := false
	for _, b := range bases {
		later := b.atMs/1000 > m.Second
		if m.ByOffset {
			later = b.offset > m.Offset
		}
		if later {
			continue
		}
		tried = true
		r, why, err := p.from(ctx, b, m)
		switch {
		case err != nil:
			return nil, err
		case why == "":
			r.Skips = failed.Why
			return r, nil
		}
		failed.Why = append(failed.Why, why)
	}
	switch {
	case len(bases) == 0:
		failed.Why = []string{"the log has no base"}
	case !tried:
		first := bases[len(bases)-1]
		failed.Why = []string{"the log begins later"}
		failed.Still = fmt.Sprintf("The first moment is %s, offset %d.", Moment{Second: first.atMs / 1000}, first.offset)
	default:
		failed.Still = p.stillServes(ctx, m)
	}
	return nil, failed
}

// from tries to reach the moment from one base. why says why that is not possible.
func (p *Past) from(ctx context.Context, b pastBase, m Moment) (r *Route, why string, err error) {
	if why := p.checkBase(ctx, b); why != "" {
		return nil, why, ctx.Err()
	}
	r = &Route{Moment: m, Base: b.name}
	incrs := p.history.stretch(b.offset)
	if len(incrs) == 0 {
		return nil, "the index has no increment after " + b.name, nil
	}
	for i, in := range incrs {
		limit := int64(math.MaxInt64)
		if in.size != liveSize {
			limit = in.size
		}
		size, err := p.folder.disk.Size(p.folder.path(in.name))
		switch {
		case err != nil:
			return nil, in.name + " is missing", nil
		case in.size != liveSize && size < in.size:
			return nil, fmt.Sprintf("%s has %d bytes of %d", in.name, size, in.size), nil
		}
		r.Incrs = append(r.Incrs, in.name)
		within := m.ByOffset && m.Offset-in.offset <= min(limit, size)
		if within {
			limit = m.Offset - in.offset
		}
		cut, last, reached, err := p.scan(ctx, in.name, limit, m, &r.moves)
		if damaged := (*damagedError)(nil); errors.As(err, &damaged) {
			return nil, damaged.Error(), nil
		}
		if err != nil {
			return nil, "", err
		}
		if r.Cut, r.Offset = cut, in.offset+cut; last > 0 {
			r.Last = time.Unix(last, 0)
		}
		final := i == len(incrs)-1
		if reached || within {
			return r, "", nil
		}
		if !final && cut < in.size {
			return nil, fmt.Sprintf("%s ends at %d of %d bytes", in.name, cut, in.size), nil
		}
	}
	last := incrs[len(incrs)-1]
	if m.ByOffset {
		return nil, fmt.Sprintf("the log ends at offset %d there", r.Offset), nil
	}
	if next := p.after(last); next != nil && (r.Last.IsZero() || m.Second > r.Last.Unix()) {
		return nil, fmt.Sprintf("nothing is known between %s and %s: the log was off, or could not be written",
			r.Last.Format(time.DateTime), time.UnixMilli(next.fromMs).Format(time.DateTime)), nil
	}
	return r, "", nil
}

// after returns the increment that begins the next stretch, after the stretch that ends with last. It returns nil if
// there is none.
func (p *Past) after(last pastIncr) *pastIncr {
	i := slices.Index(p.history.incrs, last)
	if i+1 < len(p.history.incrs) {
		return &p.history.incrs[i+1]
	}
	return nil
}

// checkBase reads a whole base. It returns what is wrong with the base, or "".
func (p *Past) checkBase(ctx context.Context, b pastBase) (why string) {
	f, err := p.folder.disk.Open(p.folder.path(b.name), os.O_RDONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b.name + " is missing"
	case err != nil:
		return err.Error()
	}
	defer f.Close()
	head := make([]byte, rdb.MarkLen)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return b.name + ": " + err.Error()
	}
	whole := io.MultiReader(readerOf(head[:n]), f)
	if !rdb.Begins(head[:n]) {
		s := newText(whole)
		for s.strict = true; err == nil || err == io.ErrUnexpectedEOF; _, err = s.next() {
			if ctx.Err() != nil {
				return "stopped"
			}
		}
		if err != io.EOF {
			return fmt.Sprintf("%s is damaged at %d: %v", b.name, s.where.at, err)
		}
		return ""
	}
	_, err = bgsave.Read(ctx, whole, sink{}, bgsave.LoadOptions{KeepExpired: true, Name: b.name, Relaxed: true})
	if err != nil {
		return fmt.Sprintf("%s is damaged: %v", b.name, err)
	}
	return ""
}

// A damagedError names an increment that cannot be read up to the moment.
type damagedError struct {
	name string
	at   int64
	err  error
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%s is damaged at %d: %v", e.name, e.at, e.err)
}

// scan reads an increment, up to limit bytes or up to the moment. cut is the offset where it stops, after a whole unit.
// last is the second of the last annotation before the cut, or 0. reached means that the bytes after the cut are later
// than the moment. under are the moves under way. In the end they are those that the cut ends.
func (p *Past) scan(ctx context.Context, name string, limit int64, m Moment, under *moves) (cut, last int64,
	reached bool, err error) {
	f, err := p.folder.disk.Open(p.folder.path(name), os.O_RDONLY, 0)
	if err != nil {
		return 0, 0, false, err
	}
	defer f.Close()
	s := newText(io.LimitReader(f, limit))
	s.strict = true
	if !m.ByOffset {
		s.until = m.Second
	}
	for {
		var batch commands
		batch, err = s.next()
		for _, args := range batch {
			under.follow(args)
		}
		last = max(last, s.second)
		switch {
		case ctx.Err() != nil:
			return 0, 0, false, context.Cause(ctx)
		case err == nil:
			continue
		case err == io.EOF, err == errLater, errors.Is(err, errTruncated):
			// A live file's last unit may be incomplete, and an offset may lie in a unit.
			if cut = s.where.offset; err == io.EOF {
				cut = s.offset
			}
			s.r, s.ended, s.until = f, false, 0
			under.readOn(ctx, s)
			return cut, last, err == errLater, nil
		case errors.Is(err, errFormat), errors.As(err, new(unexpected)):
			return 0, 0, false, &damagedError{name, s.where.at, err}
		}
		return 0, 0, false, err
	}
}

// stillServes describes the moments that can be restored although m cannot.
func (p *Past) stillServes(ctx context.Context, m Moment) string {
	var good []string
	for _, b := range p.history.bases {
		if p.checkBase(ctx, b) == "" {
			good = append(good, fmt.Sprintf("%s (offset %d)", Moment{Second: b.atMs / 1000}, b.offset))
		}
	}
	if len(good) == 0 {
		return ""
	}
	return "The moments of these bases can still be had: " + strings.Join(good, ", ") + "."
}

// Write makes a folder on which a server can start with the data set of the route's moment. into must not exist, or
// must be empty. Whole files are linked where the file system allows, otherwise copied.
//
// Errors: the system's. Write then removes what it has made.
func (p *Past) Write(ctx context.Context, r *Route, into string) (err error) {
	d := p.folder.disk
	if names, err := d.ReadDir(into); err == nil && len(names) > 0 {
		return fmt.Errorf("%s is not empty", into)
	}
	dir := filepath.Join(into, filepath.Base(p.folder.dir))
	made := []string{}
	defer func() {
		if err != nil {
			for _, path := range slices.Backward(made) {
				_ = d.Remove(path)
			}
		}
	}()
	for _, path := range []string{into, dir} {
		if _, err := d.ReadDir(path); err != nil {
			if err := d.Mkdir(path, 0o755); err != nil {
				return err
			}
			made = append(made, path)
		}
	}
	to := &folder{disk: d, root: into, dir: dir, name: p.folder.name}
	m := &manifest{}
	for i, name := range append([]string{r.Base}, r.Incrs...) {
		file := part{to.baseName(1, strings.HasSuffix(name, ".rdb")), 1}
		if i > 0 { // the name must have the number: a server names its next file by the number
			file = part{to.incrName(int64(i)), int64(i)}
		}
		made = append(made, to.path(file.name))
		limit, end := int64(math.MaxInt64), []byte(nil)
		if i == len(r.Incrs) {
			limit, end = r.Cut, r.moves.ends("Restored to a moment of the move")
		}
		if err := p.copyTo(ctx, name, to.path(file.name), limit, end); err != nil {
			return err
		}
		if i == 0 {
			m.base = &file
		} else {
			m.incrs = append(m.incrs, file)
		}
	}
	if err := d.SyncDir(dir); err != nil {
		return err
	}
	made = append(made, to.manifestPath())
	if err := to.write(m); err != nil {
		return err
	}
	return d.SyncDir(into)
}

// copyTo copies a file, or its beginning, and appends end. A whole file is linked if that is possible.
func (p *Past) copyTo(ctx context.Context, name, to string, limit int64, end []byte) error {
	d, from := p.folder.disk, p.folder.path(name)
	if limit == math.MaxInt64 && d.Link(from, to) == nil {
		return nil
	}
	return copyPart(ctx, d, from, to, limit, end)
}

// copyPart copies the first limit bytes of a file into a new file, appends end, and syncs it.
func copyPart(ctx context.Context, d disk.System, from, to string, limit int64, end []byte) error {
	in, err := d.Open(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := d.Open(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(struct{ io.Writer }{out}, io.LimitReader(contextReader{ctx, in}, limit))
	if err == nil && limit != math.MaxInt64 && n < limit {
		err = fmt.Errorf("%s has become shorter", from)
	}
	if err == nil && len(end) > 0 {
		_, err = out.Write(end)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// A contextReader stops when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// LastCommands returns the last commands before a route's cut, at most n. Each argument is cut to 64 bytes.
func (p *Past) LastCommands(ctx context.Context, r *Route, n int) (lines []string, err error) {
	f, err := p.folder.disk.Open(p.folder.path(r.Incrs[len(r.Incrs)-1]), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := newText(io.LimitReader(f, r.Cut))
	for {
		batch, err := s.next()
		if err == io.EOF {
			return lines, nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return lines, err
		}
		for _, args := range batch[max(0, len(batch)-n):] {
			lines = append(lines, shown(args))
		}
		lines = lines[max(0, len(lines)-n):]
	}
}

// shown returns a command in readable form.
func shown(args [][]byte) string {
	var words []string
	for i, arg := range args {
		if i == 8 {
			words = append(words, fmt.Sprintf("… (%d more arguments)", len(args)-i))
			break
		}
		text := fmt.Sprintf("%q", arg[:min(len(arg), 64)])
		if len(arg) > 64 {
			text += fmt.Sprintf("… (%d bytes)", len(arg))
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// Folder returns the folder of the log's files.
func (p *Past) Folder() string { return p.folder.dir }

// Name returns the log's name, with which its files' names begin.
func (p *Past) Name() string { return p.folder.name }
