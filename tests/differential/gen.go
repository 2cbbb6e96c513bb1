package differential

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A generator makes calls from templates. The calls depend only on its seed, its field now and Redis's version.
type generator struct {
	rng       *rand.Rand
	now       int64  // Unix seconds when the run began, for absolute deadlines
	reference string // the version of the server to compare with
	sorts     bool   // the templates include SORT
	meet      string // the only key for which clients of a plan wait; "" means any
	table     []template
	upTo      []int // running sums of the templates' weights
	args      []string
}

// A template is one command: its weight among all families, and how to make its arguments.
type template struct {
	weight int
	name   string // "get", "object|freq"
	args   []arg
}

// An arg appends one or more arguments to g.args, or none.
type arg func(g *generator)

// newGenerator returns a generator that uses the templates for which has is true.
func newGenerator(seed, round uint64, now int64, families []family, has func(name string) bool) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, round)), now: now}
	sum := 0
	for _, f := range families {
		for _, t := range f.templates {
			if f.needs(t.name, has) {
				sum += t.weight
				g.table, g.upTo = append(g.table, t), append(g.upTo, sum)
				g.sorts = g.sorts || strings.HasPrefix(t.name, "sort")
			}
		}
	}
	return g
}

func (g *generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *generator, from []T) T { return from[g.rng.IntN(len(from))] }

// next returns the arguments of the next call. The caller owns them.
func (g *generator) next() (args []string, inline bool) {
	g.fill()
	if g.chance(4) {
		g.spoil()
	}
	g.defuse()
	g.args = mendFor(g.reference, g.sorts, g.args)
	inline = g.chance(2)
	for _, a := range g.args {
		inline = inline && plain(a) && len(a) < 1000
	}
	return g.args, inline
}

// fill makes new arguments from a random template.
func (g *generator) fill() {
	at := g.rng.IntN(g.upTo[len(g.upTo)-1])
	i := 0
	for g.upTo[i] <= at {
		i++
	}
	t := &g.table[i]
	g.args = make([]string, 0, 8)
	name, sub, container := strings.Cut(t.name, "|")
	g.args = append(g.args, g.anyCase(name))
	if container {
		g.args = append(g.args, g.anyCase(sub))
	}
	for _, a := range t.args {
		a(g)
	}
}

// spoil makes one mistake: an argument too few or too many, a wrong one, or two in the wrong order.
func (g *generator) spoil() {
	n := len(g.args)
	switch g.rng.IntN(5) {
	case 0:
		g.args = append(g.args, pick(g, evil))
	case 1:
		g.args = append(g.args, g.args[g.rng.IntN(n)])
	case 2:
		if n > 1 {
			at := 1 + g.rng.IntN(n-1)
			g.args = append(g.args[:at], g.args[at+1:]...)
		}
	case 3:
		if n > 1 {
			g.args[1+g.rng.IntN(n-1)] = pick(g, evil)
		}
	case 4:
		if n > 2 {
			i, j := 1+g.rng.IntN(n-1), 1+g.rng.IntN(n-1)
			g.args[i], g.args[j] = g.args[j], g.args[i]
		}
	}
}

// shortest is the shortest TTL that is sent, in milliseconds or seconds. A key must not expire on one server before the
// other has run the same call.
const shortest = 1_000_000

