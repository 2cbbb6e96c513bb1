package offsite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/internal/disk"
	"spindle/internal/objectstore"
	"spindle/tests/testkit/s3test"
)

// partOfTests is the length of parts in tests.
const partOfTests = 1000

// content has the contents of a set's files.
type content map[string][]byte

// contents makes a base of some parts, an increment, an empty increment and a manifest. Another seed gives other
// contents.
func contents(seed uint64, parts int) content {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	fill := func(n int) []byte {
		b := make([]byte, n)
		_, _ = random.Read(b)
		return b
	}
	return content{"a.1.base.rdb": fill(parts*partOfTests - 1), "a.1.incr.aof": fill(partOfTests), "a.2.incr.aof": nil,
		"a.manifest": []byte("file a.1.base.rdb seq 1 type b\n")}
}

// set returns the set of these contents.
func (c content) set(server string, at time.Time) Set {
	s := Set{Server: server, At: at}
	for _, name := range []string{"a.1.base.rdb", "a.1.incr.aof", "a.2.incr.aof", "a.manifest"} {
		s.Files = append(s.Files, Source{Name: name, Content: bytes.NewReader(c[name]), Bytes: int64(len(c[name])),
			Changed: func() error { return nil }})
	}
	return s
}

func nothing(int64) {}

func keyOf(t *testing.T, b byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{b}, secretBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// opened returns a repository in a test's server. A request is tried once.
func opened(t *testing.T, s *s3test.Server, keys ...*Key) *Repository {
	t.Helper()
	store, err := objectstore.OpenS3(objectstore.S3Options{Bucket: s3test.Bucket, Prefix: "p", Endpoint: s.URL,
		Region: s3test.Region, Now: time.Now, Tries: 1,
		Credentials: objectstore.Credentials{ID: s3test.ID, Secret: s3test.Secret}})
	if err != nil {
		t.Fatal(err)
	}
	r := Open(store, keys, func(text string) { t.Log(text) })
	r.part, r.Times = partOfTests, Times{Stale: time.Hour, Ask: time.Millisecond}
	return r
}

func pushed(t *testing.T, r *Repository, c content, server string, at time.Time) *Pushed {
	t.Helper()
	p, err := r.Push(t.Context(), c.set(server, at), false, nothing)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// holds checks that the folder of a pull has the contents, and nothing else.
func (c content) holds(t *testing.T, into string) {
	t.Helper()
	names, err := disk.OS.ReadDir(filepath.Join(into, LogFolder))
	if err != nil || len(names) != len(c) {
		t.Errorf("the folder has %q, %v", names, err)
	}
	for name, want := range c {
		if got, err := os.ReadFile(filepath.Join(into, LogFolder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has other bytes: %d of %d, %v", name, len(got), len(want), err)
		}
	}
}

// pulled pulls a backup into a new folder and checks it.
func pulled(t *testing.T, r *Repository, b *Backup, want content) {
	t.Helper()
	into := filepath.Join(t.TempDir(), "into")
	if err := r.Pull(t.Context(), disk.OS, b, into, nothing); err != nil {
		t.Error(err)
		return
	}
	want.holds(t, into)
}

// A smallDisk has room for a limited number of bytes. A write that does not fit is cut.
type smallDisk struct {
	disk.System
	room int
}

type smallFile struct {
	disk.File
	disk *smallDisk
}

func (d *smallDisk) Open(name string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.System.Open(name, flag, mode)
	return smallFile{f, d}, err
}

func (f smallFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), f.disk.room)])
	if f.disk.room -= n; err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// listed returns the backups. A running push is an error.
