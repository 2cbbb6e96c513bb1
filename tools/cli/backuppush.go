package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spindle/aof"
	"spindle/internal/disk"
	"spindle/internal/offsite"
	"spindle/protocol/respclient"
)

const (
	backupPatience = 10 * time.Second       // the time limit for a reply of the server
	sealPatience   = 15 * time.Minute       // the time limit for BACKUP SEAL, which syncs the files
	backupAsk      = 100 * time.Millisecond // the interval at which the state of the backup is read
)

// freshFor is the maximum age of a sealed set, left by an earlier push, that counts as the backup of this call.
const freshFor = time.Hour

// push pushes a backup to the store.
func (b *backupCall) push(ctx context.Context, r *offsite.Repository) error {
	if b.set != "" {
		files, at, err := setFiles(b.set)
		if err != nil {
			return err
		}
		return b.send(ctx, r, files, at)
	}
	s, err := b.connect()
	if err != nil {
		return fmt.Errorf("%s: %w", b.server, err)
	}
	defer s.Close()
	for {
		files, at, left, err := b.sealed(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", b.server, err)
		}
		if left {
			fmt.Fprintf(b.out, "An earlier push has left a sealed backup of %s: it is sent.\n", at.Format(time.DateTime))
		}
		if err := b.send(ctx, r, files, at); err != nil {
			return fmt.Errorf("%w\nThe sealed backup stays in %s: the same command continues, and BACKUP CLEANUP gives it up",
				err, filepath.Dir(files[0]))
		}
		if err := ask(s, "BACKUP", "CLEANUP"); err != nil {
			return fmt.Errorf("%s: BACKUP CLEANUP: %w", b.server, err)
		}
		if !left || time.Since(at) < freshFor {
			return nil
		}
	}
}

