package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

func TestMain(m *testing.M) {
	lockWait = limit // a busy host keeps the lock for longer
	testkit.Waiting(m)
}

// limit is the time limit for anything that a test waits for.
var limit = testkit.Slowly(60 * time.Second)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	t.Cleanup(cancel)
	return ctx
}

// follow returns a client's tables. The client stops before the test removes the store's folder, because the folder
// would be at revision 1 in the middle of that.
func follow(ctx context.Context, t *testing.T, c *Client) <-chan *Table {
	ctx, cancel := context.WithCancel(ctx)
	tables := c.Follow(ctx)
	t.Cleanup(func() {
		cancel()
		for range tables {
		}
	})
	return tables
}

// everyStore runs a test on each kind of store.
func everyStore(t *testing.T, test func(t *testing.T, s Store)) {
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		s, err := OpenFolder(filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, testkit.StartEtcd(t, 1)))
	})
}

func open(t *testing.T, e *testkit.Etcd) *Etcd {
	s := OpenEtcd(e.Addrs(), Options{Timeout: testkit.Slowly(3 * time.Second)})
	t.Cleanup(s.Close)
	return s
}

func put(t *testing.T, s Store, key, value string) int64 {
	t.Helper()
	revision, err := s.Commit(within(t), nil, []Write{{Key: key, Value: []byte(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func keysOf(entries []Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestStore(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		if _, err := s.Get(ctx, "/a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an absent key: %v", err)
		}
		first, err := Put(ctx, s, "/a", []byte(`{"n":1}`), Condition{Key: "/a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Put(ctx, s, "/a", []byte(`2`), Condition{Key: "/a"}); !errors.Is(err, ErrConflict) {
			t.Errorf("a key that is there already: %v", err)
		}
		e, err := s.Get(ctx, "/a")
		if err != nil || string(e.Value) != `{"n":1}` || e.Revision != first || e.Lease != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		second, err := s.Commit(ctx, []Condition{{"/a", first}, {"/b", 0}},
			[]Write{{Key: "/a", Value: []byte("no JSON")}, {Key: "/b/c", Value: []byte{}}, {Key: "/b/.d", Value: []byte("1")}})
		if err != nil || second <= first {
			t.Fatal(second, err)
		}
		entries, revision, err := s.List(ctx, "/")
		if want := []string{"/a", "/b/.d", "/b/c"}; err != nil || !slices.Equal(keysOf(entries), want) || revision != second {
			t.Errorf("%v at %d, %v", keysOf(entries), revision, err)
		}
		if len(entries) == 3 && (string(entries[0].Value) != "no JSON" || entries[2].Value == nil ||
			entries[0].Revision != second) {
			t.Errorf("%+v", entries)
		}
		// If one condition fails, no write is done.
		_, err = s.Commit(ctx, []Condition{{"/a", second}, {"/b/c", first}}, []Write{{Key: "/a", Delete: true}})
		if !errors.Is(err, ErrConflict) {
			t.Errorf("%v", err)
		}
		if _, err := s.Commit(ctx, nil, []Write{{Key: "/b/", Delete: true, Prefix: true}}); err != nil {
			t.Error(err)
		}
		if entries, _, err = s.List(ctx, "/"); err != nil || !slices.Equal(keysOf(entries), []string{"/a"}) {
			t.Errorf("%v, %v", keysOf(entries), err)
		}
		for _, w := range []Write{{}, {Key: strings.Repeat("k", maxKey+1)}, {Key: "/a", Value: make([]byte, maxValue+1)}} {
			if _, err := s.Commit(ctx, nil, []Write{w}); err == nil {
				t.Errorf("a write of %d and %d bytes is accepted", len(w.Key), len(w.Value))
			}
		}
	})
}

// TestCompareAndPut: many writers increment one number by compare and put, and no increment is lost.
func TestCompareAndPut(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		put(t, s, "/n", "0")
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for done := 0; done < 10 && ctx.Err() == nil; {
					e, err := s.Get(ctx, "/n")
					if err != nil {
						t.Error(err)
						return
					}
					var n int
					fmt.Sscan(string(e.Value), &n)
					switch _, err := Put(ctx, s, "/n", fmt.Append(nil, n+1), Condition{"/n", e.Revision}); {
					case err == nil:
						done++
					case !errors.Is(err, ErrConflict):
						t.Error(err)
						return
					}
				}
			})
		}
		writers.Wait()
		if e, err := s.Get(ctx, "/n"); err != nil || string(e.Value) != "40" {
			t.Errorf("%s, %v", e.Value, err)
		}
	})
}