func listed(t *testing.T, r *Repository) []Entry {
	t.Helper()
	all, _, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var someTime = time.Date(2026, 11, 26, 17, 40, 12, 0, time.UTC)

// TestRoundTrip: a pushed set is listed as complete, and a pull returns the same contents, with a key and without. The
// same set is pushed once. Parts that another backup has are not sent again. With a key, the store has nothing
// readable.
func TestRoundTrip(t *testing.T) {
	for name, keys := range map[string][]*Key{"plain": nil, "encrypted": {keyOf(t, 1)}} {
		t.Run(name, func(t *testing.T) {
			server := s3test.Start(t)
			r := opened(t, server, keys...)
			first := contents(1, 6)
			p := pushed(t, r, first, "host:1", someTime)
			if p.There || p.Sent != 8 || p.Had != 0 || p.SentBytes != p.Backup.Bytes() {
				t.Errorf("the first push: %+v", p)
			}
			if p := pushed(t, r, first, "host:1", someTime); !p.There || p.Sent != 0 || p.Had != 8 {
				t.Errorf("the same set again: %+v", p)
			}
			second := contents(2, 1)
			second["a.1.base.rdb"] = append(slices.Clone(first["a.1.base.rdb"][:5*partOfTests]), "more"...)
			if p := pushed(t, r, second, "host:2", someTime.Add(time.Hour)); p.Had != 6 || p.Sent != 2 {
				t.Errorf("a set that shares six parts: %+v", p)
			}
			all := listed(t, r)
			if len(all) != 2 || all[0].Wrong+all[1].Wrong != "" || !all[0].At.Equal(someTime) ||
				all[0].Backup.Server != "host:1" {
				t.Fatalf("list: %+v", all)
			}
			pulled(t, r, all[0].Backup, first)
			pulled(t, r, all[1].Backup, second)
			if b, err := r.Find(t.Context(), "latest", "host:1"); err != nil || b.ID != all[0].ID {
				t.Error(b, err)
			}
			if _, err := r.Find(t.Context(), "latest", ""); err == nil || !strings.Contains(err.Error(), "--name") {
				t.Error(err)
			}
			for _, key := range server.Keys("") {
				server.Change(key, func(body []byte) []byte {
					clear := bytes.Contains(body, []byte("host:")) || bytes.Contains(body, []byte("base.rdb")) ||
						bytes.Contains(body, first["a.1.incr.aof"][:50])
					if clear && keys != nil {
						t.Errorf("%s can be read", key)
					}
					return body
				})
			}
			if left := slices.Concat(server.Keys("p/pushing"), server.Keys("p/pruning")); len(left) > 0 {
				t.Errorf("locks stay: %q", left)
			}
		})
	}
}

// faults are the faults of a request: it is not carried out, or it is carried out and its reply is lost.
var faults = map[string]s3test.Fault{"cut": {}, "lost": {Late: true}, "refused": {Status: 403, Code: "AccessDenied"}}

// eachRequest calls once for each request that a call makes. In that call, this request and all after it fail. It ends
// when the call makes fewer requests. before prepares a store.
func eachRequest(t *testing.T, once func(t *testing.T, server *s3test.Server, arm func()) (done bool)) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				server := s3test.Start(t)
				over := once(t, server, func() {
					server.Before(func(at int, _ *http.Request) *s3test.Fault {
						switch {
						case at < n:
							return nil
						case at == n:
							return &fault
						}
						return &s3test.Fault{} // the process has died
					})
				})
				if over {
					if n < 10 {
						t.Errorf("only %d requests", n)
					}
					return
				}
			}
		})
	}
}

// TestPushBroken: a push that dies at any request leaves no incomplete backup in the list. Another push continues.
func TestPushBroken(t *testing.T) {
	t.Parallel()
	old, c := contents(1, 3), contents(2, 4)
	eachRequest(t, func(t *testing.T, server *s3test.Server, arm func()) bool {
		r := opened(t, server, keyOf(t, 1))
		pushed(t, r, old, "host:1", someTime)
		arm()
		_, err := r.Push(t.Context(), c.set("host:1", someTime.Add(time.Hour)), false, nothing)
		made := server.Requests()
		server.Before(nil)
		parts := len(server.Keys("p/parts/"))
		all := listed(t, r)
		if len(all) < 1 || len(all) > 2 || err == nil && len(all) != 2 {
			t.Fatalf("%d requests, %v: %d backups", made, err, len(all))
		}
		for i, e := range all {
			if e.Wrong != "" {
				t.Errorf("%d requests: %s: %s", made, e.ID, e.Wrong)
			} else {
				pulled(t, r, e.Backup, []content{old, c}[i])
			}
		}
		p, err2 := r.Push(t.Context(), c.set("host:1", someTime.Add(time.Hour)), false, nothing)
		if err2 != nil || p.Sent > 5+5-parts {
			t.Errorf("the next push: %+v, %v, with %d parts there", p, err2, parts)
		}
		if all := listed(t, r); len(all) != 2 || all[1].Wrong != "" {
			t.Errorf("after the next push: %+v", all)
		}
		return err == nil
	})
}

