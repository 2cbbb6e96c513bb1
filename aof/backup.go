package aof

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/reason"
	"spindle/protocol"
)

// A backup is the set of files that holds the data set of one moment, in a folder apart from the log's. It has a base,
// the increments up to the moment, and a manifest. The files are hard links to the log's files: nothing is copied, and
// no rewrite removes them.
//
//	idle ─START▶ pending ─▶ snapshotting ─▶ incrementing ─SEAL▶ sealed ─CLEANUP▶ idle
//	             └────────────────┴───────────────┴─ABORT, error▶ failed ─START▶ pending
//
// A server without a log keeps one from START to SEAL. The setting appendonly does not change.
//
// aof.K1. From the end of the backup's rewrite until SEAL no rewrite begins. So the log's files are the base of the
// backup and all increments after it.
// aof.K2. A job of the writer reports its end in a turn, while no unit is open. A log that is on only for the backup
// then leaves the core's sinks. The report is ignored if it belongs to an earlier backup, which number shows.
// Source: the documentation of BACKUP in Redis 8.10.
type backup struct {
	state   backupState
	number  int
	why     string // why the backup has failed
	beganMs int64  // Unix time
	endMs   int64  // when it was sealed; 0: not sealed
	dir     string // absolute
	files   []string
	own     bool // the log was switched on only for the backup
	sealing *sealing
}

type backupState int

const (
	backupIdle backupState = iota
	backupPending
	backupSnapshotting
	backupIncrementing
	backupSealed
	backupFailed
)

var backupStates = [...]string{"idle", "pending", "snapshotting", "incrementing", "sealed", "failed"}

// A sealing is a running BACKUP SEAL.
type sealing struct {
	clients []*client.Client
	over    bool
	err     error
}

var (
	errBackupRuns     = protocol.Errorf("ERR", "A backup is already in progress")
	errBackupSealed   = protocol.Errorf("ERR", "A sealed backup is there already, use BACKUP CLEANUP first")
	errBackupNotEmpty = protocol.Errorf("ERR", "The backup directory is not empty")
	errBackupSeal     = protocol.Errorf("ERR", "There is no backup to seal: its state is not incrementing")
	errBackupAbort    = protocol.Errorf("ERR", "There is no backup in progress")
	errBackupClean    = protocol.Errorf("ERR", "There is no sealed or failed backup to clean up")
	errSealing        = protocol.Errorf("ERR", "The backup is being sealed")
	errOtherData      = errors.New("a primary's data take the place of these")
	errSwitchedOff    = errors.New("the append-only file was switched off")
	errBackupAborted  = errors.New("aborted by BACKUP ABORT")
	errLogNotWhole    = errors.New("the append-only file could not be written")
)

// BackingUp reports whether a backup has begun and is not sealed.
func (l *Log) BackingUp() bool {
	return l.backup.state >= backupPending && l.backup.state <= backupIncrementing
}

// startBackup runs BACKUP START.
//
// Errors: errBackupRuns, errBackupSealed, errBackupNotEmpty; the system's.
func (l *Log) startBackup(inTransaction bool) error {
	b := &l.backup
	switch {
	case l.BackingUp():
		return errBackupRuns
	case b.state == backupSealed:
		return errBackupSealed
	}
	dir, err := filepath.Abs(filepath.Join(l.parts.Dir(), l.set.BackupDir.Get()))
	left := []string(nil)
	if err == nil && l.removing == 0 {
		left, err = l.tryBackupDir(dir)
	}
	if err != nil {
		return err
	}
	own := l.state == off
	if own && l.TurnOn() != nil {
		return protocol.Errorf("ERR", "Can't start a log for the backup. Check server logs.")
	}
	*b = backup{state: backupPending, number: b.number + 1, beganMs: l.parts.Now().UnixMilli(), dir: dir, own: own,
		files: left}
	l.removeBackup()
	switch {
	case l.rw.job != nil:
		b.state = backupSnapshotting
	case inTransaction || l.parts.Saving() || l.isHeld() || l.reading:
		l.rw.scheduled, l.rw.failures = true, 0
	default:
		l.startRewrite()
	}
	l.parts.Log.Notice("Backup started, into %s", dir)
	return nil
}

