package tracking

import (
	"fmt"
	"testing"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

// A fakeCore records the pushed messages.
type fakeCore struct{ said []string }

func (d *fakeCore) Push(cl *client.Client, p []byte) {
	d.said = append(d.said, fmt.Sprintf("%d %q", cl.ID, p))
}
func (d *fakeCore) PushEach(to []*client.Client, p []byte) {
	for _, cl := range to {
		d.Push(cl, p)
	}
}
func (d *fakeCore) Current() *client.Client { return nil }
func (d *fakeCore) AtUnitEnd(f func())      { f() }

func (d *fakeCore) take() []string {
	said := d.said
	d.said = nil
	return said
}

var get = command.Spec{Name: "get", Arity: 2, Flags: command.ReadOnly, Keys: command.FirstArg(command.KeyRO)}

// open returns a tracker, its core, and a client that tracks.
func open(t testing.TB) (*Tracker, *fakeCore, *client.Client) {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	d, registry, settings := &fakeCore{}, client.NewRegistry(), &Settings{}
	settings.Rows()
	tr := New(d, registry, keyspace.New(h, keyspace.Options{}), settings)
	cl := &client.Client{ID: registry.NextID(), Protocol: 3}
	registry.Add(cl)
	tr.enable(cl, &options{})
	return tr, d, cl
}

// TestWithoutMemoryNothingIsCached: a key that cannot be recorded is invalidated as soon as it is read.
func TestWithoutMemoryNothingIsCached(t *testing.T) {
	tr, d, cl := open(t)
	tr.short = func() bool { return true }
	tr.Read(cl, &get, [][]byte{[]byte("get"), []byte("k")})
	if said := d.take(); len(said) != 1 || said[0] != fmt.Sprintf("%d %q", cl.ID,
		">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n") {
		t.Errorf("told %q", said)
	}
	if tr.table.Len() != 0 {
		t.Error("the key was kept")
	}
}

// TestWatchingFollowsTracking: keys are watched exactly while a client tracks. After that, the table is empty.
func TestWatchingFollowsTracking(t *testing.T) {
	tr, _, cl := open(t)
	tr.Read(cl, &get, [][]byte{[]byte("get"), []byte("k")})
	if tr.space.Watching != 1 || tr.table.Len() != 1 {
		t.Errorf("%d watch, %d keys", tr.space.Watching, tr.table.Len())
	}
	tr.enable(cl, &options{modes: client.TrackingNoLoop})
	if tr.space.Watching != 1 {
		t.Errorf("%d watch when one tracks twice", tr.space.Watching)
	}
	kept := cl.FamilyBytes
	tr.Forget(cl)
	tr.Forget(cl)
	if tr.space.Watching != 0 || tr.table.Len() != 0 || cl.Flags&client.AllTracking != 0 {
		t.Errorf("%d watch, %d keys, flags %b when no client tracks", tr.space.Watching, tr.table.Len(), cl.Flags)
	}
	tr.enable(cl, &options{modes: client.TrackingBcast, prefixes: [][]byte{[]byte("a"), []byte("b")}})
	if cl.FamilyBytes <= kept || len(tr.prefixes) != 2 {
		t.Errorf("%d bytes kept for %d prefixes", cl.FamilyBytes-kept, len(tr.prefixes))
	}
	tr.Forget(cl)
	if cl.FamilyBytes != kept || len(tr.prefixes) != 0 || len(tr.lengths) != 0 {
		t.Errorf("%d bytes kept for %d prefixes of %d lengths that are no more",
			cl.FamilyBytes-kept, len(tr.prefixes), len(tr.lengths))
	}
}

// BenchmarkRead measures the additional cost of a GET by a tracking client, for keys read before and for new ones.
// Watch allocs/op: 0.
func BenchmarkRead(b *testing.B) {
	tr, _, cl := open(b)
	tr.settings.MaxKeys.Set(0)
	args := [][]byte{[]byte("get"), []byte("key:000000000000")}
	digits := args[1][len("key:"):]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for at, n := len(digits)-1, i*2654435761%1_000_000; at >= 0; at-- {
			digits[at] = byte('0' + n%10)
			n /= 10
		}
		tr.Read(cl, &get, args)
	}
}