// TestPruneBroken: a prune that dies at any request leaves the backups that it keeps. Another prune finishes the work.
func TestPruneBroken(t *testing.T) {
	t.Parallel()
	eachRequest(t, func(t *testing.T, server *s3test.Server, arm func()) bool {
		r := opened(t, server)
		shared := contents(9, 2)
		for i := range 3 {
			c := contents(uint64(i), 1)
			c["a.1.incr.aof"] = shared["a.1.base.rdb"]
			pushed(t, r, c, "host:1", someTime.Add(time.Duration(i)*time.Hour))
		}
		arm()
		_, err := r.Prune(t.Context(), Policy{Last: 1, Now: someTime})
		server.Before(nil)
		all := listed(t, r)
		if len(all) < 1 || len(all) > 3 {
			t.Fatalf("%v: %d backups", err, len(all))
		}
		for _, e := range all {
			if e.Wrong != "" {
				t.Errorf("%v: a manifest was left and its parts removed: %s", err, e.Wrong)
			}
		}
		for _, key := range server.Keys("p/parts/") {
			server.Age(key, 25*time.Hour)
		}
		if _, err := r.Prune(t.Context(), Policy{Last: 1, Now: someTime}); err != nil {
			t.Fatal(err)
		}
		if n, all := len(server.Keys("p/parts/")), listed(t, r); n != 4 || len(all) != 1 {
			t.Errorf("%d parts and %d backups stay", n, len(all))
		}
		return err == nil
	})
}

// TestPullBroken: a pull that dies at any request leaves no folder of a log. Another pull continues with the bytes that
// are there.
func TestPullBroken(t *testing.T) {
	t.Parallel()
	c := contents(2, 12)
	eachRequest(t, func(t *testing.T, server *s3test.Server, arm func()) bool {
		r := opened(t, server, keyOf(t, 1))
		b := pushed(t, r, c, "host:1", someTime).Backup
		into := filepath.Join(t.TempDir(), "into")
		arm()
		err := r.Pull(t.Context(), disk.OS, b, into, nothing)
		server.Before(nil)
		if names, _ := disk.OS.ReadDir(into); err != nil && slices.Contains(names, LogFolder) {
			t.Errorf("%v, and the folder is there", err)
		}
		if err == nil {
			return true
		}
		there := int64(0)
		for name := range c {
			n, _ := disk.OS.Size(filepath.Join(into, pullMark+b.ID, name))
			there += n / partOfTests
		}
		server.Before(func(int, *http.Request) *s3test.Fault { return nil })
		if err := r.Pull(t.Context(), disk.OS, b, into, nothing); err != nil {
			t.Fatal(err)
		}
		if n := server.Requests(); n > 14-int(there)+atOnce { // some requests of the broken pull may come late
			t.Errorf("%d parts were there, and %d requests were made", there, n)
		}
		c.holds(t, into)
		return false
	})
}