// TestWatchModel changes random entries. The changes that a watch reports add up to the entries of a list. That holds
// for a watch from the beginning, and for a watch from the middle.
func TestWatchModel(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		rng := rand.New(rand.NewPCG(1, 2))
		whole := mirrorOf(ctx, s, 0)
		var part *mirror
		for step := range 60 {
			key := fmt.Sprintf("/w/%d", rng.IntN(8))
			revision, err := s.Commit(ctx, nil, []Write{
				{Key: key, Value: fmt.Append(nil, step), Delete: rng.IntN(4) == 0}, {Key: "/other", Value: []byte("x")}})
			if err != nil {
				t.Fatal(err)
			}
			if step == 30 {
				part = mirrorOf(ctx, s, revision)
				entries, _, err := s.List(ctx, "/w/")
				if err != nil {
					t.Fatal(err)
				}
				part.mu.Lock()
				for _, e := range entries {
					if _, told := part.values[e.Key]; !told {
						part.values[e.Key] = string(e.Value)
					}
				}
				part.mu.Unlock()
			}
		}
		whole.await(t, s)
		part.await(t, s)
	})
}

// A mirror is the state that results from the changes of a watch.
type mirror struct {
	mu     sync.Mutex
	values map[string]string
	errs   []error
	resets int
}

func mirrorOf(ctx context.Context, s Store, from int64) *mirror {
	m := &mirror{values: map[string]string{}}
	changes := s.Watch(ctx, "/w/", from)
	go func() {
		for c := range changes {
			m.take(c)
		}
	}()
	return m
}

func (m *mirror) take(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Err != nil {
		m.errs = append(m.errs, c.Err)
		return
	}
	if c.Reset {
		m.resets++
		clear(m.values)
	}
	for _, e := range c.Entries {
		if e.Value == nil {
			delete(m.values, e.Key)
		} else {
			m.values[e.Key] = string(e.Value)
		}
	}
}

// await waits until the mirror has the store's entries.
func (m *mirror) await(t *testing.T, s Store) {
	t.Helper()
	testkit.Until(t, limit, "the watch", func() error {
		entries, _, err := s.List(within(t), "/w/")
		if err != nil {
			return err
		}
		want := map[string]string{}
		for _, e := range entries {
			want[e.Key] = string(e.Value)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if !maps.Equal(m.values, want) {
			return fmt.Errorf("the watch has %v, the store %v", m.values, want)
		}
		return nil
	})
}

func (m *mirror) outages() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.errs)
}

func TestLease(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		watched := mirrorOf(ctx, s, 0)
		session, cancel := context.WithCancel(ctx)
		const ttl = 4 * time.Second // a busy host may delay a call for a second
		n, err := NewSession(session, s, testkit.Slowly(ttl))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(ctx, nil, []Write{{Key: "/w/leased", Value: []byte("1"), Lease: n.Lease}}); err != nil {
			t.Fatal(err)
		}
		watched.await(t, s)
		testkit.Lapse(testkit.Slowly(ttl * 3 / 2)) // it is kept alive
		if e, err := s.Get(ctx, "/w/leased"); err != nil || e.Lease != n.Lease {
			t.Errorf("%+v, %v", e, err)
		}
		cancel()
		<-n.Lost()
		testkit.Until(t, limit, "the end of the lease", func() error {
			if _, err := s.Get(ctx, "/w/leased"); !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("the entry is there: %v", err)
			}
			return nil
		})
		watched.await(t, s)
		if err := s.KeepAlive(ctx, n.Lease); !errors.Is(err, ErrLapsed) {
			t.Errorf("keeping a lapsed lease alive: %v", err)
		}
		_, err = s.Commit(ctx, nil, []Write{{Key: "/w/late", Value: []byte("1"), Lease: n.Lease}})
		if !errors.Is(err, ErrLapsed) {
			t.Errorf("a write under a lapsed lease: %v", err)
		}
	})
}