// connect connects to the server.
func (b *backupCall) connect() (*respclient.Client, error) {
	conn, err := b.from.dial(b.server, backupPatience)
	if err != nil {
		return nil, err
	}
	s := respclient.New(conn)
	s.SetTimeout(backupPatience)
	auth := []any{"AUTH", b.from.password}
	if b.from.user != "" {
		auth = []any{"AUTH", b.from.user, b.from.password}
	}
	if b.from.password == "" {
		auth = []any{"PING"}
	}
	if err := ask(s, auth...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// backupState is the reply of BACKUP STATUS.
type backupState struct {
	state, why string
	end        time.Time
}

func askState(s *respclient.Client) (is backupState, err error) {
	v, err := s.Do("BACKUP", "STATUS")
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return is, err
	}
	texts := v.Strings()
	for i := 0; i+1 < len(texts); i += 2 {
		switch texts[i] {
		case "state":
			is.state = texts[i+1]
		case "error":
			is.why = texts[i+1]
		case "end_time":
			second, _ := strconv.ParseInt(texts[i+1], 10, 64)
			is.end = time.Unix(second, 0)
		}
	}
	return is, nil
}

// sealed makes the server seal a backup. It returns the backup's files, with the manifest last, and its moment. left
// means that an earlier push has sealed it. A backup that is under way is continued, because a push that died has begun
// it.
func (b *backupCall) sealed(ctx context.Context, s *respclient.Client) (files []string, at time.Time, left bool,
	err error) {
	began, asked := false, false
	defer func() {
		if err != nil && began {
			_ = ask(s, "BACKUP", "ABORT")
		}
	}()
	for {
		is, err := askState(s)
		if err != nil {
			return nil, at, false, explainBackup(err)
		}
		switch is.state {
		case "sealed":
			v, err := s.Do("BACKUP", "LIST")
			if err = errors.Join(err, v.Err()); err != nil {
				return nil, at, false, err
			}
			files = v.Strings()
			if len(files) < 2 || !strings.HasSuffix(files[len(files)-1], ".manifest") {
				return nil, at, false, fmt.Errorf("the server's list of files has no manifest: %q", files)
			}
			// The reply has only whole seconds. The manifest was written at SEAL, so a later push of the set finds the
			// same time.
			at = is.end
			if stat, err := os.Stat(files[len(files)-1]); err == nil {
				at = stat.ModTime()
			}
			return files, at, !asked, nil
		case "idle", "failed":
			if began {
				return nil, at, false, fmt.Errorf("the backup has failed: %s", is.why)
			}
			if err := ask(s, "BACKUP", "START"); err != nil {
				return nil, at, false, fmt.Errorf("BACKUP START: %w", err)
			}
			began = true
		case "incrementing":
			s.SetTimeout(sealPatience)
			err := ask(s, "BACKUP", "SEAL")
			s.SetTimeout(backupPatience)
			refused := respclient.ReplyError("")
			if err != nil && !errors.As(err, &refused) {
				return nil, at, false, fmt.Errorf("BACKUP SEAL: %w", err)
			}
			asked = asked || err == nil // refused: there is no base yet, and the next state shows the outcome
		}
		select {
		case <-ctx.Done():
			return nil, at, false, context.Cause(ctx)
		case <-time.After(backupAsk):
		}
	}
}

// explainBackup adds to an error what to do if a server has no command BACKUP.
func explainBackup(err error) error {
	refused := respclient.ReplyError("")
	if errors.As(err, &refused) && strings.Contains(strings.ToLower(string(refused)), "unknown command") {
		return errors.New("the server has no BACKUP: stop it, and give its appendonlydir by --set")
	}
	return err
}

// setFiles returns the files in the folder of a set, with the manifest last, and the set's moment.
func setFiles(folder string) (files []string, at time.Time, err error) {
	past, err := aof.OpenPast(disk.OS, folder)
	if err != nil {
		return nil, at, err
	}
	for _, f := range past.Files() {
		files = append(files, filepath.Join(past.Folder(), f.Name))
	}
	manifest := filepath.Join(past.Folder(), past.Name()+".manifest")
	stat, err := os.Stat(manifest)
	if err != nil {
		return nil, at, err
	}
	if len(files) == 0 {
		return nil, at, fmt.Errorf("%s names no base and no increment", manifest)
	}
	return append(files, manifest), stat.ModTime(), nil
}

// send pushes files. It opens all of them before it reads the first one, so that the server may delete them meanwhile.
func (b *backupCall) send(ctx context.Context, r *offsite.Repository, paths []string, at time.Time) error {
	set := offsite.Set{Server: b.serverName(), At: at}
	total := int64(0)
	for _, path := range paths {
		in, err := os.Open(path)
		if os.IsNotExist(err) && b.server != "" {
			return fmt.Errorf("%w: the files are on the server's host, so the push must run there", err)
		}
		if err != nil {
			return err
		}
		defer in.Close()
		stat, err := in.Stat()
		if err != nil {
			return err
		}
		total += stat.Size()
		set.Files = append(set.Files, offsite.Source{Name: filepath.Base(path), Content: in, Bytes: stat.Size(),
			Changed: func() error {
				now, err := in.Stat()
				if err == nil && (now.Size() != stat.Size() || !now.ModTime().Equal(stat.ModTime())) {
					err = fmt.Errorf("%s changes while it is read: a server writes to it. Use --from-server", path)
				}
				return err
			}})
	}
	progress := newBar(b.process)
	done, err := r.Push(ctx, set, b.verify, func(n int64) { progress.at(n, total) })
	progress.end()
	if err != nil {
		return err
	}
	verb := "is in"
	if done.There {
		verb = "was already in"
	}
	fmt.Fprintf(b.out, "Backup %s %s %s: %s. %d parts of %s were sent, and %d were there.\n", done.Backup.ID, verb,
		r.Store, size(total), done.Sent, size(done.SentBytes), done.Had)
	return nil
}

// serverName returns the server's name for the list of backups.
func (b *backupCall) serverName() string {
	if b.name != "" {
		return b.name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if _, port, err := net.SplitHostPort(b.server); err == nil {
		host += ":" + port
	}
	return host
}