// tryBackupDir returns an error unless the folder of backups exists and is empty. It may also have files of a backup
// that was not sealed when its server died: tryBackupDir returns their paths. It uses the disk inside the turn.
func (l *Log) tryBackupDir(dir string) (left []string, err error) {
	err = l.parts.Disk.Mkdir(dir, 0o755)
	var names []string
	if err == nil {
		names, err = l.parts.Disk.ReadDir(dir)
	}
	if err != nil {
		return nil, protocol.Errorf("ERR", "Can't use the backup directory: %s", reason.Of(err))
	}
	for _, name := range names {
		if !isOfUnsealed(name, l.set.FileName.Get()) {
			return nil, errBackupNotEmpty
		}
		left = append(left, filepath.Join(dir, name))
	}
	if len(left) > 0 {
		l.parts.Log.Notice("Backup: %d files in %s are of a backup that was not sealed, and are removed", len(left), dir)
	}
	return left, nil
}

// isOfUnsealed reports whether a backup of the log has a file of this name before it is sealed. A sealed backup has a
// manifest, which is no such file. Without one, the files are of no use.
func isOfUnsealed(name, log string) bool {
	rest, ok := strings.CutPrefix(name, log+".")
	if name == "temp-"+log+manifestSuffix {
		return true
	}
	return ok && (strings.HasSuffix(rest, ".base.rdb") || strings.HasSuffix(rest, ".base.aof") ||
		strings.HasSuffix(rest, ".incr.aof"))
}

// snapshotting notes that a rewrite begins.
func (l *Log) snapshotting() {
	if l.backup.state == backupPending {
		l.backup.state = backupSnapshotting
	}
}

// rewritten notes that a rewrite has ended. Its base is the backup's.
func (l *Log) rewritten(err error) {
	b := &l.backup
	switch {
	case b.state != backupSnapshotting:
		return
	case err != nil:
		l.failBackup(err)
		return
	}
	number, dir := b.number, b.dir
	l.w.do(0, func() {
		base := *l.w.manifest.base
		path := filepath.Join(dir, base.name)
		err := l.w.folder.disk.Link(l.w.folder.path(base.name), path)
		if err == nil {
			err = l.w.folder.disk.SyncDir(dir)
		}
		go l.parts.Core.DoBetween(func() { l.pinned(number, path, err) })
	})
	b.state = backupIncrementing // aof.K1
}

// pinned notes that the base has its hard link in the backup's folder.
func (l *Log) pinned(number int, path string, err error) {
	b := &l.backup
	switch {
	case b.number != number || !l.BackingUp():
		_ = l.parts.Disk.Remove(path)
	case err != nil:
		l.failBackup(err)
	default:
		b.files = append(b.files, path)
		l.parts.Log.Notice("Backup: the base is there, and changes are collected until BACKUP SEAL")
	}
}

// failBackup ends a backup that is not sealed, and removes its files.
func (l *Log) failBackup(why error) {
	b := &l.backup
	if !l.BackingUp() {
		return
	}
	l.parts.Log.Warning("Backup failed: %s", reason.Of(why))
	b.state, b.why = backupFailed, reason.Of(why)
	l.removeBackup()
	l.endOwnLog()
	l.sealed(why)
}

// removeBackup removes the backup's files, on the writer's goroutine. A new backup that begins during the removal gets
// its files after it.
func (l *Log) removeBackup() {
	b := &l.backup
	files, dir := b.files, b.dir
	if b.files = nil; len(files) == 0 {
		return
	}
	l.removing++
	l.w.do(0, func() {
		defer func() { go l.parts.Core.Do(func() { l.removing-- }) }()
		d := l.parts.Disk
		for _, path := range files {
			if err := d.Remove(path); err != nil {
				l.parts.Log.Warning("Can't remove %s of the backup: %s", path, reason.Of(err))
			}
		}
		_ = d.SyncDir(dir)
	})
}

// endOwnLog switches off a log that was on only for the backup, and removes the log's files.
func (l *Log) endOwnLog() {
	b := &l.backup
	if !b.own {
		return
	}
	b.own = false
	l.TurnOff()
	f := l.folder
	l.w.do(0, func() {
		m := l.w.manifest
		for _, p := range append(m.parts(), m.history...) {
			if l.w.past != nil && l.w.past.has(p.name) {
				continue
			}
			_ = f.disk.Remove(f.path(p.name))
		}
		_ = f.disk.Remove(f.manifestPath())
		l.w.manifest = &manifest{baseSeq: m.baseSeq, incrSeq: m.incrSeq}
	})
}

