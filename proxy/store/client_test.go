package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// encode returns the value of a valid entry.
func encode(t *testing.T, v Checked) []byte {
	t.Helper()
	text, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// shop returns the writes that make the product "shop" with the groups a and b. Group a has all slots.
func shop(t *testing.T) []Write {
	return []Write{
		{Key: "/s/shop/product", Value: encode(t, &Product{Name: "shop", Kind: KindGroups, Hash: HashCRC16, Slots: 16384})},
		{Key: "/s/shop/groups/a", Value: encode(t, group("a", "10.0.0.1:6379"))},
		{Key: "/s/shop/groups/b", Value: encode(t, group("b", "10.0.0.2:6379"))},
		{Key: "/s/shop/slots", Value: encode(t, &Slots{Slots: 16384, Ranges: []Range{{From: 0, To: 16383, Group: "a"}}})},
	}
}

func group(id, primary string) *Group {
	return &Group{ID: id, Primary: primary, Servers: []Server{{Address: primary}}}
}

// complaints collects the warnings of a client.
type complaints struct {
	mu   sync.Mutex
	list []error
}

func (c *complaints) warn(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, err)
}

func (c *complaints) has(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.list {
		if strings.Contains(err.Error(), text) {
			return nil
		}
	}
	return fmt.Errorf("no warning has %q: %v", text, c.list)
}

// next returns the next table whose revision is at least revision.
func next(t *testing.T, tables <-chan *Table, revision int64) *Table {
	t.Helper()
	for table := range tables {
		if table.Revision >= revision {
			return table
		}
	}
	t.Fatal("no table came")
	return nil
}

func commit(t *testing.T, s Store, writes ...Write) int64 {
	t.Helper()
	revision, err := s.Commit(within(t), nil, writes)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// TestFollow: a proxy gets each state of the table. An entry that is damaged, unknown, of an old schema or impossible
// changes nothing.
func TestFollow(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx, problems := within(t), &complaints{}
		c := NewClient(s, "/s", "shop", problems.warn)
		tables := follow(ctx, t, c)
		testkit.Until(t, limit, "word of the missing product", func() error { return problems.has("no such product") })
		table := next(t, tables, commit(t, s, shop(t)...))
		if table.Groups["b"].Primary != "10.0.0.2:6379" || table.Slots[16383] != (Slot{Group: "a"}) || len(table.Groups) !=
			2 {
			t.Errorf("%+v", table)
		}
		moving := &Slots{Slots: 16384, Ranges: []Range{{From: 0, To: 9, Group: "a", State: Prepare, Target: "b"},
			{From: 10, To: 19, Group: "a", State: Migrating, Target: "b"}, {From: 20, To: 29, Group: "b"}}}
		good := commit(t, s, Write{Key: "/s/shop/slots", Value: encode(t, moving)})
		table = next(t, tables, good)
		for slot, want := range map[int]Slot{0: {Group: "a", Held: true}, 9: {Group: "a", Held: true},
			10: {Group: "b", Source: "a"}, 19: {Group: "b", Source: "a"}, 20: {Group: "b"}, 30: {}} {
			if table.Slots[slot] != want {
				t.Errorf("slot %d is %+v, want %+v", slot, table.Slots[slot], want)
			}
		}
		// Another entry is newer than the refused one. The table of both is not confirmed as the refused one's.
		bad := commit(t, s, Write{Key: "/s/shop/slots", Value: []byte(`{"schema":"spindle.slots/2"}`)})
		commit(t, s, shop(t)[2])
		if table = next(t, tables, 0); table.Revision >= bad {
			t.Errorf("a table without revision %d has revision %d", bad, table.Revision)
		}
		for value, reason := range map[string]string{
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":0`: "no JSON",
			`{"schema":"spindle.slots/0","slots":16384,"ranges":[]}`:        "spindle.slots/0",
			`{"slots":16384,"ranges":[]}`:                                   "no schema",
			`[1,2]`:                                                         "no JSON object",
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":5,"to":4,"group":"a"}]}`:                  "out of order",
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":0,"to":16384,"group":"a"}]}`:              "out of bounds",
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[],"more":1}`:                                      "unknown field",
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":0,"to":1,"group":"z"}]}`:                  "does not exist",
			`{"schema":"spindle.slots/1","slots":1024,"ranges":[]}`:                                                "1024 slots",
			`{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":0,"to":1,"group":"a","state":"sleepy"}]}`: "sleepy",
		} {
			commit(t, s, Write{Key: "/s/shop/slots", Value: []byte(value)})
			testkit.Until(t, limit, "a warning", func() error {
				return errors.Join(problems.has(reason), problems.has("/s/shop/slots"))
			})
		}
		select {
		case table := <-tables:
			t.Errorf("a table of a bad entry: %+v", table)
		default:
		}
		table = next(t, tables, commit(t, s, shop(t)[3]))
		if table.Slots[5] != (Slot{Group: "a"}) {
			t.Errorf("after the repair slot 5 is %+v", table.Slots[5])
		}
		// A group that the table names cannot be deleted; another group can.
		commit(t, s, Write{Key: "/s/shop/groups/a", Delete: true})
		testkit.Until(t, limit, "a warning", func() error { return problems.has(`name group "a", which does not exist`) })
		table = next(t, tables, commit(t, s, shop(t)[1], Write{Key: "/s/shop/groups/b", Delete: true}))
		if len(table.Groups) != 1 {
			t.Errorf("%v", table.Groups)
		}
	})
}

