package proxy

// A fifo is a queue in a ring that grows. The zero value is empty.
type fifo[T any] struct {
	items []T // a power of two of them, or none
	head  int
	n     int
}

// push appends x and returns its place, which is valid until the next push.
func (q *fifo[T]) push(x T) *T {
	if q.n == len(q.items) {
		grown := make([]T, max(8, 2*len(q.items)))
		for i := range q.n {
			grown[i] = *q.at(i)
		}
		q.items, q.head = grown, 0
	}
	q.n++
	p := q.at(q.n - 1)
	*p = x
	return p
}

// at returns the i-th item, counted from the front.
func (q *fifo[T]) at(i int) *T { return &q.items[(q.head+i)&(len(q.items)-1)] }

// pop removes the front and returns it.
func (q *fifo[T]) pop() T {
	var zero T
	p := &q.items[q.head]
	x := *p
	*p = zero
	q.head = (q.head + 1) & (len(q.items) - 1)
	q.n--
	return x
}

// trim gives up the memory of an empty queue that has grown.
func (q *fifo[T]) trim(most int) {
	if q.n == 0 && len(q.items) > most {
		q.items, q.head = nil, 0
	}
}