// TestPullOntoFullDisk: a pull onto a disk that is full at any byte reports that, and continues once there is room. The
// bytes that an earlier pull has left are checked.
func TestPullOntoFullDisk(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	r := opened(t, server)
	c := contents(3, 4)
	b := pushed(t, r, c, "host:1", someTime).Backup
	for room := 0; room < int(b.Bytes()); room += 313 {
		into := filepath.Join(t.TempDir(), "into")
		err := r.Pull(t.Context(), &smallDisk{disk.OS, room}, b, into, nothing)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("with room for %d bytes of %d: %v", room, b.Bytes(), err)
		}
		if room%2 == 0 { // a power cut may leave other bytes
			file := filepath.Join(into, pullMark+b.ID, "a.1.base.rdb")
			body, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, append([]byte("damaged"), body[min(len(body), 7):]...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Pull(t.Context(), disk.OS, b, into, nothing); err != nil {
			t.Fatal(err)
		}
		c.holds(t, into)
		if err := r.Pull(t.Context(), disk.OS, b, into, nothing); err == nil || !strings.Contains(err.Error(),
			"is not empty") {
			t.Errorf("a folder that has a log: %v", err)
		}
	}
}

// TestPushOntoFullDisk: a push into a folder whose disk is full reports that, and leaves no backup and no half part. It
// continues once there is room.
func TestPushOntoFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	store, err := objectstore.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := Open(store, nil, func(text string) { t.Log(text) })
	r.part, r.Times = partOfTests, Times{Stale: time.Hour, Ask: time.Millisecond}
	c := contents(1, 40)
	if _, err := r.Push(t.Context(), c.set("host:1", someTime), false, nothing); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	if all := listed(t, r); len(all) != 0 {
		t.Errorf("list: %+v", all)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), "temp") {
			t.Errorf("%s stays", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	p := pushed(t, r, c, "host:1", someTime)
	if p.Had == 0 || p.Had+p.Sent != 42 {
		t.Errorf("with more room: %+v", p)
	}
	pulled(t, r, p.Backup, c)
}

// TestDamage: a part or a manifest that is damaged, cut or missing is named. The other backups stay as they are, and a
// later push repairs the parts.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]*Key{"plain": nil, "encrypted": {keyOf(t, 1)}} {
		for _, c := range []struct {
			what   string
			change func([]byte) []byte
			state  string // the state in the list; "": the list does not notice
			want   string // the result of the pull
		}{
			{"missing", func([]byte) []byte { return nil }, "1 parts are missing, the first one of a.1.base.rdb", "is missing"},
			{"cut", func(b []byte) []byte { return b[:len(b)-1] }, "have another length, the first one of a.1.base.rdb",
				"is damaged"},
			{"damaged", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "", "is damaged"},
		} {
			t.Run(name+" "+c.what, func(t *testing.T) {
				server := s3test.Start(t)
				r := opened(t, server, keys...)
				first, second := contents(1, 3), contents(2, 3)
				b := pushed(t, r, first, "host:1", someTime).Backup
				other := pushed(t, r, second, "host:1", someTime.Add(-time.Hour)).Backup
				server.Change("p/"+partKey(b.Files[0].Parts[1].Name), c.change)
				all := listed(t, r)
				if len(all) != 2 || (c.state == "") != (all[1].Wrong == "") || !strings.Contains(all[1].Wrong, c.state) ||
					all[0].Wrong != "" {
					t.Fatalf("list: %+v", all)
				}
				err := r.Pull(t.Context(), disk.OS, b, filepath.Join(t.TempDir(), "into"), nothing)
				broken := (*BrokenError)(nil)
				if !errors.As(err, &broken) || broken.Backup != b.ID || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "a.1.base.rdb") {
					t.Errorf("pull: %v", err)
				}
				pulled(t, r, other, second)
				if latest, err := r.Find(t.Context(), "latest", ""); err != nil || (latest.ID == other.ID) != (c.state != "") {
					t.Errorf("the latest whole one: %v, %v", latest, err)
				}
				p, err := r.Push(t.Context(), first.set("host:1", someTime), true, nothing)
				if err != nil || p.Sent != 1 || p.Had != 4 || !p.There {
					t.Errorf("push: %+v, %v", p, err)
				}
				pulled(t, r, b, first)
			})
		}
		t.Run(name+" manifest", func(t *testing.T) {
			server := s3test.Start(t)
			r := opened(t, server, keys...)
			first := contents(1, 3)
			b := pushed(t, r, first, "host:1", someTime).Backup
			whole := []byte{}
			server.Change("p/"+backupFolder+b.ID, func(body []byte) []byte { whole = body; return body })
			for at := 0; at < len(whole); at += 7 {
				for _, harm := range []func([]byte) []byte{
					func(body []byte) []byte { body[at] ^= 1; return body }, func(body []byte) []byte { return body[:at] },
				} {
					server.Change("p/"+backupFolder+b.ID, func([]byte) []byte { return harm(slices.Clone(whole)) })
					if all := listed(t, r); len(all) != 1 || all[0].Wrong == "" || !all[0].At.Equal(someTime) {
						t.Fatalf("harmed at %d: %+v", at, all)
					}
				}
			}
			if _, err := r.Find(t.Context(), "latest", ""); err == nil {
				t.Error("a damaged manifest is the latest backup")
			}
			if p := pushed(t, r, first, "host:1", someTime); p.There || p.Sent != 0 {
				t.Errorf("push: %+v", p)
			}
			pulled(t, r, b, first)
			server.Change("p/"+backupFolder+"20260101T000000Z-00000000", func([]byte) []byte { return whole })
			if all := listed(t, r); len(all) != 2 || !strings.Contains(all[0].Wrong, "damaged") {
				t.Errorf("a manifest under another name: %+v", all)
			}
		})
	}
}