// registration returns a proxy's entry in the store.
func registration(ctx context.Context, s Store) (p Proxy, err error) {
	e, err := s.Get(ctx, "/s/shop/proxies/127.0.0.1:7000")
	if err == nil {
		err = Decode(e, &p)
	}
	return p, err
}

func TestRegister(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx, problems := within(t), &complaints{}
		commit(t, s, shop(t)...)
		serving, stop := context.WithCancel(ctx)
		defer stop()
		c := NewClient(s, "/s", "shop", problems.warn)
		if err := c.Register(serving, Proxy{ID: "a/b"}); err == nil {
			t.Error("an impossible ID is registered")
		}
		if err := c.Register(serving, Proxy{ID: "127.0.0.1:7000", Address: "127.0.0.1:7000"}); err != nil {
			t.Fatal(err)
		}
		confirmed := func(want int64) func() error {
			return func() error {
				p, err := registration(ctx, s)
				if err == nil && p.Confirmed != want {
					err = fmt.Errorf("revision %d is confirmed, want %d", p.Confirmed, want)
				}
				return err
			}
		}
		c.Confirm(7)
		testkit.Until(t, limit, "the confirmation", confirmed(7))
		c.Confirm(5) // an older one changes nothing
		c.Confirm(9)
		testkit.Until(t, limit, "the confirmation", confirmed(9))
		testkit.Until(t, limit, "the presence", func() error {
			_, err := s.Get(ctx, "/s/shop/present/127.0.0.1:7000")
			return err
		})
		// An operator removes the registration because the proxy seems dead.
		commit(t, s, Write{Key: "/s/shop/proxies/127.0.0.1:7000", Delete: true})
		c.Confirm(11)
		testkit.Until(t, limit, "the second registration", confirmed(11))
		stop()
		testkit.Until(t, limit, "the end of the presence", func() error {
			if _, err := s.Get(ctx, "/s/shop/present/127.0.0.1:7000"); !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
		if err := confirmed(11)(); err != nil {
			t.Errorf("a proxy that is cut off is no longer registered: %v", err)
		}
		if err := c.Unregister(ctx); err != nil {
			t.Error(err)
		}
		if _, err := registration(ctx, s); !errors.Is(err, ErrNotFound) {
			t.Errorf("after Unregister: %v", err)
		}
	})
}

