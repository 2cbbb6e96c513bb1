package rdbfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A generator writes a random RDB file of a newer server, following the public description of the layout and without
// spindle's code. Its versions are 13 to 15 of Redis, which no server of the tests writes, and 80 of Valkey.
type generator struct {
	rng     *rand.Rand
	version int
	b       []byte
	want    map[string]string // the values that a client must read, by key
	names   map[uint64][]string
	n       int // keys so far
}

const far = 4102444800000 // a deadline, Unix ms

func (g *generator) length(n uint64) {
	switch {
	case n < 64 && g.rng.IntN(8) > 0:
		g.b = append(g.b, byte(n))
	case n < 1<<14 && g.rng.IntN(8) > 0:
		g.b = append(g.b, 0x40|byte(n>>8), byte(n))
	case n < 1<<32 && g.rng.IntN(8) > 0:
		g.b = binary.BigEndian.AppendUint32(append(g.b, 0x80), uint32(n))
	default:
		g.b = binary.BigEndian.AppendUint64(append(g.b, 0x81), n)
	}
}

func (g *generator) text(s string) {
	var n int32
	if _, err := fmt.Sscan(s, &n); err == nil && fmt.Sprint(n) == s && g.rng.IntN(2) == 0 {
		g.b = binary.LittleEndian.AppendUint32(append(g.b, 0xC2), uint32(n))
		return
	}
	g.length(uint64(len(s)))
	g.b = append(g.b, s...)
}

func (g *generator) u64(n uint64) { g.b = binary.LittleEndian.AppendUint64(g.b, n) }

// listpackOf returns a listpack. A string becomes a text, and an int becomes a number of up to 13 bits.
func listpackOf(elements ...any) string {
	var body []byte
	for _, e := range elements {
		from := len(body)
		switch e := e.(type) {
		case int:
			if e >= 0 && e < 128 {
				body = append(body, byte(e))
			} else {
				body = append(body, 0xC0|byte(e>>8)&0x1f, byte(e))
			}
		case string:
			if len(e) < 64 {
				body = append(body, 0x80|byte(len(e)))
			} else {
				body = append(body, 0xE0|byte(len(e)>>8), byte(len(e)))
			}
			body = append(body, e...)
		}
		if n := len(body) - from; n < 128 {
			body = append(body, byte(n))
		} else {
			body = append(body, byte(n>>7), byte(n&127|128))
		}
	}
	lp := binary.LittleEndian.AppendUint32(nil, uint32(6+len(body)+1))
	lp = binary.LittleEndian.AppendUint16(lp, uint16(len(elements)))
	return string(append(append(lp, body...), 0xFF))
}

// word returns a random value.
func (g *generator) word() string {
	switch g.rng.IntN(3) {
	case 0:
		return fmt.Sprint(g.rng.IntN(2000) - 1000)
	case 1:
		return strings.Repeat("long ", g.rng.IntN(40))
	}
	return fmt.Sprint("word ", g.rng.IntN(1000))
}

// key writes the beginning of a key: attributes, type, name.
func (g *generator) key(kind byte, type_ string) (name string) {
	g.n++
	name = fmt.Sprint(type_, ":", g.n)
	if g.rng.IntN(3) == 0 {
		g.b = append(g.b, 0xFC)
		g.u64(far)
		g.want["deadline "+name] = fmt.Sprint(far)
	}
	if g.rng.IntN(4) == 0 {
		g.b = append(g.b, 0xF9, byte(g.rng.IntN(200)))
	}
	if g.version >= 13 && g.version < 80 && g.rng.IntN(4) == 0 {
		g.b = append(g.b, 0xF3)
		classes := 1 + g.rng.IntN(2)
		for g.length(uint64(classes)); classes > 0; classes-- {
			g.b = append(g.b, "META"...)
			for range g.rng.IntN(4) {
				switch g.rng.IntN(4) {
				case 0:
					g.length(1 + uint64(g.rng.IntN(2)))
					g.length(g.rng.Uint64())
				case 1:
					g.length(3)
					g.b = append(g.b, 1, 2, 3, 4)
				case 2:
					g.length(4)
					g.u64(g.rng.Uint64())
				case 3:
					g.length(5)
					g.text(g.word())
				}
			}
			g.length(0)
		}
	}
	g.b = append(g.b, kind)
	g.text(name)
	return name
}

// fields returns n distinct names in the order of a template: shorter names first.
func (g *generator) fields(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("f", i*7+g.rng.IntN(7)))
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return names
}

func (g *generator) hash(name string, names, values []string) {
	var lines []string
	for i := range names {
		lines = append(lines, fmt.Sprintf("%q=%q", names[i], values[i]))
	}
	slices.Sort(lines)
	g.want[name] = strings.Join(lines, " ")
}