// TestKeys: a wrong key is named, also among right ones, and no prune guesses. Older keys decrypt older backups.
func TestKeys(t *testing.T) {
	server := s3test.Start(t)
	k, other := keyOf(t, 1), keyOf(t, 2)
	c := contents(1, 2)
	b := pushed(t, opened(t, server, k), c, "host:1", someTime).Backup
	for _, keys := range [][]*Key{nil, {other}} {
		r := opened(t, server, keys...)
		all := listed(t, r)
		if len(all) != 1 || !all[0].Locked || !strings.Contains(all[0].Wrong, k.ID()) || !all[0].At.Equal(someTime) {
			t.Errorf("list: %+v", all)
		}
		for _, err := range []error{
			func() error { _, err := r.Find(t.Context(), b.ID, ""); return err }(),
			func() error { _, err := r.Find(t.Context(), "latest", ""); return err }(),
			func() error { _, err := r.Prune(t.Context(), Policy{Last: 1, Now: someTime}); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), k.ID()) ||
				strings.Contains(err.Error(), "wrong key") != (keys != nil) {
				t.Errorf("%v", err)
			}
		}
	}
	both := opened(t, server, other, k)
	later := pushed(t, both, c, "host:1", someTime.Add(time.Hour))
	if later.Sent != 4 {
		t.Errorf("another key shares parts: %+v", later)
	}
	for _, e := range listed(t, both) {
		pulled(t, both, e.Backup, c)
	}
	if d, err := both.Prune(t.Context(), Policy{Last: 1, Now: someTime}); err != nil || len(d.Backups) != 1 ||
		d.Parts != 4 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestLocks: a prune does nothing while a push runs, and a push waits for a prune. A lock that was not written for an
// hour is ignored.
func TestLocks(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	pushed(t, r, contents(1, 1), "host:1", someTime)
	pushed(t, r, contents(2, 1), "host:1", someTime.Add(time.Hour))
	l, err := r.lock(t.Context(), pushFolder, "host:9")
	if err != nil {
		t.Fatal(err)
	}
	before := server.Keys("")
	busy := (*BusyError)(nil)
	if _, err := r.Prune(t.Context(), Policy{Last: 1, Now: someTime}); !errors.As(err, &busy) || busy.Server != "host:9" {
		t.Errorf("a push is under way: %v", err)
	}
	if !slices.Equal(before, server.Keys("")) {
		t.Errorf("the prune has changed the store: %q, before it %q", server.Keys(""), before)
	}
	if _, pushes, err := r.List(t.Context()); err != nil || len(pushes) != 1 || pushes[0].Server != "host:9" {
		t.Errorf("list: %+v, %v", pushes, err)
	}
	server.Age("p/"+l.key, time.Hour+time.Second)
	if d, err := r.Prune(t.Context(), Policy{Last: 1, Now: someTime}); err != nil || len(d.Backups) != 1 {
		t.Errorf("the push has died: %+v, %v", d, err)
	}
	if held, err := l.holds(t.Context()); held || err != nil {
		t.Error("the stale lock stays")
	}

	prune, err := r.lock(t.Context(), pruneFolder, "")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan bool, 1000)
	server.Before(func(n int, q *http.Request) *s3test.Fault {
		if n > 20 && strings.Contains(q.URL.RawQuery, "pruning") {
			select {
			case asked <- true:
			default:
			}
		}
		if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/parts/") && len(asked) == 0 {
			t.Error("a part was sent while a prune is under way")
		}
		return nil
	})
	ended := make(chan error)
	go func() {
		_, err := r.Push(context.Background(), contents(3, 1).set("host:1", someTime), false, nothing)
		ended <- err
	}()
	<-asked
	asked <- true
	prune.end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLockIsWritten: a lock is written again and again, but not after it was removed.
