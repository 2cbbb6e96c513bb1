package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spindle/aof"
	"spindle/internal/config"
	"spindle/internal/disk"
	"spindle/protocol/respclient"
)

var (
	historyForms = []config.Form{
		{Args: "history FOLDER", Text: "the moments that an append-only file with aof-keep-history can give back"},
	}
	restoreForms = []config.Form{
		{Args: "restore --to TIME|--to-offset N --into FOLDER FROM",
			Text: "makes a folder on which a server starts with the data set of that moment"},
		{Args: "restore --to TIME|--to-offset N --dry-run FROM", Text: "says what that folder would hold, and makes none"},
	}
)

const (
	historyUsage = "Usage: spindle history FOLDER\n"
	restoreUsage = "Usage: spindle restore --to TIME | --to-offset N  --into FOLDER | --dry-run  FROM\n" +
		"TIME is Unix seconds, \"2026-11-26 17:40:12\" in the time zone of this host, or 2026-11-26T17:40:12Z.\n" +
		"FROM is a server's folder, its appendonlydir, or a manifest. A server may be writing to it.\n"
)

// historyTool runs the program history.
func historyTool(p process) (code int) {
	if len(p.args) != 1 || strings.HasPrefix(p.args[0], "-") {
		fmt.Fprint(p.err, historyUsage)
		return 1
	}
	past, err := aof.OpenPast(disk.OS, p.args[0])
	if err != nil {
		fmt.Fprintln(p.err, err)
		return 1
	}
	files := past.Files()
	if len(files) == 0 {
		fmt.Fprintln(p.err, "The log is empty.")
		return 1
	}
	w := 0
	for _, f := range files {
		w = max(w, len(f.Name))
	}
	fmt.Fprintf(p.out, "%-4s  %-*s  %-19s  %14s  %10s\n", "", w, "file", "from", "offset", "bytes")
	for _, f := range files {
		kind, note := "incr", ""
		if f.Base {
			kind = "base"
		}
		if f.Gap {
			fmt.Fprintln(p.out, "      -- the log was off here, or could not be written --")
		}
		size := strconv.FormatInt(f.Size, 10)
		switch {
		case f.Size < 0:
			size = "missing"
		case f.Live:
			note = "  still grows"
		}
		at := "-"
		if f.At.UnixMilli() > 0 {
			at = f.At.Format(time.DateTime)
		}
		fmt.Fprintf(p.out, "%-4s  %-*s  %-19s  %14d  %10s%s\n", kind, w, f.Name, at, f.Offset, size, note)
	}
	return 0
}

// A restoring is one call of the program restore.
type restoring struct {
	moment aof.Moment
	known  bool // the moment was given
	into   string
	dry    bool
	from   string
}

// parseRestore parses the arguments of restore.
func parseRestore(args []string) (r restoring, ok bool) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--dry-run":
			r.dry = true
			continue
		case !strings.HasPrefix(word, "--") && r.from == "":
			r.from = word
			continue
		case len(args) == 0:
			return r, false
		}
		value := args[0]
		args = args[1:]
		switch {
		case word == "--to" && !r.known:
			r.moment.Second, r.known = parseTime(value)
		case word == "--to-offset" && !r.known:
			n, err := strconv.ParseInt(value, 10, 64)
			r.moment, r.known = aof.Moment{Offset: n, ByOffset: true}, err == nil && n >= 0
		case word == "--into" && r.into == "":
			r.into = value
		default:
			return r, false
		}
	}
	return r, r.known && r.from != "" && r.dry == (r.into == "")
}

// parseTime parses a moment in one of three forms.
func parseTime(text string) (second int64, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, n > 0
	}
	for _, form := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return at.Unix(), true
		}
	}
	return 0, false
}

// restoreTool runs the program restore.
func restoreTool(p process) (code int) {
	r, ok := parseRestore(p.args)
	if !ok {
		fmt.Fprint(p.err, restoreUsage)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := r.run(ctx, p); err != nil {
		fmt.Fprintln(p.err, err)
		return 1
	}
	return 0
}

func (r *restoring) run(ctx context.Context, p process) error {
	past, err := aof.OpenPast(disk.OS, r.from)
	if err != nil {
		return err
	}
	route, err := past.Route(ctx, r.moment)
	if err != nil {
		return err
	}
	for _, why := range route.Skips {
		fmt.Fprintf(p.out, "An earlier base is used: %s.\n", why)
	}
	into := r.into
	if r.dry {
		if into, err = os.MkdirTemp(filepath.Dir(past.Folder()), "temp-restore-*"); err != nil {
			return err
		}
		defer os.RemoveAll(into)
	}
	if err := past.Write(ctx, route, into); err != nil {
		return err
	}
	last := ""
	if !route.Last.IsZero() {
		last = ", whose last effect is of " + route.Last.Format(time.DateTime)
	}
	fmt.Fprintf(p.out, "%s is offset %d%s. It takes %s and %d increments.\n", r.moment, route.Offset, last, route.Base,
		len(route.Incrs))
	if r.dry {
		return r.tell(ctx, p, past, route, into)
	}
	start := "spindle --dir " + into + " --appendonly yes"
	if name := past.Name(); name != "appendonly.aof" {
		start += " --appendfilename " + name
	}
	if name := filepath.Base(past.Folder()); name != "appendonlydir" {
		start += " --appenddirname " + name
	}
	fmt.Fprintf(p.out, "A server starts with it by: %s\n", start)
	return nil
}

// tell starts a server on the folder into, without a port, and prints a summary of its data.
func (r *restoring) tell(ctx context.Context, p process, past *aof.Past, route *aof.Route, into string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	short, err := os.MkdirTemp("", "spindle-*") // the path of a socket has at most 107 bytes
	if err != nil {
		return err
	}
	defer os.RemoveAll(short)
	socket := filepath.Join(short, "s")
	run := exec.CommandContext(ctx, program, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir",
		into, "--appendonly", "yes", "--appendfilename", past.Name(), "--appenddirname", filepath.Base(past.Folder()),
		"--aof-load-truncated", "no", "--auto-aof-rewrite-percentage", "0", "--save", "", "--databases", "1024",
		"--unsupported-directives", "warn")
	var log strings.Builder
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	sections, err := holdings(socket, ended)
	_ = run.Process.Signal(os.Interrupt)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	<-ended
	for line := range strings.SplitSeq(sections, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(name, "db"):
			fmt.Fprintf(p.out, "%s: %s\n", name, value)
		case name == "used_memory_dataset":
			fmt.Fprintf(p.out, "bytes of memory: %s\n", value)
		}
	}
	lines, err := past.LastCommands(ctx, route, 5)
	if len(lines) > 0 {
		fmt.Fprintf(p.out, "The last commands before it:\n  %s\n", strings.Join(lines, "\n  "))
	}
	return err
}

// holdings returns INFO memory and INFO keyspace of the server at a socket, once the server has loaded its data.
func holdings(socket string, ended <-chan error) (string, error) {
	for {
		select {
		case err := <-ended:
			return "", errors.Join(errors.New("the server did not start"), err)
		case <-time.After(20 * time.Millisecond):
		}
		c, err := respclient.Dial(socket)
		if err != nil {
			continue
		}
		v, err := c.Do("PING")
		if err == nil && v.Text == "PONG" {
			v, err = c.Do("INFO", "memory", "keyspace")
			return v.Text, errors.Join(err, c.Close())
		}
		_ = c.Close()
	}
}