func (g *generator) values(n int) (texts []string, elements []any) {
	for range n {
		texts = append(texts, g.word())
		elements = append(elements, texts[len(texts)-1])
	}
	return texts, elements
}

// templates writes the templates of the file.
func (g *generator) templates() {
	g.names = map[uint64][]string{}
	for range 1 + g.rng.IntN(4) {
		id := uint64(g.rng.IntN(100))
		if g.names[id] != nil {
			continue
		}
		names := g.fields(1 + g.rng.IntN(30))
		g.names[id] = names
		g.b = append(g.b, 0xF2)
		g.length(id)
		g.length(uint64(len(names)))
		for _, name := range names {
			g.text(name)
		}
	}
}

// template returns a random template of the file.
func (g *generator) template() (id uint64, names []string) {
	ids := make([]uint64, 0, len(g.names))
	for id := range g.names {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id = ids[g.rng.IntN(len(ids))]
	return id, g.names[id]
}

// inlineNames writes the field names of a template into a payload.
func (g *generator) inlineNames(names []string) {
	if g.rng.IntN(2) == 0 {
		g.length(0)
		var elements []any
		for _, n := range names {
			elements = append(elements, n)
		}
		g.text(listpackOf(elements...))
		return
	}
	g.length(1)
	g.length(uint64(len(names)))
	for _, n := range names {
		g.text(n)
	}
}

// stream writes a stream with one group, of version 4 or 5. In version 5 consumers have given some pending entries
// back.
func (g *generator) stream(version int) {
	name := g.key(byte(22+version), "stream")
	n := 1 + g.rng.IntN(9)
	node := []any{n, 0, 1, "field", 0}
	var lines []string
	for i := range n {
		v := g.word()
		node = append(node, 2, i, 0, v, 4)
		lines = append(lines, fmt.Sprintf("%d-0 field %s", 1000+i, v))
	}
	id := func(i int) string {
		return string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(1000+i)), 0))
	}
	g.length(1)
	g.text(id(0))
	g.text(listpackOf(node...))
	for _, n := range []uint64{uint64(n), 1000 + uint64(n) - 1, 0, 1000, 0, 0, 0, uint64(n)} {
		g.length(n) // length, last id, first id, greatest deleted id, entries ever added
	}
	pending := g.rng.IntN(n + 1)
	back := 0 // how many of the last pending entries were given back
	if version == 5 {
		back = g.rng.IntN(pending + 1)
	}
	g.length(1)
	g.text("group")
	g.length(uint64(999 + pending))
	g.length(0)
	g.length(uint64(pending)) // entries read
	g.length(uint64(pending))
	for i := range pending {
		g.b = append(g.b, id(i)...)
		g.u64(far - 1)
		g.length(uint64(1 + i))
		owner := "ann"
		if i >= pending-back {
			owner = ""
		}
		lines = append(lines, fmt.Sprintf("pending %d-0 %q %d", 1000+i, owner, 1+i))
	}
	if back > 0 {
		lines = append(lines, fmt.Sprintf("given back %d", back))
	}
	lines = append(lines, "consumers 1")
	g.length(1)
	g.text("ann")
	g.u64(far - 2)
	g.u64(far - 2)
	g.length(uint64(pending - back))
	for i := range pending - back {
		g.b = append(g.b, id(i)...)
	}
	if version == 5 {
		g.length(uint64(back))
		for i := pending - back; i < pending; i++ {
			g.b = append(g.b, id(i)...)
		}
	}
	g.length(100)
	g.length(uint64(g.rng.IntN(100)))
	producers := g.rng.IntN(3)
	g.length(uint64(producers))
	for p := range producers {
		g.text(fmt.Sprint("producer ", p))
		ids := g.rng.IntN(3)
		g.length(uint64(ids))
		for i := range ids {
			g.text(fmt.Sprint("message ", i))
			g.length(uint64(1000 + i))
			g.length(0)
		}
	}
	g.length(uint64(g.rng.IntN(100)))
	g.length(uint64(g.rng.IntN(100)))
	g.want[name] = strings.Join(lines, ", ")
}

// array writes a sparse array, which spindle skips.
func (g *generator) array() {
	g.key(28, "array")
	delete(g.want, fmt.Sprint("deadline array:", g.n))
	n := 1 + g.rng.IntN(10)
	g.length(uint64(n))
	if g.rng.IntN(2) == 0 {
		g.length(0)
	} else {
		g.length(1)
		g.length(g.rng.Uint64())
	}
	for i := range n {
		g.length(uint64(i * 1000))
		switch tag := g.rng.IntN(4); tag {
		case 1:
			g.length(1)
			g.u64(g.rng.Uint64())
		case 2:
			g.length(2)
			g.u64(math.Float64bits(g.rng.NormFloat64()))
		default:
			g.length(uint64(tag))
			g.text(g.word())
		}
	}
}