// sealBackup begins BACKUP SEAL. The backup's moment is the end of the last unit before it.
func (l *Log) sealBackup() (*sealing, error) {
	b := &l.backup
	switch {
	case b.sealing != nil:
		return nil, errSealing
	case b.state != backupIncrementing || len(b.files) == 0 || l.state != on:
		return nil, errBackupSeal
	}
	s := &sealing{}
	b.sealing = s
	l.selected, l.stamped = -1, 0
	number, dir, cut, at, ends := b.number, b.dir, l.w.end(), l.parts.Now().UnixMilli(), []byte(nil)
	if l.parts.Ends != nil {
		ends = l.parts.Ends()
	}
	l.w.do(cut, func() {
		files, err := l.w.seal(dir, cut, at, ends)
		go l.parts.Core.DoBetween(func() { l.backedUp(number, files, err) })
	})
	return s, nil
}

// seal switches the log to a new increment, and links the complete increments into the backup. If ends is not empty, it
// is the backup's last increment. It runs on the writer's goroutine.
func (w *writer) seal(dir string, cut, atMs int64, ends []byte) (files []string, err error) {
	s := w.lock()
	whole := s.buf.first >= cut && s.trouble.bad == nil && s.trouble.failing == nil
	w.unlock()
	if !whole || w.file.File == nil || w.file.temp {
		return nil, errLogNotWhole
	}
	if err := w.syncWhole(); err != nil {
		return nil, err
	}
	f := w.folder
	sealed := w.manifest.clone()
	taken, _ := f.readHistory()
	incr := f.nextIncr(w.manifest, taken)
	file, err := w.openIncr(incr.name, true)
	if err != nil {
		return nil, err
	}
	next := w.manifest.clone()
	next.incrs, next.incrSeq = append(next.incrs, incr), incr.seq
	if err := w.persist(next); err != nil {
		_ = file.Close()
		if w.restoreManifest() {
			_ = f.disk.Remove(f.path(incr.name))
		}
		return nil, err
	}
	w.manifest = next
	old, size := w.file.File, w.file.size
	w.useFile(file, 0)
	_ = old.Close()
	w.pastChanged(&rewriting{name: incr.name, cut: cut, cutMs: atMs}, size)

	to := &folder{disk: f.disk, root: dir, dir: dir, name: f.name}
	sealed.history = nil
	for _, p := range sealed.incrs {
		if err := f.disk.Link(f.path(p.name), to.path(p.name)); err != nil {
			return files, err
		}
		files = append(files, to.path(p.name))
	}
	if len(ends) > 0 {
		last := f.nextIncr(next, taken)
		sealed.incrs, sealed.incrSeq = append(sealed.incrs, last), last.seq
		files = append(files, to.path(last.name))
		if err := to.writeFile(last.name, ends); err != nil {
			return files, err
		}
	}
	if err := to.write(sealed); err != nil {
		return files, err
	}
	return append(files, to.manifestPath()), nil
}