// TestRegisterTwice: a second process under the same ID takes over the registration, and the first process is warned.
func TestRegisterTwice(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx, problems := within(t), &complaints{}
		commit(t, s, shop(t)...)
		info := Proxy{ID: "127.0.0.1:7000", Address: "127.0.0.1:7000"}
		first, second := NewClient(s, "/s", "shop", problems.warn),
			NewClient(s, "/s", "shop", func(err error) { t.Error(err) })
		tables := follow(ctx, t, first)
		go func() {
			for range tables {
			}
		}()
		for _, c := range []*Client{first, second} {
			if err := c.Register(ctx, info); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Unregister(context.Background()) })
		}
		testkit.Until(t, limit, "a warning", func() error { return problems.has(ErrReplaced.Error()) })
		first.Confirm(5)
		if err := first.Unregister(ctx); err != nil {
			t.Error(err)
		}
		if _, err := registration(ctx, s); err != nil {
			t.Errorf("the first one has removed the second one's registration: %v", err)
		}
		second.Confirm(3)
		testkit.Until(t, limit, "the second one's confirmation", func() error {
			p, err := registration(ctx, s)
			if err == nil && p.Confirmed != 3 {
				err = fmt.Errorf("revision %d is confirmed", p.Confirmed)
			}
			return err
		})
	})
}

// FuzzEntry: no bytes of an entry make Decode panic. An accepted entry stays the same when it is encoded and decoded
// again.
func FuzzEntry(f *testing.F) {
	t := &testing.T{}
	for i, w := range shop(t) {
		f.Add(i, w.Value)
	}
	f.Add(4,
		[]byte(`{"schema":"spindle.move/1","id":"m","state":"running","steps":[{"from":1,"to":2,"source":"a","target":"b"}]}`))
	f.Fuzz(func(t *testing.T, kind int, value []byte) {
		fresh := func() Checked {
			all := []Checked{new(Product), new(Group), new(Group), new(Slots), new(Move), new(Sentinels), new(Proxy),
				new(Presence), new(Progress), new(Leader), new(Token), new(Audit)}
			return all[uint(kind)%uint(len(all))]
		}
		v := fresh()
		if err := Decode(Entry{Key: "/s/x", Value: value}, v); err != nil {
			if refused := (*EntryError)(nil); !errors.As(err, &refused) || refused.Reason == "" || refused.Key == "" {
				t.Fatalf("the error %v names no key and reason", err)
			}
			return
		}
		again, err := Encode(v)
		if err != nil {
			t.Fatalf("%s was read, and cannot be written: %v", value, err)
		}
		w := fresh()
		if err := Decode(Entry{Key: "/s/x", Value: again}, w); err != nil {
			t.Fatalf("%s was written, and is refused: %v", again, err)
		}
		if third, err := Encode(w); err != nil || string(third) != string(again) {
			t.Fatalf("%s was written as %s, %v", again, third, err)
		}
	})
}

// FuzzTable: no entries of a product make a table that names a group without an entry, or that has a wrong number of
// slots.
func FuzzTable(f *testing.F) {
	t := &testing.T{}
	seeds := shop(t)
	f.Add(seeds[0].Value, seeds[1].Value, seeds[3].Value)
	f.Fuzz(func(t *testing.T, product, group, slots []byte) {
		v := newView("/s/shop/")
		v.take(Change{Reset: true, Entries: []Entry{{Key: "/s/shop/product", Value: product, Revision: 1},
			{Key: "/s/shop/groups/a", Value: group, Revision: 2}, {Key: "/s/shop/slots", Value: slots, Revision: 3}}})
		table, err := v.table()
		if err != nil {
			return
		}
		if table.Product.Kind == KindGroups && len(table.Slots) != table.Product.Slots {
			t.Fatalf("%d slots of %d", len(table.Slots), table.Product.Slots)
		}
		for slot, s := range table.Slots {
			if s.Group != "" && table.Groups[s.Group] == nil || s.Source != "" && table.Groups[s.Source] == nil {
				t.Fatalf("slot %d is %+v", slot, s)
			}
		}
	})
}

// TestRegisterSeesTheNewestTable: once registered, a proxy can read the table as of its registration.
func TestRegisterSeesTheNewestTable(t *testing.T) {
	everyStore(t, func(t *testing.T, s Store) {
		ctx := within(t)
		commit(t, s, shop(t)...)
		for i := range 10 {
			client := NewClient(s, "/s", "shop", func(err error) { t.Error(err) })
			tables := follow(ctx, t, client)
			revision := commit(t, s, shop(t)[3])
			info := Proxy{ID: fmt.Sprintf("p:%d", i), Address: "127.0.0.1:7000"}
			if err := client.Register(ctx, info); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Unregister(context.Background()) }) // ends writes to the folder
			select {
			case table := <-tables:
				if table.Revision != revision {
					t.Errorf("the table is of revision %d, want %d", table.Revision, revision)
				}
			default:
				t.Error("there is no table")
			}
		}
	})
}