func TestLockIsWritten(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	r.Times.Beat = time.Millisecond
	writes := make(chan bool, 1000)
	server.Before(func(_ int, q *http.Request) *s3test.Fault {
		if q.Method == http.MethodPut {
			select {
			case writes <- true:
			default:
			}
		}
		return nil
	})
	l, err := r.lock(t.Context(), pushFolder, "host:1")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		<-writes
	}
	l.end()
	if left := server.Keys("p/pushing/"); len(left) > 0 {
		t.Errorf("the lock stays: %q", left)
	}
}

// TestPushAfterSleep: a push that a prune took for dead leaves no manifest whose parts are gone.
func TestPushAfterSleep(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	c := contents(1, 2)
	server.Before(func(_ int, q *http.Request) *s3test.Fault {
		if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/backups/") {
			for _, prefix := range []string{"p/pushing/", "p/parts/"} {
				for _, key := range server.Keys(prefix) {
					server.Change(key, func([]byte) []byte { return nil })
				}
			}
		}
		return nil
	})
	if _, err := r.Push(t.Context(), c.set("host:1", someTime), false, nothing); err == nil ||
		!strings.Contains(err.Error(), "push again") {
		t.Errorf("push: %v", err)
	}
	server.Before(nil)
	if all := listed(t, r); len(all) != 0 {
		t.Errorf("list: %+v", all)
	}
	pushed(t, r, c, "host:1", someTime)
}

// TestPolicy: compares the kept backups with a simple implementation of the rules, for random policies.
func TestPolicy(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		policy := Policy{Last: rng.IntN(4), Since: time.Duration(rng.IntN(3)) * 24 * time.Hour, Now: someTime}
		if policy.Last == 0 && policy.Since == 0 {
			continue
		}
		var all []Entry
		for i := range rng.IntN(12) {
			e := Entry{ID: fmt.Sprint(i), At: someTime.Add(-time.Duration(rng.IntN(100)) * time.Hour)}
			if rng.IntN(5) == 0 {
				e.Wrong = "damaged"
			}
			if e.Wrong == "" || rng.IntN(2) == 0 {
				e.Backup = &Backup{Server: string(rune('a' + rng.IntN(3)))}
			}
			all = append(all, e)
		}
		slices.SortStableFunc(all, func(a, b Entry) int { return a.At.Compare(b.At) })
		stays := map[string]bool{}
		for i, e := range all {
			if e.Wrong != "" {
				continue
			}
			later := 0
			for _, o := range all[i+1:] {
				if o.Wrong == "" && o.Backup.Server == e.Backup.Server {
					later++
				}
			}
			stays[e.ID] = later == 0 || later < policy.Last || policy.Since > 0 && someTime.Sub(e.At) < policy.Since
		}
		goes := policy.doomed(all)
		for _, e := range all {
			gone := slices.ContainsFunc(goes, func(o Entry) bool { return o.ID == e.ID })
			if e.Wrong == "" && gone == stays[e.ID] {
				t.Fatalf("seed %d: %+v: %s goes: %t; all: %+v", seed, policy, e.ID, gone, all)
			}
			newer := !slices.ContainsFunc(all, func(o Entry) bool { return stays[o.ID] && o.At.Before(e.At) })
			if e.Wrong != "" && gone && !newer {
				t.Fatalf("seed %d: a damaged one goes that is newer than one that stays", seed)
			}
			replaced := slices.ContainsFunc(all, func(o Entry) bool {
				return stays[o.ID] && (e.Backup == nil || e.Backup.Server == o.Backup.Server)
			})
			if e.Wrong != "" && gone && !replaced {
				t.Fatalf("seed %d: a damaged one goes, and no whole one of its server stays", seed)
			}
		}
	}
}

