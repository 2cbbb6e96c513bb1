package keyspace

import (
	"fmt"
	"testing"
	"time"

	"spindle/engine/data/memory"
)

// TestHiddenDatabases: a data set in the hidden databases is in no view and does not expire. Swap makes it replace the
// visible one.
func TestHiddenDatabases(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 4, StartMs: 1000})
	for i := range 4 {
		k.DB(i).SetString([]byte("old"), fmt.Append(nil, i), 0)
	}
	first := k.Hidden()
	if first != 4 || k.Len() != 4 {
		t.Fatalf("the first is %d, of %d that clients see", first, k.Len())
	}
	for i := range 4 {
		k.DB(first+i).SetString([]byte("new"), fmt.Append(nil, i), 0)
		k.DB(first+i).SetString([]byte("lapsed"), []byte("x"), 1500)
	}
	k.SetNow(2000)
	if n, _ := k.ExpireDue(time.Second); n != 0 {
		t.Errorf("%d keys of hidden databases expired", n)
	}
	v := k.Freeze()
	for i := range 4 {
		if n := v.Len(i); n != 1 {
			t.Errorf("%d keys of database %d in the view", n, i)
		}
	}
	if n := len(v.DBs()); n != 4 {
		t.Errorf("%d databases in the view", n)
	}
	for i := range 4 {
		k.Swap(i, first+i)
		if n := k.DB(first + i).Flush(); n != 1 {
			t.Errorf("%d old keys of database %d", n, i)
		}
		if got := k.DB(i).Peek([]byte("new")); !got.Exists() || k.DB(i).Peek([]byte("old")).Exists() {
			t.Errorf("database %d is not the new one", i)
		}
	}
	if !v.Get(2, []byte("old")).Exists() {
		t.Error("the view has lost a key to the swap")
	}
	v.Close()
	if n, _ := k.ExpireDue(time.Second); n != 4 {
		t.Errorf("%d keys expired once they were there", n)
	}
}

// TestOwnKeysOfAReplica: a replica removes keys whose deadline was set on it. It removes no key that came from its
// primary.
func TestOwnKeysOfAReplica(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 4, StartMs: 1000})
	k.Replica = true
	db := k.DB(1)
	k.Trusting = true // the primary's stream
	db.SetString([]byte("theirs"), []byte("x"), 1500)
	k.Trusting = false
	db.SetString([]byte("ours"), []byte("x"), 1500)
	db.SetString([]byte("later"), []byte("x"), 9000)
	db.SetString([]byte("kept"), []byte("x"), 1500)
	db.Persist([]byte("kept"))
	db.SetString([]byte("set"), []byte("x"), 0)
	db.SetDeadline([]byte("set"), 1500)
	if n := k.OwnKeys(); n != 4 {
		t.Errorf("%d own keys", n)
	}
	k.SetNow(2000)
	if n, more := k.ExpireDue(time.Second); n != 2 || more {
		t.Errorf("%d expired, more: %t", n, more)
	}
	if n := k.OwnKeys(); n != 1 {
		t.Errorf("%d own keys are left", n)
	}
	for key, want := range map[string]bool{"theirs": true, "ours": false, "later": true, "kept": true, "set": false} {
		if got := db.Stored([]byte(key)).Exists(); got != want {
			t.Errorf("%s is stored: %t", key, got)
		}
	}
	if db.Peek([]byte("theirs")).Exists() {
		t.Error("a key past its deadline is shown")
	}
}

// TestHiddenDatabaseOfLater: a hidden database counts time from the same moment as the others. So a deadline of a hash
// field in it is not announced too early.
func TestHiddenDatabaseOfLater(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 1, StartMs: 1000})
	const day = 24 * 3600 * 1000
	k.SetNow(day)
	later := k.DB(k.Hidden())
	later.SetFieldsDeadline([]byte("hash"), 2*day)
	k.Swap(0, 1)
	if next := k.NextDeadline(); next < 2*day || next > 2*day+16 {
		t.Errorf("the next deadline is at %d ms, want %d", next, 2*day)
	}
}
