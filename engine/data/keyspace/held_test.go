//go:build invariants || race

package keyspace

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"spindle/engine/data/memory"
)

// free lists the methods that need no turn: they return a part of a Keyspace, or data that never changes or is atomic.
var free = []string{
	"Keyspace.BySlot", "Keyspace.DB", "Keyspace.HeldBy", "Keyspace.Heap", "Keyspace.Hides",
	"Keyspace.InSlot", "Keyspace.Len", "Keyspace.Mark", "Keyspace.Marked", "Keyspace.Store", "Keyspace.StoredInSlot",
	"Keyspace.Writer",
	"DB.Index", "DB.Loader",
	"Loader.DB",
	"Writer.Close", "Writer.Int", "Writer.String",
}

// TestMethodsAssertTheTurn: each method asserts the turn before it does anything, or is listed in free (keyspace.H1).
func TestMethodsAssertTheTurn(t *testing.T) {
	h, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := New(h, Options{Databases: 2})
	db := k.DB(0)
	l := db.Loader(0)
	w := k.Writer(func(f func()) { f() })
	type refused struct{}
	k.HeldBy(func() { panic(refused{}) })
	unused := slices.Clone(free)
	for _, of := range []any{k, db, l, w} {
		on := reflect.TypeOf(of)
		for i := range on.NumMethod() {
			name := on.Elem().Name() + "." + on.Method(i).Name
			if at := slices.Index(unused, name); at >= 0 {
				unused = slices.Delete(unused, at, at+1)
				continue
			}
			args := []reflect.Value{reflect.ValueOf(of)}
			for j := 1; j < on.Method(i).Type.NumIn(); j++ {
				args = append(args, sample(on.Method(i).Type.In(j)))
			}
			func() {
				defer func() {
					if r := recover(); r != (refused{}) {
						t.Errorf("%s does not ask for the turn first: %v", name, r)
					}
				}()
				on.Method(i).Func.Call(args)
			}()
		}
	}
	if len(unused) > 0 {
		t.Errorf("no such methods: %v", unused)
	}
}

// sample returns an argument of a type: a key for a byte slice, otherwise the zero value.
func sample(of reflect.Type) reflect.Value {
	switch of {
	case reflect.TypeFor[[]byte]():
		return reflect.ValueOf([]byte("k"))
	case reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(time.Second)
	}
	return reflect.Zero(of)
}