// TestPrune: the parts that no backup needs are removed, and parts of a push that broke off are removed a day later. A
// dry run removes nothing.
func TestPrune(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	c := contents(1, 3)
	pushed(t, r, c, "host:1", someTime)
	c["a.1.incr.aof"] = append(c["a.1.incr.aof"], "more"...)
	last := pushed(t, r, c, "host:1", someTime.Add(time.Hour)).Backup
	orphan := strings.Repeat("ab", 32)
	server.Change("p/parts/other", func([]byte) []byte { return []byte("not ours") })
	r2 := opened(t, server)
	if _, err := r2.Store.Put(t.Context(), partKey(orphan), []byte("of a push that broke off")); err != nil {
		t.Fatal(err)
	}
	before := server.Keys("")
	policy := Policy{Last: 1, Now: someTime, Dry: true}
	if d, err := r.Prune(t.Context(), policy); err != nil || len(d.Backups) != 1 || d.Kept != 1 || d.Parts != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if !slices.Equal(server.Keys(""), before) {
		t.Error("a dry run has changed the store")
	}
	policy.Dry = false
	if d, err := r.Prune(t.Context(), policy); err != nil || len(d.Backups) != 1 || d.Parts != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	server.Age("p/"+partKey(orphan), 25*time.Hour)
	if d, err := r.Prune(t.Context(), policy); err != nil || len(d.Backups) != 0 || d.Parts != 1 || d.Bytes != 24 {
		t.Errorf("%+v, %v", d, err)
	}
	pulled(t, r, last, c)
	if len(server.Keys("p/parts/other")) != 1 {
		t.Error("an object that is no part was removed")
	}
}