// TestRestore: after a store was restored from a backup, a proxy confirms the tables of then. Older confirmations do
// not count, although their revisions are higher.
func TestRestore(t *testing.T) {
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		dir, saved := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "saved")
		s, err := OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		replace := func(to, from string) {
			t.Helper()
			if err := s.locked(within(t), func() error {
				for _, name := range []string{"keys", "revision"} {
					err := os.RemoveAll(filepath.Join(to, name))
					if err == nil && name == "keys" {
						err = os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name)))
					} else if err == nil {
						var text []byte
						if text, err = os.ReadFile(filepath.Join(from, name)); err == nil {
							err = os.WriteFile(filepath.Join(to, name), text, 0o600)
						}
					}
					if err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(saved, 0o700); err != nil {
			t.Fatal(err)
		}
		testRestore(t, s, func() (restore func()) {
			replace(saved, dir)
			return func() { replace(dir, saved) }
		})
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		e := testkit.StartEtcd(t, 1)
		testRestore(t, open(t, e), e.Members[0].Save)
	})
}

func testRestore(t *testing.T, s Store, save func() (restore func())) {
	ctx, problems := within(t), &complaints{}
	commit(t, s, shop(t)...)
	c := NewClient(s, "/s", "shop", problems.warn)
	tables := follow(ctx, t, c)
	if err := c.Register(ctx, Proxy{ID: "p1"}); err != nil {
		t.Fatal(err)
	}
	confirmed := func() int64 {
		e, err := s.Get(ctx, "/s/shop/proxies/p1")
		if err != nil {
			t.Fatal(err)
		}
		p, err := RegistrationOf(e)
		if err != nil {
			t.Fatal(err)
		}
		return p.Confirmed
	}
	awaits := func(revision int64) {
		t.Helper()
		testkit.Until(t, limit, "the confirmation", func() error {
			if got := confirmed(); got < revision {
				return fmt.Errorf("revision %d is confirmed, and not %d", got, revision)
			}
			return nil
		})
	}
	// A second proxy begins again after the backup, under the same ID.
	started := time.Now().UTC()
	commit(t, s, Write{Key: "/s/shop/proxies/p2",
		Value: encode(t, &Proxy{ID: "p2", Instance: "before", Started: started.Add(-time.Hour)})})
	restore, last := save(), int64(0)
	second := NewClient(s, "/s", "shop", problems.warn)
	follow(ctx, t, second)
	for range 200 {
		last = commit(t, s, shop(t)[3])
	}
	c.Confirm(next(t, tables, last).Revision)
	awaits(last)
	if err := second.Register(ctx, Proxy{ID: "p2", Started: started}); err != nil {
		t.Fatal(err)
	}
	restore()
	now := commit(t, s, Write{Key: "/s/shop/slots", Value: encode(t, &Slots{Slots: 16384,
		Ranges: []Range{{From: 0, To: 16383, Group: "a", State: Prepare, Target: "b"}}})})
	if now >= last {
		t.Fatalf("revision %d after the restore, and %d before", now, last)
	}
	for table := range tables {
		if got := confirmed(); got >= now {
			t.Fatalf("revision %d is confirmed before the proxy acts on %d", got, now)
		}
		if table.Slots[0].Held {
			c.Confirm(last) // of a table from before the restore, late
			c.Confirm(table.Revision)
			break
		}
	}
	awaits(now)
	if got := confirmed(); got >= last {
		t.Errorf("revision %d is confirmed, which is of the time before the restore", got)
	}
	if err := problems.has("gone back"); err != nil {
		t.Error(err)
	}
	testkit.Until(t, limit, "the second proxy's registration", func() error {
		var p Proxy
		e, err := s.Get(ctx, "/s/shop/proxies/p2")
		if err == nil {
			err = Decode(e, &p)
		}
		if err == nil && p.Instance == "before" {
			err = errors.New("it is that of the process before")
		}
		return err
	})
	if problems.has(ErrReplaced.Error()) == nil {
		t.Error("a proxy counts as replaced by a process before it")
	}
}
