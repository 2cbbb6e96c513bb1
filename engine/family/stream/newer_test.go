package stream

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
	"spindle/tests/testkit/commandtest"
)

// A plainStream is a model of the stream "s": the IDs of its entries, and its groups.
type plainStream struct {
	ids    []int64 // in order; an ID is ms-0
	last   int64
	groups map[string]*plainGroup
}

type plainGroup struct {
	last    int64
	pending map[int64]plainPending
}

type plainPending struct {
	who         string
	time, count int64
}

func (p *plainStream) has(id int64) bool { return slices.Contains(p.ids, id) }

// drop deletes an entry under the option refs, and returns XDELEX's reply for it.
func (p *plainStream) drop(id int64, refs string) int {
	referenced := false
	for _, g := range p.groups {
		_, has := g.pending[id]
		referenced = referenced || has || g.last < id
	}
	if refs == "DELREF" {
		for _, g := range p.groups {
			delete(g.pending, id)
		}
	}
	switch at, ok := slices.BinarySearch(p.ids, id); {
	case !ok:
		return -1
	case refs == "ACKED" && referenced:
		return 2
	default:
		p.ids = slices.Delete(p.ids, at, at+1)
		return 1
	}
}

// trim removes the entries that may be removed, and returns their number.
func (p *plainStream) trim(byID bool, bound int64, refs string) (removed int) {
	excess := max(len(p.ids)-int(bound), 0)
	for _, id := range slices.Clone(p.ids) {
		if byID && id >= bound || !byID && removed == excess {
			break
		}
		word := refs
		if len(p.groups) == 0 {
			word = ""
		}
		if p.drop(id, word) == 1 {
			removed++
		}
	}
	if refs == "DELREF" && removed > 0 {
		for _, g := range p.groups {
			maps.DeleteFunc(g.pending, func(id int64, _ plainPending) bool {
				return len(p.ids) == 0 || id < p.ids[0]
			})
		}
	}
	return removed
}

// read is XREADGROUP of at most count entries for a consumer. It has CLAIM unless idle is negative.
func (p *plainStream) read(g *plainGroup, who string, now, idle int64, count int) (list []int64) {
	if idle >= 0 {
		old := slices.SortedFunc(maps.Keys(g.pending), func(a, b int64) int {
			return cmp.Or(cmp.Compare(g.pending[a].time, g.pending[b].time), cmp.Compare(a, b))
		})
		for _, id := range old {
			switch x := g.pending[id]; {
			case len(list) == count || x.time > max(now-idle, 0):
			case !p.has(id):
				delete(g.pending, id)
			default:
				g.pending[id] = plainPending{who, now, int64(oneMore(uint64(x.count)))}
				list = append(list, id)
			}
		}
	}
	for _, id := range p.ids {
		if id > g.last && len(list) < count {
			g.last = id
			g.pending[id] = plainPending{who, now, 1}
			list = append(list, id)
		}
	}
	return list
}

func (p *plainStream) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.ids, p.last)
	for _, name := range slices.Sorted(maps.Keys(p.groups)) {
		g := p.groups[name]
		fmt.Fprintln(&b, name, g.last)
		for _, id := range slices.Sorted(maps.Keys(g.pending)) {
			x := g.pending[id]
			fmt.Fprintf(&b, " %d %q %d %d\n", id, x.who, x.time, x.count)
		}
	}
	return b.String()
}

// textOf returns for a real stream what plainStream.text returns for the model.
func textOf(s streams.Stream) string {
	var b strings.Builder
	list := []int64{}
	var it streams.Iterator
	for s.All(&it); it.Next(); {
		list = append(list, int64(it.ID.Ms))
	}
	fmt.Fprintln(&b, list, s.LastID().Ms)
	for g := range s.Groups {
		fmt.Fprintln(&b, string(g.Name()), g.LastID().Ms)
		var cur streams.PendingCursor
		var p streams.Pending
		for g.From(&cur, streams.ID{}); cur.Next(&p); {
			fmt.Fprintf(&b, " %d %q %d %d\n", p.ID.Ms, p.Consumer(), p.Time, int64(p.Count))
		}
	}
	return b.String()
}

// rivals compares random commands on the stream "s" with the model. It also compares a replica, which gets the
// propagated commands.
type rivals struct {
	t                *testing.T
	rng              *rand.Rand
	primary, replica *commandtest.Core
	cl, applier      *client.Client
	want             *plainStream
	now              int64
	views            []frozen
}

type frozen struct {
	view *keyspace.View
	text string
}