// TestChangingFile: a file that grows, shrinks or cannot be read makes no backup.
func TestChangingFile(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	c := contents(1, 3)
	grows := c.set("host:1", someTime)
	grows.Files[1].Changed = func() error { return errors.New("it has changed") }
	short := c.set("host:1", someTime)
	short.Files[0].Bytes++
	for want, set := range map[string]Set{"it has changed": grows, "a.1.base.rdb: 1000 bytes before its end": short} {
		if _, err := r.Push(t.Context(), set, false, nothing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if all := listed(t, r); len(all) != 0 {
		t.Errorf("list: %+v", all)
	}
}

// TestUncheckedStore: parts are read back from a store that computes no checksum, and a changed part is found.
func TestUncheckedStore(t *testing.T) {
	server := s3test.Start(t)
	server.WithoutSums()
	r := opened(t, server)
	c := contents(1, 3)
	var reads atomic.Int64 // parts are read at the same time
	server.Before(func(_ int, q *http.Request) *s3test.Fault {
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/parts/") {
			if reads.Add(1) == 2 {
				key := strings.TrimPrefix(q.URL.Path, "/"+s3test.Bucket+"/")
				server.Change(key, func(b []byte) []byte { b[0] ^= 1; return b })
			}
		}
		return nil
	})
	r.Tell = func(string) {}
	if _, err := r.Push(t.Context(), c.set("host:1", someTime), false, nothing); err == nil ||
		!strings.Contains(err.Error(), "comes back from the store otherwise") {
		t.Error(err)
	}
}

// FuzzManifest: no object in the place of a manifest causes a panic, or a name that leads out of the folder of a pull.
func FuzzManifest(f *testing.F) {
	k, err := NewKey(bytes.Repeat([]byte{1}, secretBytes))
	if err != nil {
		f.Fatal(err)
	}
	id := "20261126T174012Z-01234567"
	part := strings.Repeat("0a", 32)
	body := `{"id":"` + id + `","files":[{"name":"a","bytes":3,"parts":[{"name":"` + part + `","bytes":3}]}]}`
	f.Add([]byte(manifestHead+"plain 00\n"+body), []byte(body))
	f.Add([]byte(manifestHead+"aes-256-gcm "+k.ID()+" 00\n"), []byte(strings.Replace(body, `"a"`, `"../a"`, 1)))
	f.Fuzz(func(t *testing.T, object, body []byte) {
		_, _, _ = openManifest([]*Key{k}, id, object)
		for _, key := range []*Key{nil, k} {
			sealed, err := key.sealManifest(id, body)
			if err != nil {
				t.Fatal(err)
			}
			back, with, err := openManifest([]*Key{k}, id, sealed)
			if err != nil || !bytes.Equal(back, body) || with != key {
				t.Fatalf("%q comes back as %q, %v", body, back, err)
			}
		}
		b := &Backup{}
		if parse(body, id, b) == nil {
			b.each(func(_ *File, p Part) {
				if p.Bytes < 1 || p.Bytes > PartBytes {
					t.Fatalf("a part of %d bytes", p.Bytes)
				}
			})
			for _, file := range b.Files {
				if filepath.Join("into", file.Name) != "into/"+file.Name {
					t.Fatalf("a file of the name %q", file.Name)
				}
			}
		}
	})
}

// TestPushAfterSleepDuringPrune: a push was taken for dead by a prune that is still removing parts. The push waits for
// the prune's end before it looks whether its parts are there.
func TestPushAfterSleepDuringPrune(t *testing.T) {
	server := s3test.Start(t)
	r := opened(t, server)
	c := contents(1, 2)
	var prune *lock
	asked := 0
	server.Before(func(_ int, q *http.Request) *s3test.Fault {
		switch {
		case q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/p/backups/"):
			for _, key := range server.Keys("p/pushing/") {
				server.Change(key, func([]byte) []byte { return nil })
			}
			prune = &lock{r: r, key: pruneFolder + "other", body: []byte("{}")}
			if err := prune.write(t.Context()); err != nil {
				t.Error(err)
			}
		case prune != nil && strings.Contains(q.URL.RawQuery, "pruning"):
			if asked++; asked == 3 {
				for _, key := range append(server.Keys("p/parts/"), "p/"+prune.key) {
					server.Change(key, func([]byte) []byte { return nil })
				}
			}
		}
		return nil
	})
	if _, err := r.Push(t.Context(), c.set("host:1", someTime), false, nothing); err == nil ||
		!strings.Contains(err.Error(), "push again") {
		t.Errorf("push: %v", err)
	}
	server.Before(nil)
	prune.end()
	if all := listed(t, r); len(all) != 0 {
		t.Errorf("list: %+v", all)
	}
	pushed(t, r, c, "host:1", someTime)
}

// TestPruneAfterSleep: a prune sleeps until a push takes it for dead. The push needs a part that the prune is about to
// remove. The prune stops.
func TestPruneAfterSleep(t *testing.T) {
	server := s3test.Start(t)
	r, sleeper := opened(t, server), opened(t, server)
	old, last := contents(1, 2), contents(2, 2)
	pushed(t, r, old, "host:1", someTime)
	pushed(t, r, last, "host:1", someTime.Add(time.Hour))
	var again *Backup
	server.Before(func(_ int, q *http.Request) *s3test.Fault {
		if q.Method == http.MethodDelete && strings.Contains(q.URL.Path, "/p/backups/") {
			server.Before(nil)
			for _, key := range server.Keys("p/pruning/") {
				server.Age(key, time.Hour+time.Second)
			}
			again = pushed(t, r, old, "host:1", someTime.Add(2*time.Hour)).Backup
		}
		return nil
	})
	if _, err := sleeper.Prune(t.Context(), Policy{Last: 1, Now: someTime}); err == nil ||
		!strings.Contains(err.Error(), "taken for dead") {
		t.Errorf("prune: %v", err)
	}
	pulled(t, r, again, old)
}