// generate returns the file.
func (g *generator) generate() []byte {
	g.want = map[string]string{}
	if g.version == 80 {
		g.b = append(g.b, "VALKEY080"...)
		g.b = append(g.b, 0xFA)
		g.text("valkey-ver")
		g.text("9.1.2")
	} else {
		g.b = fmt.Appendf(g.b, "REDIS%04d", g.version)
	}
	for _, aux := range []string{"slot-info", "an unknown field"} {
		g.b = append(g.b, 0xFA)
		g.text(aux)
		g.text("1,2,3,4")
	}
	g.b = append(g.b, 0xFE)
	g.length(0)
	g.b = append(g.b, 0xFB)
	g.length(uint64(g.rng.IntN(100)))
	g.length(0)
	if g.version == 80 && g.rng.IntN(3) == 0 {
		g.b = append(g.b, 0xF3)
		g.text("an import")
		g.length(1)
		g.length(5)
		g.length(100)
	}
	if g.version == 15 {
		g.templates()
	}
	for range 5 + g.rng.IntN(30) {
		g.anyKey()
	}
	g.b = append(g.b, 0xFF)
	sum := uint64(0)
	if g.rng.IntN(4) > 0 {
		sum = checksum(g.b)
	}
	g.u64(sum)
	return g.b
}

func (g *generator) anyKey() {
	switch choice := g.rng.IntN(8); {
	case choice == 0:
		name, v := g.key(0, "string"), g.word()
		g.text(v)
		g.want[name] = v
	case choice == 1:
		name := g.key(18, "list")
		values, elements := g.values(1 + g.rng.IntN(9))
		g.length(2)
		g.length(2)
		g.text(listpackOf(elements...))
		g.length(1)
		g.text("plain")
		g.want[name] = strings.Join(append(values, "plain"), ",")
	case g.version == 80:
		g.hash2()
	case choice == 2:
		g.stream(4)
	case g.version >= 14 && choice == 3:
		g.stream(5)
	case g.version >= 14 && choice == 4:
		g.array()
	case g.version == 15:
		g.templateHash(byte(29 + g.rng.IntN(4)))
	}
}

// hash2 writes Valkey's form of a hash with deadlines of fields.
func (g *generator) hash2() {
	name := g.key(22, "hash2")
	names := g.fields(1 + g.rng.IntN(40))
	values, _ := g.values(len(names))
	g.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	g.length(uint64(len(names)))
	for i := range names {
		g.text(names[i])
		g.text(values[i])
		if g.rng.IntN(2) == 0 {
			at := far + g.rng.IntN(5)
			g.u64(uint64(at))
			g.want["deadline "+name+" "+names[i]] = fmt.Sprint(at)
		} else {
			g.u64(math.MaxUint64)
		}
	}
	g.hash(name, names, values)
}

// templateHash writes a hash with a template. The template is in the file or in the value.
func (g *generator) templateHash(kind byte) {
	name := g.key(kind, "template")
	id, names := g.template()
	values, elements := g.values(len(names))
	switch kind {
	case 29:
		g.inlineNames(names)
		g.text(listpackOf(append([]any{7}, elements...)...))
	case 30:
		g.text(listpackOf(append([]any{int(id)}, elements...)...))
	case 31, 32:
		if kind == 31 {
			g.inlineNames(names)
		} else {
			g.length(id)
		}
		for _, v := range values {
			g.text(v)
		}
	}
	g.hash(name, names, values)
}

// checksum returns the CRC-64/Jones of b, computed bit by bit.
func checksum(b []byte) (sum uint64) {
	for _, c := range b {
		sum ^= uint64(c)
		for range 8 {
			bit := sum & 1
			if sum >>= 1; bit != 0 {
				sum ^= 0x95ac9329ac4bc9b5 // 0xad93d23594c935a9, reflected
			}
		}
	}
	return sum
}