// olderForms are the commands and words that a server of Redis 7.0 understands in a stream of effects.
var olderForms = map[string][]string{
	"XADD": nil, "XTRIM": {"MAXLEN", "MINID"}, "XDEL": nil, "XACK": nil, "XGROUP": {"CREATE", "SETID", "CREATECONSUMER",
		"ENTRIESREAD"},
	"XCLAIM": {"TIME", "RETRYCOUNT", "FORCE", "JUSTID", "LASTID"},
}

func newRivals(t *testing.T) *rivals {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("replay with SEED=%d", seed)
	r := &rivals{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1_000_000,
		want: &plainStream{groups: map[string]*plainGroup{}}}
	r.primary, _ = newCore(t, 8)
	r.replica, _ = newCore(t, 8)
	r.cl, r.applier = r.primary.Client(2), r.replica.Client(2)
	r.applier.Flags |= client.Primary
	return r
}

// do runs a command, and replays the propagated commands on the replica.
func (r *rivals) do(args ...string) string {
	r.primary.Reset()
	reply := r.primary.Do(r.cl, args...)
	for _, e := range r.primary.Effects {
		known, ok := olderForms[strings.ToUpper(e.Args[0])]
		if !ok {
			r.t.Fatalf("%q propagated %q", args, e.Args)
		}
		for _, a := range e.Args[1:] {
			if isWord := a == strings.ToUpper(a) && len(a) > 4 && a[0] >= 'A' && a[0] <= 'Z'; isWord &&
				!slices.Contains(known, a) {
				r.t.Fatalf("%q propagated %q", args, e.Args)
			}
		}
		if out := r.replica.Do(r.applier, e.Args...); strings.HasPrefix(out, "-") {
			r.t.Fatalf("%q propagated %q, which a replica refuses: %s", args, e.Args, out)
		}
	}
	return reply
}

var idInReply = regexp.MustCompile(`\r\n([0-9]+)-0\r\n`)

// integers returns the text of an array of integers.
func integers(codes []int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(codes))
	for _, c := range codes {
		fmt.Fprintf(&b, ":%d\r\n", c)
	}
	return b.String()
}

func text(id int64) string { return strconv.FormatInt(id, 10) + "-0" }

func (r *rivals) word() string { return []string{"KEEPREF", "DELREF", "ACKED"}[r.rng.IntN(3)] }

// block returns IDs near those of the stream, and the same IDs as the arguments IDS of a request.
func (r *rivals) block() (list []int64, args []string) {
	n := 1 + r.rng.IntN(5)
	args = []string{"IDS", strconv.Itoa(n)}
	for range n {
		id := max(r.want.last-r.rng.Int64N(60), 0) + 1
		list, args = append(list, id), append(args, text(id))
	}
	return list, args
}

func (r *rivals) expect(args []string, reply, want string) {
	if reply != want {
		r.t.Fatalf("%q: %q, want %q", args, reply, want)
	}
}

// bound returns a random trimming: its arguments, and its bound.
func (r *rivals) bound() (args []string, byID bool, bound int64) {
	if byID = r.rng.IntN(2) == 0; byID {
		bound = max(r.want.last-r.rng.Int64N(60), 0)
		return []string{"MINID", text(bound)}, byID, bound
	}
	bound = r.rng.Int64N(50)
	return []string{"MAXLEN", strconv.FormatInt(bound, 10)}, byID, bound
}