// writeFile makes a file with a content, and syncs it.
func (f *folder) writeFile(name string, content []byte) error {
	file, err := f.disk.Open(f.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// backedUp notes that SEAL is done.
func (l *Log) backedUp(number int, files []string, err error) {
	b := &l.backup
	if b.number != number || b.state != backupIncrementing {
		for _, path := range files {
			_ = l.parts.Disk.Remove(path)
		}
		return
	}
	b.files = append(b.files, files...)
	if err != nil {
		l.failBackup(err)
		return
	}
	b.state, b.endMs = backupSealed, l.parts.Now().UnixMilli()
	l.parts.Log.Notice("Backup sealed: %d files in %s", len(b.files), b.dir)
	l.endOwnLog()
	l.sealed(nil)
}

// sealed replies to the clients that wait in BACKUP SEAL.
func (l *Log) sealed(err error) {
	s := l.backup.sealing
	if l.backup.sealing = nil; s == nil {
		return
	}
	s.over, s.err = true, err
	for _, cl := range s.clients {
		l.parts.Core.Wake(cl)
	}
}

// cleanBackup runs BACKUP CLEANUP.
func (l *Log) cleanBackup() error {
	b := &l.backup
	if b.state != backupSealed && b.state != backupFailed {
		return errBackupClean
	}
	l.removeBackup()
	*b = backup{number: b.number}
	return nil
}

// tickBackup removes a sealed backup that is older than backup-sealed-ttl.
func (l *Log) tickBackup(now time.Time) {
	ttl := l.set.SealedTTL.Get()
	if b := &l.backup; b.state == backupSealed && ttl > 0 && now.UnixMilli()-b.endMs >= 1000*ttl {
		l.parts.Log.Notice("Backup removed: it was sealed %d seconds ago", ttl)
		_ = l.cleanBackup()
	}
}

// backupSpec is BACKUP.
func (l *Log) backupSpec() command.Spec {
	const flags = command.Admin | command.NoScript
	ok := func(do func() error) func(c *command.Context) error {
		return func(c *command.Context) error {
			if err := do(); err != nil {
				return err
			}
			c.Reply.OK()
			return nil
		}
	}
	return command.Spec{Name: "backup", Arity: -2, Subs: []command.Spec{
		{Name: "start", Arity: 2, Flags: flags, Run: func(c *command.Context) error {
			return ok(func() error { return l.startBackup(c.Client.Is(client.Multi)) })(c)
		}},
		{Name: "seal", Arity: 2, Flags: flags | command.Blocking, Run: l.runSeal},
		{Name: "abort", Arity: 2, Flags: flags, Run: ok(func() error {
			if !l.BackingUp() {
				return errBackupAbort
			}
			l.failBackup(errBackupAborted)
			return nil
		})},
		{Name: "cleanup", Arity: 2, Flags: flags, Run: ok(l.cleanBackup)},
		{Name: "status", Arity: 2, Flags: flags, Run: l.backupStatus},
		{Name: "list", Arity: 2, Flags: flags, Run: l.backupList},
		{Name: "help", Arity: 2, Flags: command.Loading | command.Stale, Run: func(c *command.Context) error {
			command.Help(c,
				"START",
				"    Begin a backup in the folder that backupdirname names.",
				"SEAL",
				"    End it: its files hold the data as of now, and do not change any more.",
				"ABORT",
				"    Give up a backup that is not sealed.",
				"CLEANUP",
				"    Remove the files of a sealed or failed backup.",
				"STATUS",
				"    Its state, error, begin and end.",
				"LIST",
				"    The absolute paths of its files so far.")
			return nil
		}},
	}}
}

// runSeal runs BACKUP SEAL. The client waits until the files are complete and synced.
func (l *Log) runSeal(c *command.Context) error {
	s, err := l.sealBackup()
	if err != nil {
		return err
	}
	if c.Client.Is(client.DenyBlocking | client.Multi) {
		c.Reply.OK()
		return nil
	}
	s.clients = append(s.clients, c.Client)
	c.Core.Block(c, command.Wait{
		Timeout: func(*command.Context) {},
		Left:    func() { s.clients = nil },
		Retry: func(c *command.Context) error {
			switch {
			case s.over && s.err != nil:
				return protocol.Errorf("ERR", "The backup failed: %s", reason.Of(s.err))
			case s.over:
				c.Reply.OK()
			}
			return nil
		},
	})
	return nil
}

// backupStatus runs BACKUP STATUS.
//
// Replies: a map of state, error, start_time and end_time, which are Unix seconds.
func (l *Log) backupStatus(c *command.Context) error {
	b := &l.backup
	c.Reply.Map(4)
	for _, pair := range [][2]string{
		{"state", backupStates[b.state]}, {"error", b.why},
		{"start_time", strconv.FormatInt(b.beganMs/1000, 10)}, {"end_time", strconv.FormatInt(b.endMs/1000, 10)},
	} {
		c.Reply.BulkString(pair[0])
		c.Reply.BulkString(pair[1])
	}
	return nil
}

// backupList runs BACKUP LIST.
func (l *Log) backupList(c *command.Context) error {
	c.Reply.Array(len(l.backup.files))
	for _, path := range l.backup.files {
		c.Reply.BulkString(path)
	}
	return nil
}