// found returns the value of a key of a generated file as a client reads it.
func found(s *testkit.Server, key string) string {
	words := strings.Fields(key)
	if words[0] == "deadline" {
		if len(words) == 2 {
			return fmt.Sprint(s.Do("PEXPIRETIME", words[1]).Int)
		}
		return fmt.Sprint(s.Do("HPEXPIRETIME", words[1], "FIELDS", 1, words[2]).Elems[0].Int)
	}
	var texts []string
	switch typeName, _, _ := strings.Cut(key, ":"); typeName {
	case "string":
		return s.Do("GET", key).Text
	case "list":
		for _, e := range s.Do("LRANGE", key, 0, -1).Elems {
			texts = append(texts, e.Text)
		}
		return strings.Join(texts, ",")
	case "stream":
		for _, e := range s.Do("XRANGE", key, "-", "+").Elems {
			texts = append(texts, e.Elems[0].Text+" "+e.Elems[1].Elems[0].Text+" "+e.Elems[1].Elems[1].Text)
		}
		for _, e := range s.Do("XPENDING", key, "group", "-", "+", 100).Elems {
			texts = append(texts, fmt.Sprintf("pending %s %q %d", e.Elems[0].Text, e.Elems[1].Text, e.Elems[3].Int))
		}
		full := s.Do("XINFO", "STREAM", key, "FULL").Elems
		group := full[len(full)-1].Elems[0].Elems
		for i := 0; i+1 < len(group); i += 2 {
			switch group[i].Text {
			case "nacked-count":
				texts = append(texts, fmt.Sprint("given back ", group[i+1].Int))
			case "consumers":
				texts = append(texts, fmt.Sprint("consumers ", len(group[i+1].Elems)))
			}
		}
		return strings.Join(texts, ", ")
	}
	for all := s.Do("HGETALL", key).Elems; len(all) > 0; all = all[2:] {
		texts = append(texts, fmt.Sprintf("%q=%q", all[0].Text, all[1].Text))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// TestGenerated: spindle loads generated files of RDB 13 to 15 and of Valkey 9, with all keys except arrays. Our
// checker and rdb report read them too. After a save in our own form, the data is the same.
func TestGenerated(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, version := range []int{13, 14, 15, 80} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			s := testkit.Start(t, "--module-aux-data", "skip", "--rdb-unsupported-keys", "skip")
			for n := range *setsFlag {
				g := &generator{rng: rand.New(rand.NewPCG(seed, uint64(n))), version: version}
				file := g.generate()
				s.Do("FLUSHALL")
				if err := os.WriteFile(s.File("dump.rdb"), file, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, how := range []string{"NOSAVE", ""} {
					reload := []any{"DEBUG", "RELOAD", how}
					if how == "" {
						reload = reload[:2]
					}
					if v := s.Do(reload...); v.Text != "OK" {
						t.Fatalf("file %d: %v\n%s", n, v, s.Log())
					}
					keys := 0
					for key, want := range g.want {
						if !strings.HasPrefix(key, "deadline ") {
							keys++
						}
						if got := found(s, key); got != want {
							t.Fatalf("file %d, reload %q, %s:\n got %s\nwant %s", n, how, key, got, want)
						}
					}
					if got := s.Do("DBSIZE").Int; got != int64(keys) {
						t.Fatalf("file %d, reload %q: %d keys, want %d", n, how, got, keys)
					}
				}
				if n > 3 {
					continue
				}
				path := s.File("generated.rdb")
				if err := os.WriteFile(path, file, 0o600); err != nil {
					t.Fatal(err)
				}
				check(t, path, version)
				if out, err := exec.Command(testkit.Spindle(t), "rdb", "report", path).CombinedOutput(); err != nil ||
					!strings.Contains(string(out), fmt.Sprint("RDB version ", version)) {
					t.Fatalf("rdb report: %v\n%s", err, out)
				}
			}
		})
	}
}

// TestGeneratedDamage: a generated file that is truncated or has a few wrong bytes is either refused or loaded. The
// server keeps running, and no memory is lost.
func TestGeneratedDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := testkit.Start(t, "--module-aux-data", "skip", "--rdb-unsupported-keys", "skip", "--rdbchecksum", "no")
	used := func() int64 { return s.InfoInt("memory", "used_memory") }
	before := int64(0)
	refused, read := 0, 0
	for n := range 20 * *setsFlag {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		g := &generator{rng: rng, version: []int{13, 14, 15, 80}[n%4]}
		file := g.generate()
		if rng.IntN(3) == 0 {
			file = file[:rng.IntN(len(file))]
		} else {
			for range 1 + rng.IntN(3) {
				file[9+rng.IntN(len(file)-9)] = byte(rng.Uint32())
			}
		}
		if err := os.WriteFile(s.File("dump.rdb"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := s.Ask("DEBUG", "RELOAD", "NOSAVE")
		if err != nil {
			t.Fatalf("file %d: %v\n%s", n, err, s.Log())
		}
		if v.Err() != nil {
			refused++
		} else {
			read++
		}
		s.Do("FLUSHALL")
		if n == 20 {
			before = used()
		}
	}
	t.Logf("%d refused, %d read", refused, read)
	if refused == 0 || read == 0 {
		t.Error("the damage is always refused, or never")
	}
	if n := s.Do("DBSIZE").Int; n != 0 {
		t.Errorf("%d keys", n)
	}
	if err := testkit.Poll(testkit.Slowly(20*time.Second), func() error {
		if n := used(); n > before+256<<10 {
			return fmt.Errorf("%d bytes in use, %d after 20 files", n, before)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
