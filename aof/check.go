package aof

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/internal/disk"
)

// A Check examines the files of a log, and can repair the last one.
//
// Owner: the check's own process; no server uses the files meanwhile.
type Check struct {
	Disk     disk.System
	Fix      bool
	Until    int64 // Unix seconds: later effects are cut off; 0: none
	Yes      bool  // do not ask before a change
	In       io.Reader
	Out      io.Writer
	Progress func(done, total int64) // for a long file; nil: not wanted

	last  bool // the file is the last of its log
	moves moves
}

// errInvalid ends a check that has printed what is wrong.
var errInvalid = errors.New("not valid")

const checkUsage = "Usage: spindle check-aof [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>\n"

// CheckMain is the program check-aof, also called redis-check-aof. args are the arguments after the program's name. It
// returns the exit code.
func CheckMain(args []string, in io.Reader, out io.Writer, tell func(done, total int64)) (code int) {
	c := &Check{Disk: disk.OS, In: in, Out: out, Progress: tell}
	path := ""
	switch {
	case len(args) == 1:
		path = args[0]
	case len(args) == 2 && args[0] == "--fix":
		c.Fix, path = true, args[1]
	case len(args) == 3 && args[0] == "--truncate-to-timestamp":
		n, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || n <= 0 {
			c.say("Invalid timestamp, aborting...\n")
			return 1
		}
		c.Until, path = n, args[2]
	default:
		c.say(checkUsage)
		return 1
	}
	if c.Run(path) != nil {
		return 1
	}
	return 0
}

// Fix cuts an incomplete end off the last file of a log.
//
// Errors: damage that a cut cannot repair.
// Proof: only TestPowerCuts and TestPowerCutsInHistory call it, to repair logs as an operator would.
func Fix(d disk.System, manifest string) error {
	return (&Check{Disk: d, Fix: true, Yes: true, Out: io.Discard}).Run(manifest)
}

func (c *Check) say(format string, args ...any) { fmt.Fprintf(c.Out, format, args...) }

// Run checks the log at path, which is a manifest or a single file.
//
// Errors: the damage that it has found and printed.
func (c *Check) Run(path string) error {
	head, err := c.head(path)
	if err != nil {
		c.say("Cannot open file %s: %s, aborting...\n", path, err)
		return errInvalid
	}
	c.last = true
	release, err := c.claim(path, head)
	if err != nil {
		c.say("%s is the log of a server that runs, aborting...\n", filepath.Base(path))
		return errInvalid
	}
	defer release()
	switch {
	case isManifest(head):
		c.say("Start checking Multi Part AOF\n")
		return c.parts(path)
	}
	c.say("Start checking Old-Style AOF\n")
	return c.file(path, onlyFile)
}

// claim locks a log for this process, if the check may cut it. A server that appends to the log would write after the
// cut. A single file has no lock, nor have logs of Redis. A log that cannot be locked is checked all the same.
//
// Errors: disk.ErrLocked.
func (c *Check) claim(path string, head []byte) (release func(), err error) {
	name, named := strings.CutSuffix(path, manifestSuffix)
	cuts := c.Fix || c.Until > 0
	if !cuts || !named || !isManifest(head) || !disk.Exists(c.Disk, name+lockSuffix) {
		return func() {}, nil
	}
	release, err = c.Disk.Lock(name + lockSuffix)
	if err != nil && !errors.Is(err, disk.ErrLocked) {
		release, err = func() {}, nil
	}
	return release, err
}

// head returns the beginning of a file.
func (c *Check) head(path string) ([]byte, error) {
	f, err := c.Disk.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return head[:n], err
}

// isManifest reports whether head is the beginning of a manifest. The file of a log begins with *, with # and digits,
// or with REDIS.
func isManifest(head []byte) bool {
	for line := range bytes.Lines(head) {
		line = bytes.TrimLeft(line, " \t")
		switch {
		case bytes.HasPrefix(line, []byte("#TS:")):
			return false
		case len(line) > 0 && line[0] == '#':
			continue
		}
		return bytes.HasPrefix(bytes.ToLower(line), []byte("file"))
	}
	return false
}

