package queue

import (
	"runtime"
	"sync"
	"testing"
)

func TestBound(t *testing.T) {
	q := New[int](5)
	if q.Cap() != 8 {
		t.Fatal(q.Cap())
	}
	for round := range 5 {
		for i := range q.Cap() {
			if !q.Put(round*10 + i) {
				t.Fatal("full at", i)
			}
		}
		if q.Put(99) || q.Len() != q.Cap() {
			t.Fatal("took more than it holds", q.Len())
		}
		for i := range q.Cap() {
			if v, ok := q.Take(); !ok || v != round*10+i {
				t.Fatal(v, ok)
			}
		}
		if _, ok := q.Take(); ok || q.Len() != 0 {
			t.Fatal("gave what it does not hold", q.Len())
		}
	}
}

// What one producer put comes out in its order, and nothing is lost or doubled.
func TestManyProducers(t *testing.T) {
	const producers, each = 4, 5000
	q := New[[2]int](64)
	var done sync.WaitGroup
	for producer := range producers {
		done.Go(func() {
			for i := 0; i < each; {
				if q.Put([2]int{producer, i}) {
					i++
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	var next [producers]int
	for taken := 0; taken < producers*each; {
		v, ok := q.Take()
		if !ok {
			runtime.Gosched()
			continue
		}
		if v[1] != next[v[0]] {
			t.Fatalf("producer %d: %d, want %d", v[0], v[1], next[v[0]])
		}
		next[v[0]]++
		taken++
	}
	done.Wait()
	if _, ok := q.Take(); ok {
		t.Error("one too many")
	}
}

// BenchmarkPutTake: one value in and out. Watch ns/op and allocs/op: 0.
func BenchmarkPutTake(b *testing.B) {
	q := New[int](1024)
	b.ReportAllocs()
	for b.Loop() {
		q.Put(1)
		q.Take()
	}
}