// defuse lengthens short random ttls, and changes calls whose known differences would make the states differ.
func (g *generator) defuse() {
	lengthen := func(at int) {
		if at < len(g.args) {
			if n, err := strconv.ParseInt(g.args[at], 10, 64); err == nil && n > 0 && n < shortest {
				g.args[at] = g.between(shortest, 10*shortest)
			}
		}
	}
	name := strings.ToLower(g.args[0])
	if strings.HasPrefix(name, "z") {
		g.tameLex(name)
	}
	switch name {
	case "georadius", "georadiusbymember", "geosearchstore":
		g.tameGeo(name)
	case "srandmember", "hrandfield", "zrandmember":
		g.tameDraw()
	case "expire", "pexpire", "hexpire", "hpexpire", "setex", "psetex":
		lengthen(2)
	case "restore":
		lengthen(2)
		if len(g.args) > 2 && len(g.args[2]) >= 19 { // near 2^63 Redis overflows into the past
			g.args[2] = g.between(shortest, 10*shortest)
		}
	case "command": // GETKEYS of a bare command fails before 7.2
		if len(g.args) == 3 {
			g.add("k0")
		}
	case "client": // SETNAME: Redis checks a name only up to its first zero byte
		for i := range g.args {
			g.args[i] = strings.ReplaceAll(g.args[i], "\x00", "0")
		}
	case "xadd":
		g.tameID()
	case "xclaim": // spindle counts deliveries up to 2^32-1
		g.tameCount("RETRYCOUNT", math.MaxUint32, math.MaxInt64)
	case "xautoclaim": // Redis's memory limit for so many IDs depends on the machine
		g.tameCount("COUNT", 1<<20, math.MaxInt64/16)
	case "blpop", "brpop", "bzpopmin", "bzpopmax", "blmove", "brpoplpush":
		g.hasten(len(g.args) - 1)
	case "blmpop", "bzmpop":
		g.hasten(1)
	case "xread", "xreadgroup":
		for i, a := range g.args {
			if strings.EqualFold(a, "BLOCK") {
				g.hasten(i + 1)
			}
		}
	case "sort": // stored results must not depend on the order of elements of equal weight
		if slices.ContainsFunc(g.args, func(a string) bool { return strings.EqualFold(a, "STORE") }) {
			for i, a := range g.args {
				if strings.EqualFold(a, "BY") {
					g.args[i] = "GET"
				}
			}
		}
	case "set", "getex":
		for i, a := range g.args {
			if strings.EqualFold(a, "EX") || strings.EqualFold(a, "PX") {
				lengthen(i + 1)
			}
		}
	}
}

// hasten shortens the timeout of a blocking call, because a blocked client delays the comparison.
func (g *generator) hasten(at int) {
	if at < 1 || at >= len(g.args) {
		return
	}
	f, err := strconv.ParseFloat(g.args[at], 64)
	if err == nil && f >= 0 && f < 1e15 || strings.HasPrefix(strings.ToLower(strings.TrimLeft(g.args[at], "+")), "0x") {
		g.args[at] = aMoment
		if name := strings.ToLower(g.args[0]); name == "xread" || name == "xreadgroup" {
			g.args[at] = "1"
		}
	}
}

func (g *generator) add(s string) { g.args = append(g.args, s) }

// between returns a number of [from, to) in decimal.
func (g *generator) between(from, to int64) string {
	return strconv.FormatInt(from+g.rng.Int64N(to-from), 10)
}

// anyCase returns a word in a random case.
func (g *generator) anyCase(s string) string {
	switch g.rng.IntN(8) {
	case 0:
		return strings.ToLower(s)
	case 1:
		b := []byte(s)
		for i := range b {
			if b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z' && g.rng.IntN(2) == 0 {
				b[i] ^= 0x20
			}
		}
		return string(b)
	}
	return strings.ToUpper(s)
}

// Tables are written with the following functions.

// lit adds a fixed word, in a random case.
func lit(s string) arg { return func(g *generator) { g.add(g.anyCase(s)) } }

// exactly adds a fixed argument.
func exactly(s string) arg { return func(g *generator) { g.add(s) } }

// seq adds several arguments in sequence.
func seq(args ...arg) arg {
	return func(g *generator) {
		for _, a := range args {
			a(g)
		}
	}
}

// oneOf adds one of its arguments, each with equal probability.
func oneOf(args ...arg) arg { return func(g *generator) { pick(g, args)(g) } }

// anyOf adds one of some words, in a random case.
func anyOf(words ...string) arg { return func(g *generator) { g.add(g.anyCase(pick(g, words))) } }

// maybe adds its arguments in the given percentage of calls.
func maybe(percent int, args ...arg) arg {
	all := seq(args...)
	return func(g *generator) {
		if g.chance(percent) {
			all(g)
		}
	}
}

// only adds its arguments if the version of the server to compare with begins with an element of versions. Such options
// are newer than 7.4.
func only(versions string, args ...arg) arg {
	all := seq(args...)
	return func(g *generator) {
		if begins(g.reference, versions) {
			all(g)
		}
	}
}

// times repeats its arguments from min to max times.
func times(min, max int, args ...arg) arg {
	all := seq(args...)
	return func(g *generator) {
		for range min + g.rng.IntN(max-min+1) {
			all(g)
		}
	}
}

// shuffled adds a random selection of options in random order, mostly few. An option may come twice.
func shuffled(options ...arg) arg {
	return func(g *generator) {
		for g.chance(45) {
			pick(g, options)(g)
		}
	}
}