// TestElection: only one candidate leads at a time, and the next one leads after it resigns. A write of a former leader
// is refused.
func TestElection(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		led := make(chan *Leadership)
		for i := range 3 {
			go func() {
				l, err := Campaign(ctx, s, "/leader", fmt.Append(nil, i), testkit.Slowly(20*time.Second), func([]byte, error) {})
				if err == nil {
					led <- l
				}
			}()
		}
		var former *Leadership
		for range 3 {
			var l *Leadership
			select {
			case l = <-led:
			case <-ctx.Done():
				t.Fatal("no candidate leads")
			}
			select {
			case <-led:
				t.Fatal("two lead")
			default:
			}
			write := []Write{{Key: "/w/by-leader", Value: []byte("1")}}
			if _, err := s.Commit(ctx, []Condition{l.Condition}, write); err != nil {
				t.Errorf("the leader's write: %v", err)
			}
			if former != nil {
				if _, err := s.Commit(ctx, []Condition{former.Condition}, write); !errors.Is(err, ErrConflict) {
					t.Errorf("a former leader's write: %v", err)
				}
			}
			l.Resign(ctx)
			former = l
		}
	})
}

// A beaten is a store in which another process creates the key first, and deletes it before a watch begins.
type beaten struct {
	Store
	commits atomic.Int64
}

func (b *beaten) Commit(ctx context.Context, conditions []Condition, writes []Write) (int64, error) {
	if b.commits.Add(1) == 1 {
		return 0, ErrConflict
	}
	return b.Store.Commit(ctx, conditions, writes)
}

// TestCampaignAfterAShortReign: a candidate that lost to a short leader leads soon, even if no watch has reported that
// leader.
func TestCampaignAfterAShortReign(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		l, err := Campaign(ctx, &beaten{Store: s}, "/leader", []byte("1"), testkit.Slowly(10*time.Second),
			func([]byte, error) {})
		if err != nil {
			t.Fatal(err)
		}
		l.Resign(ctx)
	})
}

// TestCompaction: if the revisions of a watch were compacted, the watch starts again with a list.
func TestCompaction(t *testing.T) {
	t.Parallel()
	s := open(t, testkit.StartEtcd(t, 1))
	ctx := within(t)
	from := put(t, s, "/w/a", "1")
	put(t, s, "/w/b", "1")
	if _, err := s.Commit(ctx, nil, []Write{{Key: "/w/a", Delete: true}}); err != nil {
		t.Fatal(err)
	}
	last := put(t, s, "/w/c", "1")
	var none struct{}
	if err := s.call(ctx, "/v3/kv/compaction", map[string]any{"revision": last, "physical": true}, &none, false); err !=
		nil {
		t.Fatal(err)
	}
	changes := s.Watch(ctx, "/w/", from)
	c := <-changes
	if !c.Reset || !slices.Equal(keysOf(c.Entries), []string{"/w/b", "/w/c"}) {
		t.Errorf("after the compaction: %+v", c)
	}
	put(t, s, "/w/d", "1")
	if c = <-changes; c.Reset || !slices.Equal(keysOf(c.Entries), []string{"/w/d"}) {
		t.Errorf("the next change: %+v", c)
	}
}

// leader returns the index of the member that leads. Each member reports the leader in its status.
func leader(t *testing.T, e *testkit.Etcd) int {
	t.Helper()
	found := -1
	testkit.Until(t, limit, "etcd's leader", func() error {
		for i, m := range e.Members {
			var status struct {
				Header struct {
					Member string `json:"member_id"`
				} `json:"header"`
				Leader string `json:"leader"`
			}
			one := OpenEtcd([]string{m.Addr}, Options{Timeout: testkit.Slowly(time.Second)})
			err := one.call(within(t), "/v3/maintenance/status", struct{}{}, &status, false)
			one.Close()
			if err == nil && status.Leader == status.Header.Member && status.Leader != "" {
				found = i
				return nil
			}
		}
		return errors.New("none leads")
	})
	return found
}