// parts checks every file of a manifest.
func (c *Check) parts(path string) error {
	text, err := readWhole(c.Disk, path)
	if err != nil {
		c.say("Cannot open file %s: %s, aborting...\n", path, err)
		return errInvalid
	}
	m, err := parseManifest(text)
	if err != nil {
		damaged := &ManifestError{}
		errors.As(err, &damaged)
		c.say("\n*** FATAL AOF MANIFEST FILE ERROR ***\n")
		if damaged.Line > 0 {
			c.say("Reading the manifest file, at line %d\n>>> '%s'\n", damaged.Line, damaged.Text)
		}
		c.say("%s\n", damaged.Reason)
		return errInvalid
	}
	dir := filepath.Dir(path)
	if m.base != nil {
		base := filepath.Join(dir, m.base.name)
		head, err := c.head(base)
		if err != nil {
			c.say("Cannot open file %s: %s, aborting...\n", base, err)
			return errInvalid
		}
		form := "RESP"
		if rdb.Begins(head) {
			form = "RDB"
		}
		c.say("Start to check BASE AOF (%s format).\n", form)
		c.last = len(m.incrs) == 0
		if err := c.file(base, "BASE AOF"); err != nil {
			return err
		}
	}
	if len(m.incrs) > 0 {
		c.say("Start to check INCR files.\n")
	}
	for i, p := range m.incrs {
		c.last = i == len(m.incrs)-1
		if err := c.file(filepath.Join(dir, p.name), "INCR AOF"); err != nil {
			return err
		}
	}
	c.say("All AOF files and manifest are valid\n")
	return nil
}

// file checks one file. kind is the file's name in messages.
func (c *Check) file(path, kind string) error {
	name := path
	if kind != onlyFile {
		name = filepath.Base(path)
	}
	size, err := c.Disk.Size(path)
	if err != nil {
		c.say("Cannot stat file %s: %s, aborting...\n", name, err)
		return errInvalid
	}
	if size == 0 {
		c.say("%s %s is empty\n", kind, name)
		return nil
	}
	f, err := c.Disk.Open(path, os.O_RDONLY, 0)
	if err != nil {
		c.say("Cannot open file %s: %s, aborting...\n", name, err)
		return errInvalid
	}
	defer f.Close()
	s, err := c.text(f, name)
	if err != nil {
		return err
	}
	good, err := c.commands(s, size)
	if c.Until > 0 && err == nil {
		return c.cutLater(path, name, kind, good, size)
	}
	analyzed := func(good, line int64) {
		c.say("AOF analyzed: filename=%s, size=%d, ok_up_to=%d, ok_up_to_line=%d, diff=%d\n",
			name, size, good, line, size-good)
	}
	stray := unexpected("")
	switch {
	case err == nil:
		analyzed(size, s.lines+1)
		c.say("%s %s is valid\n", kind, name)
		return nil
	case errors.As(err, &stray):
		c.say("0x%16x: %s in AOF %s\n", s.where.at, err, path)
	case errors.Is(err, errFormat), errors.Is(err, errTruncated):
		c.say("0x%16x: %s\n", s.where.at, err)
	default:
		c.say("%s %s cannot be read: %s\n", kind, name, err)
		return errInvalid
	}
	analyzed(s.where.offset, s.where.line)
	return c.mend(path, name, kind, s.where.offset, size)
}

// onlyFile is the kind of a file without a manifest.
const onlyFile = "AOF"