func (r *rivals) step() {
	r.now += r.rng.Int64N(3)
	r.primary.SetNow(r.now)
	r.replica.SetNow(r.now)
	p := r.want
	group := string(rune('g' + r.rng.IntN(3)))
	g := p.groups[group]
	who := string(rune('a' + r.rng.IntN(4)))
	switch op := r.rng.IntN(100); {
	case op < 30:
		p.last += 1 + r.rng.Int64N(3)
		p.ids = append(p.ids, p.last)
		r.do("XADD", "s", text(p.last), "field", "value")
	case op < 36:
		trim, byID, bound := r.bound()
		refs := r.word()
		p.last++
		p.ids = append(p.ids, p.last)
		args := append(append([]string{"XADD", "s", refs}, trim...), text(p.last), "field", "value")
		r.do(args...)
		p.trim(byID, bound, refs)
	case op < 42:
		trim, byID, bound := r.bound()
		refs := r.word()
		args := append(append([]string{"XTRIM", "s"}, trim...), refs)
		r.expect(args, r.do(args...), fmt.Sprintf(":%d\r\n", p.trim(byID, bound, refs)))
	case op < 52:
		list, block := r.block()
		refs := r.word()
		args := append([]string{"XDELEX", "s", refs}, block...)
		if r.rng.IntN(2) == 0 {
			args = append(append([]string{"XDELEX", "s"}, block...), refs)
		}
		var codes []int
		for _, id := range list {
			codes = append(codes, p.drop(id, refs))
		}
		r.expect(args, r.do(args...), integers(codes))
	case op < 62:
		list, block := r.block()
		refs := r.word()
		args := append([]string{"XACKDEL", "s", group, refs}, block...)
		var codes []int
		for _, id := range list {
			code := -1
			if g != nil {
				if _, has := g.pending[id]; has {
					delete(g.pending, id)
					if code = p.drop(id, refs); code == -1 {
						code = 1
					}
				}
			}
			codes = append(codes, code)
		}
		r.expect(args, r.do(args...), integers(codes))
	case g == nil:
		if len(p.ids) == 0 {
			return
		}
		id := p.ids[r.rng.IntN(len(p.ids))]
		p.groups[group] = &plainGroup{id, map[int64]plainPending{}}
		r.do("XGROUP", "CREATE", "s", group, text(id))
	case op < 85:
		count, idle := 1+r.rng.IntN(6), int64(-1)
		args := []string{"XREADGROUP", "GROUP", group, who}
		if r.rng.IntN(2) == 0 {
			idle = r.rng.Int64N(100)
			args = append(args, "CLAIM", strconv.FormatInt(idle, 10))
		}
		switch r.rng.IntN(3) {
		case 0:
			args = append(args, "MAXCOUNT", strconv.Itoa(count))
		case 1:
			args = append(args, "COUNT", strconv.Itoa(count))
		default:
			args, count = append(args, "MAXCOUNT", strconv.Itoa(count), "COUNT", "1"), 1
		}
		args = append(args, "STREAMS", "s", ">")
		var got []int64
		for _, m := range idInReply.FindAllStringSubmatch(r.do(args...), -1) {
			id, _ := strconv.ParseInt(m[1], 10, 64)
			got = append(got, id)
		}
		if want := p.read(g, who, r.now, idle, count); !slices.Equal(got, want) {
			r.t.Fatalf("%q: entries %d, want %d", args, got, want)
		}
	case op < 93:
		list, block := r.block()
		n := 0
		for _, id := range list {
			if _, has := g.pending[id]; has {
				delete(g.pending, id)
				n++
			}
		}
		args := append([]string{"XACK", "s", group}, block[2:]...)
		r.expect(args, r.do(args...), fmt.Sprintf(":%d\r\n", n))
	case op < 98:
		r.nack(group, g)
	default:
		r.view()
	}
}

// nack gives entries back.
func (r *rivals) nack(group string, g *plainGroup) {
	list, block := r.block()
	mode := []string{"SILENT", "FAIL", "FATAL"}[r.rng.IntN(3)]
	args := append([]string{"XNACK", "s", group, mode}, block...)
	force := r.rng.IntN(3) == 0
	if force {
		args = append(args, "FORCE")
	}
	given := r.rng.IntN(3) == 0
	if given {
		args = append(args, "RETRYCOUNT", "7")
	}
	n := 0
	for _, id := range list {
		x, has := g.pending[id]
		if !has && (!force || !r.want.has(id)) {
			continue
		}
		n++
		if !r.want.has(id) {
			delete(g.pending, id)
			continue
		}
		switch {
		case given:
			x.count = 7
		case mode == "FATAL":
			x.count = math.MaxInt64
		case mode == "SILENT" && x.count < math.MaxInt64: // the greatest count stays (streams.Pending)
			x.count = max(x.count-1, 0)
		}
		x.who, x.time = "", 0
		g.pending[id] = x
	}
	r.expect(args, r.do(args...), fmt.Sprintf(":%d\r\n", n))
}

// view freezes the data, or compares a view with the data at the moment when it was frozen.
func (r *rivals) view() {
	if len(r.views) < 2 {
		r.views = append(r.views, frozen{r.primary.Space.Freeze(), r.want.text()})
		return
	}
	v := r.views[0]
	r.views = r.views[1:]
	v.view.Walk(0, 0, 1, func(x value.Value) bool {
		if got := textOf(streams.Of(x)); got != v.text {
			r.t.Fatalf("a view has\n%s\nshould have\n%s", got, v.text)
		}
		return true
	})
	v.view.Close()
}