// TestChangeOfLeader repeatedly kills the leader of three members. Watches, leases and writes continue.
func TestChangeOfLeader(t *testing.T) {
	t.Parallel()
	e := testkit.StartEtcd(t, 3)
	s := open(t, e)
	ctx := within(t)
	watched := mirrorOf(ctx, s, 0)
	session, err := NewSession(ctx, s, testkit.Slowly(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		at := leader(t, e)
		e.Members[at].Kill()
		testkit.Until(t, limit, "a write without the old leader", func() error {
			_, err := s.Commit(ctx, nil, []Write{{Key: fmt.Sprintf("/w/%d", round), Value: []byte("1"), Lease: session.Lease}})
			return err
		})
		watched.await(t, s)
		e.Members[at].Restart()
		e.Members[at].AwaitReady()
	}
	select {
	case <-session.Lost():
		t.Error("the lease was lost")
	default:
	}
}

// TestOutage: when etcd is down for some seconds, a watch reports it once and then continues.
func TestOutage(t *testing.T) {
	t.Parallel()
	e := testkit.StartEtcd(t, 1)
	s := open(t, e)
	ctx := within(t)
	watched := mirrorOf(ctx, s, 0)
	put(t, s, "/w/a", "1")
	watched.await(t, s)
	e.Members[0].Kill()
	testkit.Await(t, limit, "news of the outage", func() bool { return watched.outages() == 1 })
	if _, err := s.Get(ctx, "/w/a"); err == nil {
		t.Error("a dead etcd answers")
	}
	testkit.Lapse(3 * time.Second)
	e.Members[0].Restart()
	e.Members[0].AwaitReady()
	put(t, s, "/w/b", "1")
	watched.await(t, s)
	if n := watched.outages(); n != 1 {
		t.Errorf("one outage was told %d times: %v", n, watched.errs)
	}
}

// TestUserAndPassword: an etcd with authentication refuses calls without the password. A token that etcd has forgotten
// is renewed.
func TestUserAndPassword(t *testing.T) {
	t.Parallel()
	e := testkit.StartEtcd(t, 1, "--auth-token-ttl", "1")
	s, ctx := open(t, e), within(t)
	var none struct{}
	for _, step := range []struct {
		path string
		body any
	}{
		{"/v3/auth/user/add", map[string]string{"name": "root", "password": "secret"}},
		{"/v3/auth/role/add", map[string]string{"name": "root"}},
		{"/v3/auth/user/grant", map[string]string{"user": "root", "role": "root"}},
		{"/v3/auth/enable", none},
	} {
		if err := s.call(ctx, step.path, step.body, &none, true); err != nil {
			t.Fatalf("%s: %v", step.path, err)
		}
	}
	if _, _, err := s.List(ctx, "/"); err == nil {
		t.Error("a list without a user is answered")
	}
	patient := testkit.Slowly(20 * time.Second) // etcd's check of a password costs it much
	wrong := OpenEtcd(e.Addrs(), Options{User: "root", Password: "guess", Timeout: patient})
	defer wrong.Close()
	if _, err := wrong.Get(ctx, "/a"); err == nil || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("with a wrong password: %v", err)
	}
	right := OpenEtcd(e.Addrs(), Options{User: "root", Password: "secret", Timeout: patient})
	defer right.Close()
	watched := mirrorOf(ctx, right, 0)
	put(t, right, "/w/a", "1")
	watched.await(t, right)
	session, err := NewSession(ctx, right, patient)
	if err != nil {
		t.Fatal(err)
	}
	right.token.Lock()
	right.token.text = "forgotten.1" // as after a restart of etcd
	right.token.Unlock()
	if _, err := right.Commit(ctx, nil, []Write{{Key: "/w/b", Value: []byte("1"), Lease: session.Lease}}); err != nil {
		t.Errorf("with an old token: %v", err)
	}
	watched.await(t, right)
	e.Members[0].Restart()
	e.Members[0].AwaitReady()
	testkit.Until(t, limit, "a write after a restart", func() error {
		_, err := right.Commit(ctx, nil, []Write{{Key: "/w/c", Value: []byte("1")}})
		return err
	})
	watched.await(t, right)
}