// text returns a reader of the file's commands, which begin after an RDB file if the file starts with one.
func (c *Check) text(f io.Reader, name string) (*text, error) {
	head := make([]byte, rdb.MarkLen)
	n, _ := io.ReadFull(f, head)
	s := newText(f)
	if !rdb.Begins(head[:n]) {
		s.to = copy(s.buf, head[:n])
		return s, nil
	}
	c.say("The AOF appears to start with an RDB preamble.\nChecking the RDB preamble to start:\n")
	counted := &counter{r: io.MultiReader(bytes.NewReader(head), f)}
	found, err := bgsave.Read(context.Background(), counted, sink{}, bgsave.LoadOptions{KeepExpired: true, Name: name,
		Relaxed: true})
	if err != nil {
		c.say("RDB preamble of AOF file is not sane, aborting.\n%s\n", err)
		return nil, errInvalid
	}
	c.say("RDB preamble is OK, proceeding with AOF tail...\n")
	s.buf = append(found.Rest, s.buf...)
	s.to, s.offset = len(found.Rest), counted.n-int64(len(found.Rest))
	return s, nil
}

// commands reads s to its end. good is the offset of the first annotation whose second is past Until; without one, it
// is the end of the file.
func (c *Check) commands(s *text, size int64) (good int64, err error) {
	s.until, s.strict = c.Until, true
	for {
		batch, err := s.next()
		for _, args := range batch {
			c.moves.follow(args)
		}
		if c.Progress != nil {
			c.Progress(s.offset, size)
		}
		switch {
		case err == errLater:
			good, s.until = s.where.offset, 0
			c.moves.readOn(context.Background(), s)
			return good, nil
		case err == io.EOF:
			return s.offset, nil
		case err != nil:
			return 0, err
		}
	}
}

// mend cuts a file at the end of its last whole unit, if the operator has asked for that.
func (c *Check) mend(path, name, kind string, good, size int64) error {
	switch {
	case !c.Fix:
		c.say("%s %s is not valid. Use the --fix option to try fixing it.\n", kind, name)
		return errInvalid
	case !c.last:
		c.say("Failed to truncate AOF %s because it is not the last file\n", name)
		return errInvalid
	}
	c.say("This will shrink the AOF %s from %d bytes, with %d bytes, to %d bytes\n", name, size, size-good, good)
	if !c.agreed() {
		c.say("Aborting...\n")
		return errInvalid
	}
	if err := cutFile(c.Disk, path, good, nil); err != nil {
		c.say("Failed to truncate AOF %s: %s\n", name, err)
		return errInvalid
	}
	c.say("Successfully truncated AOF %s\n", name)
	return nil
}

// cutLater cuts off the effects after the second c.Until.
func (c *Check) cutLater(path, name, kind string, good, size int64) error {
	switch {
	case good == size:
		c.say("Truncate nothing in AOF %s to timestamp %d\n", name, c.Until)
		c.say("%s %s is valid\n", kind, name)
		return nil
	case good == 0:
		c.say("AOF %s has nothing before timestamp %d, aborting...\n", path, c.Until)
		return errInvalid
	case !c.last:
		c.say("Failed to truncate AOF %s to timestamp %d to offset %d because it is not the last file\n", name, c.Until, good)
		return errInvalid
	}
	if err := cutFile(c.Disk, path, good, c.moves.ends("Cut at a moment of the move")); err != nil {
		c.say("Failed to truncate AOF %s to timestamp %d: %s\n", name, c.Until, err)
		return errInvalid
	}
	c.say("Successfully truncated AOF %s to timestamp %d\n", name, c.Until)
	return nil
}

// agreed asks the operator before a change.
func (c *Check) agreed() bool {
	if c.Yes {
		return true
	}
	c.say("Continue? [y/N]: ")
	answer, _ := bufio.NewReader(c.In).ReadString('\n')
	return strings.HasPrefix(strings.ToLower(answer), "y")
}

// A sink accepts the contents of an RDB file and drops them.
type sink struct{}

func (sink) Prepare(codec.Env)                               {}
func (sink) Databases() int                                  { return 1 << 30 }
func (sink) Reserve(int, uint64, uint64) error               { return nil }
func (sink) Insert(records []rdb.Record) (done int, _ error) { return len(records), nil }
func (sink) Function([]byte) error                           { return nil }
func (sink) Finish() error                                   { return nil }