func (r *rivals) check() {
	v := r.primary.Space.DB(0).Peek([]byte("s"))
	if !v.Exists() {
		return
	}
	if err := streams.Of(v).Check(r.primary.Space.Heap()); err != nil {
		r.t.Fatal(err)
	}
	got, want := textOf(streams.Of(v)), r.want.text()
	if got != want {
		r.t.Fatalf("the stream has\n%s\nshould have\n%s", got, want)
	}
	if copied := textOf(streams.Of(r.replica.Space.DB(0).Peek([]byte("s")))); copied != got {
		r.t.Fatalf("the replica has\n%s\nthe primary\n%s", copied, got)
	}
	ours, theirs := streams.Of(v), streams.Of(r.replica.Space.DB(0).Peek([]byte("s")))
	if ours.MaxDeleted() != theirs.MaxDeleted() || ours.Added() != theirs.Added() {
		r.t.Fatalf("deleted up to %v and %v, added %d and %d", ours.MaxDeleted(), theirs.MaxDeleted(), ours.Added(),
			theirs.Added())
	}
}

// end closes all views and deletes the stream, and returns the bytes in use.
func (r *rivals) end() int64 {
	for _, v := range r.views {
		v.view.Close()
	}
	r.views = nil
	r.primary.Space.DB(0).Flush()
	heap := r.primary.Space.Heap()
	for range 100 {
		for job, _ := heap.TakeJob(); job != nil; job, _ = heap.TakeJob() {
			for !job(100) {
			}
		}
		heap.Drain(10_000)
	}
	return heap.Used()
}

// TestNewerWords: random commands with words newer than Redis 7.4 do what the model does. They propagate only what a
// server of Redis 7.0 understands. From that, a replica gets the same stream. Views do not change. All memory is free
// again after the key is deleted.
func TestNewerWords(t *testing.T) {
	r := newRivals(t)
	empty := r.end()
	for range 8_000 {
		if r.step(); t.Failed() {
			return
		}
		r.check()
	}
	if left := r.end() - empty; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// TestMessagesLeaveNothing: producers' messages arrive, are sent again, become old, and lose their entries, under
// views. A message that is sent again at once is known. All memory is free again after the key is deleted.
func TestMessagesLeaveNothing(t *testing.T) {
	r := newRivals(t)
	empty := r.end()
	r.now = time.Now().UnixMilli() // deadlines count from the keyspace's first moment
	for range 8_000 {
		r.now += r.rng.Int64N(2_000)
		r.primary.SetNow(r.now)
		producer, message := fmt.Sprint("producer ", r.rng.IntN(5)), fmt.Sprint("message ", r.rng.IntN(300))
		var args []string
		switch op := r.rng.IntN(100); {
		case op < 70:
			args = []string{"XADD", "s", "IDMP", producer, message, "MAXLEN", "40", "*", "f", "v"}
		case op < 80:
			args = []string{"XADD", "s", "IDMPAUTO", producer, "*", "f", message}
		case op < 85:
			args = []string{"XADD", "s", "ACKED", "IDMP", producer, message, "MAXLEN", "~", "5", "*", "f", "v"}
		case op < 88:
			args = []string{"XCFGSET", "s", "IDMP-MAXSIZE", strconv.Itoa(1 + r.rng.IntN(50))}
		case op < 90:
			args = []string{"XCFGSET", "s", "IDMP-DURATION", strconv.Itoa(1 + r.rng.IntN(200))}
		case op < 94:
			args = []string{"XTRIM", "s", "MAXLEN", "3", "DELREF"}
		case op < 98:
			if len(r.views) < 3 {
				r.views = append(r.views, frozen{view: r.primary.Space.Freeze()})
			} else {
				r.views[0].view.Close()
				r.views = r.views[1:]
			}
			continue
		default:
			r.primary.Space.ForgetDue(time.Second)
			continue
		}
		reply := r.primary.Do(r.cl, args...)
		v := r.primary.Space.DB(0).Peek([]byte("s"))
		if strings.HasPrefix(reply, "-") && v.Exists() {
			t.Fatalf("%q: %s", args, reply)
		}
		if args[0] == "XADD" && args[2] == "IDMP" {
			if again := r.primary.Do(r.cl, args...); again != reply {
				t.Fatalf("%q: %q, and then %q", args, reply, again)
			}
		}
		if v = r.primary.Space.DB(0).Peek([]byte("s")); !v.Exists() {
			continue
		}
		if err := streams.Of(v).Check(r.primary.Space.Heap()); err != nil {
			t.Fatal(err)
		}
	}
	if left := r.end() - empty; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}