// TestCertificates: with etcds:// a store uses TLS and presents a client certificate to etcd. Settings name the files.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := testkit.NewCertificates(t)
	e := testkit.StartEtcd(t, 1, "--cert-file", c.File("server.crt"), "--key-file", c.File("server.key"),
		"--trusted-ca-file", c.File("ca.crt"), "--client-cert-auth")
	with := func(certificate bool) Store {
		var s Settings
		s.Rows()
		s.Address.Set("etcds://" + e.Members[0].Addr)
		s.CAFile.Set(c.File("ca.crt"))
		if certificate {
			s.Cert.Set(c.File("client.crt"))
			s.Key.Set(c.File("client.key"))
		}
		opened, err := Open(&s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.Close)
		return opened
	}
	ctx, good := within(t), with(true)
	watched := mirrorOf(ctx, good, 0)
	testkit.Until(t, limit, "a write", func() error {
		_, err := good.Commit(ctx, nil, []Write{{Key: "/w/a", Value: []byte("1")}})
		return err
	})
	watched.await(t, good)
	// The files of an open store are renewed: at first, another authority has signed its certificate.
	other := testkit.NewCertificates(t)
	var s Settings
	s.Rows()
	s.Address.Set("etcds://" + e.Members[0].Addr)
	s.CAFile.Set(c.File("ca.crt"))
	s.Cert.Set(other.File("client.crt"))
	s.Key.Set(other.File("client.key"))
	old, err := Open(&s)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := old.Get(ctx, "/w/a"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("with a foreign certificate: %v", err)
	}
	for _, name := range []string{"client.crt", "client.key"} {
		text, err := os.ReadFile(c.File(name))
		if err == nil {
			err = os.WriteFile(other.File(name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := old.Get(ctx, "/w/a"); err != nil {
		t.Errorf("with a renewed certificate: %v", err)
	}
	if _, err := with(false).Get(ctx, "/w/a"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a certificate: %v", err)
	}
	clear := OpenEtcd(e.Addrs(), Options{Timeout: testkit.Slowly(3 * time.Second)})
	defer clear.Close()
	if _, err := clear.Get(ctx, "/w/a"); err == nil {
		t.Error("etcd answers in the clear")
	}
}

// TestStoppedMembers suspends members without killing them. Calls and watches switch to the other members within their
// deadlines.
func TestStoppedMembers(t *testing.T) {
	t.Parallel()
	e := testkit.StartEtcd(t, 3)
	s := OpenEtcd(e.Addrs(), Options{Timeout: testkit.Slowly(time.Second)})
	defer s.Close()
	ctx := within(t)
	watched := mirrorOf(ctx, s, 0)
	put(t, s, "/w/a", "1")
	watched.await(t, s)
	at := leader(t, e)
	e.Members[at].Signal(syscall.SIGSTOP)
	testkit.Until(t, limit, "a write", func() error {
		_, err := s.Commit(ctx, nil, []Write{{Key: "/w/b", Value: []byte("1")}})
		return err
	})
	watched.await(t, s)
	e.Members[at].Signal(syscall.SIGCONT)
}

func TestSettings(t *testing.T) {
	for _, good := range []string{"", "etcd://a:1", "etcd://a:1,b:2", "etcds://[::1]:2379", "folder:/tmp/x"} {
		if err := checkStore(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"a:1", "etcd://", "etcd://a", "etcd://a:1,", "http://a:1", "folder:", "etcd://a:x"} {
		if err := checkStore(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	for prefix, good := range map[string]bool{"/spindle": true, "/a/b": true, "": false, "a": false, "/a/": false,
		"/a//b": false} {
		if err := checkPrefix(prefix); (err == nil) != good {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// TestLeaderWithoutKey: a leader whose key was deleted or replaced no longer leads, although its lease continues.
func TestLeaderWithoutKey(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		for _, w := range []Write{{Key: "/leader", Delete: true}, {Key: "/leader", Value: []byte(`"another"`)}} {
			l, err := Campaign(ctx, s, "/leader", []byte(`"1"`), testkit.Slowly(10*time.Minute), func([]byte, error) {})
			if err != nil {
				t.Fatal(err)
			}
			commit(t, s, Write{Key: "/leader/other", Value: []byte("1")})
			if !l.Holds() {
				t.Error("the leadership is lost without a reason")
			}
			commit(t, s, w)
			select {
			case <-l.Lost():
			case <-ctx.Done():
				t.Fatalf("it still leads after %+v", w)
			}
			l.Resign(ctx)
		}
	})
}

// TestFolderThatCannotWrite: a folder refuses a key that has no name of a file, and serves on. If it cannot complete a
// commit, the error says that the commit may be done, and it is done later.
func TestFolderThatCannotWrite(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "/w/a", "1")
	_, err = s.Commit(within(t), nil, []Write{{Key: "/w/" + strings.Repeat("%", 100), Value: []byte("1")}})
	if maybe := (*MaybeError)(nil); err == nil || errors.As(err, &maybe) {
		t.Errorf("a key of 300 bytes as a file: %v", err)
	}
	put(t, s, "/w/a", "2")
	obstacle := filepath.Join(dir, "keys", "w", "b.json")
	if err := os.MkdirAll(filepath.Join(obstacle, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(within(t), nil, []Write{{Key: "/w/b", Value: []byte("1")}})
	if maybe := (*MaybeError)(nil); !errors.As(err, &maybe) {
		t.Errorf("a commit that is not completed: %v", err)
	}
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(within(t), "/w/b"); err != nil || string(e.Value) != "1" {
		t.Errorf("%+v, %v", e, err)
	}
}
