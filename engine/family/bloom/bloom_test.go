package bloom

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/client"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value/bloom"
	"spindle/engine/family/keys"
	"spindle/engine/family/str"
	"spindle/internal/setting"
	"spindle/tests/testkit/commandtest"
)

// No server with RedisBloom is available to record transcripts. The tables follow RedisBloom's documentation. Tables
// marked "published" use figures from RedisBloom's own published tests.

func newCore(t testing.TB) (*commandtest.Core, *keyspace.Keyspace) {
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	space := keyspace.New(heap, keyspace.Options{Databases: 16})
	core, err := commandtest.New(space, 1_700_000_000_000, Family(&Defaults{}), str.Family, keys.Family)
	if err != nil {
		t.Fatal(err)
	}
	return core, space
}

func do(core *commandtest.Core, cl *client.Client, line string, more ...string) string {
	return core.Do(cl, append(strings.Fields(line), more...)...)
}

// bulks returns the reply of an array of bulk strings.
func bulks(lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(lines))
	for _, l := range lines {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(l), l)
	}
	return b.String()
}

// TestPublishedChains compares the sizes, counts and rates of chains with the figures in RedisBloom's tests. The number
// of new items depends on every bit set, so it checks the hash, the sizes and the growth at once.
func TestPublishedChains(t *testing.T) {
	for _, c := range []struct {
		reserve string
		items   int
		want    []string
	}{
		{"0.01 10", 100, []string{
			"size:99",
			"bytes:16 bits:128 hashes:8 hashwidth:64 capacity:10 size:10 ratio:0.005",
			"bytes:32 bits:256 hashes:9 hashwidth:64 capacity:20 size:20 ratio:0.0025",
			"bytes:72 bits:576 hashes:10 hashwidth:64 capacity:40 size:40 ratio:0.00125",
			"bytes:160 bits:1280 hashes:11 hashwidth:64 capacity:80 size:29 ratio:0.000625",
		}},
		{"0.001 100", 4000, []string{
			"size:3997",
			"bytes:200 bits:1600 hashes:11 hashwidth:64 capacity:100 size:100 ratio:0.0005",
			"bytes:432 bits:3456 hashes:12 hashwidth:64 capacity:200 size:200 ratio:0.00025",
			"bytes:936 bits:7488 hashes:13 hashwidth:64 capacity:400 size:400 ratio:0.000125",
			"bytes:2016 bits:16128 hashes:14 hashwidth:64 capacity:800 size:800 ratio:6.25e-05",
			"bytes:4320 bits:34560 hashes:15 hashwidth:64 capacity:1600 size:1600 ratio:3.125e-05",
			"bytes:9216 bits:73728 hashes:16 hashwidth:64 capacity:3200 size:897 ratio:1.5625e-05",
		}},
	} {
		core, _ := newCore(t)
		cl := core.Client(2)
		do(core, cl, "BF.RESERVE bf "+c.reserve)
		for i := range c.items {
			do(core, cl, "BF.ADD bf", strconv.Itoa(i))
		}
		if got, want := do(core, cl, "BF.DEBUG bf"), bulks(c.want...); got != want {
			t.Errorf("BF.RESERVE %s:\n%s\nwant\n%s", c.reserve, got, want)
		}
	}
}

// TestPublishedGrowth compares the number of filters after a hundred items with published figures.
func TestPublishedGrowth(t *testing.T) {
	for growth, want := range map[string]string{"1": "*1\r\n:23\r\n", "2": "*1\r\n:5\r\n", "4": "*1\r\n:4\r\n"} {
		core, _ := newCore(t)
		cl := core.Client(2)
		do(core, cl, "BF.RESERVE bf 0.01 4 EXPANSION "+growth)
		for i := range 100 {
			do(core, cl, "BF.ADD bf", strconv.Itoa(i))
		}
		if got := do(core, cl, "BF.INFO bf FILTERS"); got != want {
			t.Errorf("expansion %s: %q filters, want %q", growth, got, want)
		}
	}
}

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"

// TestReplies: each line is a call, its RESP2 reply and, if it differs, its RESP3 reply. The calls of a case run in
// order.
func TestReplies(t *testing.T) {
	type step struct{ call, resp2, resp3 string }
	arity := func(name string) string { return "-ERR wrong number of arguments for '" + name + "' command\r\n" }
	for name, steps := range map[string][]step{
		"add": {
			{"BF.ADD", arity("bf.add"), ""},
			{"BF.ADD k", arity("bf.add"), ""},
			{"BF.ADD k a b", arity("bf.add"), ""},
			{"BF.EXISTS k a", ":0\r\n", "#f\r\n"},
			{"BF.ADD k a", ":1\r\n", "#t\r\n"},
			{"bf.add k a", ":0\r\n", "#f\r\n"},
			{"BF.EXISTS k a", ":1\r\n", "#t\r\n"},
			{"BF.CARD k", ":1\r\n", ""},
			{"BF.MADD k a b c", "*3\r\n:0\r\n:1\r\n:1\r\n", "*3\r\n#f\r\n#t\r\n#t\r\n"},
			{"BF.MEXISTS k a z c", "*3\r\n:1\r\n:0\r\n:1\r\n", "*3\r\n#t\r\n#f\r\n#t\r\n"},
			{"BF.MADD k", arity("bf.madd"), ""},
			{"BF.MEXISTS k", arity("bf.mexists"), ""},
			{"BF.CARD none", ":0\r\n", ""},
			{"BF.MEXISTS none a b", "*2\r\n:0\r\n:0\r\n", "*2\r\n#f\r\n#f\r\n"},
			{"TYPE k", "+MBbloom--\r\n", ""},
			{"OBJECT ENCODING k", "$3\r\nraw\r\n", ""},
			{"SCAN 0 TYPE mbbloom--", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n", ""},
			{"SCAN 0 TYPE string", "*2\r\n$1\r\n0\r\n*0\r\n", ""},
		},
		"wrong type": {
			{"SET s x", "+OK\r\n", ""},
			{"BF.ADD s a", wrongType, ""},
			{"BF.MADD s a", wrongType, ""},
			{"BF.INSERT s ITEMS a", wrongType, ""},
			{"BF.RESERVE s 0.1 10", wrongType, ""},
			{"BF.CARD s", wrongType, ""},
			{"BF.INFO s", wrongType, ""},
			{"BF.DEBUG s", wrongType, ""},
			{"BF.SCANDUMP s 0", wrongType, ""},
			{"BF.LOADCHUNK s 1 x", wrongType, ""},
			{"BF.EXISTS s a", ":0\r\n", "#f\r\n"},
			{"BF.MEXISTS s a", "*1\r\n:0\r\n", "*1\r\n#f\r\n"},
			{"BF.ADD k a", ":1\r\n", "#t\r\n"},
			{"GET k", wrongType, ""},
			{"APPEND k x", wrongType, ""},
		},
		"reserve": {
			{"BF.RESERVE k 0.1", arity("bf.reserve"), ""},
			{"BF.RESERVE k 0.1 1 2 3 4 5", arity("bf.reserve"), ""},
			{"BF.RESERVE k x 10", "-ERR bad error rate\r\n", ""},
			{"BF.RESERVE k 0 10", "-ERR (0 < error rate range < 1) \r\n", ""},
			{"BF.RESERVE k 1 10", "-ERR (0 < error rate range < 1) \r\n", ""},
			{"BF.RESERVE k 7.7 10", "-ERR (0 < error rate range < 1) \r\n", ""},
			{"BF.RESERVE k 0.1 x", "-ERR bad capacity\r\n", ""},
			{"BF.RESERVE k 0.1 18446744073709551616", "-ERR bad capacity\r\n", ""},
			{"BF.RESERVE k 0.1 0", "-ERR (capacity should be larger than 0)\r\n", ""},
			{"BF.RESERVE k 0.1 10 EXPANSION", "-ERR no expansion\r\n", ""},
			{"BF.RESERVE k 0.1 10 EXPANSION x", "-ERR bad expansion\r\n", ""},
			{"BF.RESERVE k 0.1 10 EXPANSION 0", "-ERR expansion should be greater or equal to 1\r\n", ""},
			{"BF.RESERVE k 0.1 10 NONSCALING EXPANSION 2", "-Nonscaling filters cannot expand\r\n", ""},
			{"BF.RESERVE k 0.001 9223372036854775807", "-ERR Insufficient memory to create filter\r\n", ""},
			{"BF.RESERVE k 5e-324 10", "-ERR could not create filter\r\n", ""},
			{"BF.RESERVE k 0.1 10 whatever", "+OK\r\n", ""},
			{"BF.RESERVE k 0.1 10", "-ERR item exists\r\n", ""},
			{"BF.RESERVE j 0.1 10 expansion 4", "+OK\r\n", ""},
			{"BF.INFO j EXPANSION", "*1\r\n:4\r\n", "%1\r\n+Expansion rate\r\n:4\r\n"},
			{"BF.RESERVE 300m 0.000001 300000000", "+OK\r\n", ""}, // published, with the size
			{"BF.INFO 300m SIZE", "*1\r\n:1132420232\r\n", "%1\r\n+Size\r\n:1132420232\r\n"},
			{"BF.ADD 300m a", ":1\r\n", "#t\r\n"},
		},
		"very high rates": { // published
			{"BF.RESERVE a 0.99 3 NONSCALING", "+OK\r\n", ""},
			{"BF.ADD a 1", ":1\r\n", "#t\r\n"},
			{"BF.RESERVE b 0.95 8 NONSCALING", "+OK\r\n", ""},
			{"BF.ADD b 1", ":1\r\n", "#t\r\n"},
			{"BF.RESERVE c 0.9999999999999999 100 NONSCALING", "+OK\r\n", ""},
			{"BF.ADD c 1", ":1\r\n", "#t\r\n"},
		},
		"insert": {
			{"BF.INSERT k ITEMS", arity("bf.insert"), ""},
			{"BF.INSERT k CAPACITY 3 ITEMS", arity("bf.insert"), ""},
			{"BF.INSERT k NOCREATE CAPACITY", arity("bf.insert"), ""},
			{"BF.INSERT k NOCREATE ERROR", arity("bf.insert"), ""},
			{"BF.INSERT k NOCREATE NOCREATE", arity("bf.insert"), ""},
			{"BF.INSERT k NOCREATE ITEMS a", "-ERR not found\r\n", ""},
			{"BF.INSERT k DONTEXIST NOCREATE", "-Unknown argument received\r\n", ""},
			{"BF.INSERT k CAPACITY 0.3", "-Bad capacity\r\n", ""},
			{"BF.INSERT k ERROR big", "-Bad error rate\r\n", ""},
			{"BF.INSERT k EXPANSION big", "-Bad expansion\r\n", ""},
			{"BF.INSERT k EXPANSION 0 ITEMS a", "-Bad argument received\r\n", ""},
			{"BF.INSERT k CAPACITY 0 ITEMS a", "-Bad argument received\r\n", ""},
			{"BF.INSERT k ERROR 1 ITEMS a", "-Bad argument received\r\n", ""},
			{"BF.INSERT k CAPACITY 9223372036854775807 ITEMS a", "-ERR Insufficient memory to create filter\r\n", ""},
			{"BF.INSERT k ERROR 0.001 CAPACITY 50000 EXPANSION 2 ITEMS foo", "*1\r\n:1\r\n", "*1\r\n#t\r\n"},
			{"BF.DEBUG k", bulks("size:1", "bytes:98880 bits:791040 hashes:11 hashwidth:64 capacity:50000 size:1 ratio:0.0005"),
				""},
			{"BF.INSERT k ERROR 0.1 ITEMS foo bar baz", "*3\r\n:0\r\n:1\r\n:1\r\n", "*3\r\n#f\r\n#t\r\n#t\r\n"},
			{"BF.DEBUG k", bulks("size:3", "bytes:98880 bits:791040 hashes:11 hashwidth:64 capacity:50000 size:3 ratio:0.0005"),
				""},
			{"bf.insert j cap 7 exp 3 err 0.2 item a", "*1\r\n:1\r\n", "*1\r\n#t\r\n"},
			{"BF.INFO j CAPACITY", "*1\r\n:7\r\n", "%1\r\n+Capacity\r\n:7\r\n"},
		},
		"fixed": { // published
			{"BF.INSERT k CAPACITY 3 NONSCALING ITEMS a b c", "*3\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n#t\r\n#t\r\n#t\r\n"},
			{"BF.INSERT k ITEMS a b c d d", "*4\r\n:0\r\n:0\r\n:0\r\n-ERR non scaling filter is full\r\n",
				"*4\r\n#f\r\n#f\r\n#f\r\n-ERR non scaling filter is full\r\n"},
			{"BF.ADD k d", "-ERR non scaling filter is full\r\n", ""},
			{"BF.INFO k", "*10\r\n+Capacity\r\n:3\r\n+Size\r\n:104\r\n+Number of filters\r\n:1\r\n+Number of items " +
				"inserted\r\n:3\r\n+Expansion rate\r\n$-1\r\n",
				"%5\r\n+Capacity\r\n:3\r\n+Size\r\n:104\r\n+Number of filters\r\n:1\r\n+Number of items " +
					"inserted\r\n:3\r\n+Expansion rate\r\n_\r\n"},
			{"BF.INFO k EXPANSION", "*1\r\n$-1\r\n", "%1\r\n+Expansion rate\r\n_\r\n"},
		},
		"cannot grow": {
			{"BF.RESERVE k 0.5 1 EXPANSION 4294967296", "+OK\r\n", ""}, // only the low 32 bits are kept: 0
			{"BF.MADD k a b c", "*3\r\n:1\r\n-ERR problem inserting into filter\r\n-ERR problem inserting into filter\r\n",
				"*3\r\n#t\r\n-ERR problem inserting into filter\r\n-ERR problem inserting into filter\r\n"},
			{"BF.ADD k b", "-ERR problem inserting into filter\r\n", ""},
		},
		"info": {
			{"BF.INFO k", "-ERR not found\r\n", ""},
			{"BF.RESERVE k 0.001 100", "+OK\r\n", ""},
			{"BF.INFO k", "*10\r\n+Capacity\r\n:100\r\n+Size\r\n:296\r\n+Number of filters\r\n:1\r\n+Number of items " +
				"inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n",
				"%5\r\n+Capacity\r\n:100\r\n+Size\r\n:296\r\n+Number of filters\r\n:1\r\n+Number of items " +
					"inserted\r\n:0\r\n+Expansion rate\r\n:2\r\n"},
			{"BF.INFO k capacity", "*1\r\n:100\r\n", "%1\r\n+Capacity\r\n:100\r\n"},
			{"BF.INFO k size", "*1\r\n:296\r\n", "%1\r\n+Size\r\n:296\r\n"},
			{"BF.INFO k filters", "*1\r\n:1\r\n", "%1\r\n+Number of filters\r\n:1\r\n"},
			{"BF.INFO k items", "*1\r\n:0\r\n", "%1\r\n+Number of items inserted\r\n:0\r\n"},
			{"BF.INFO k wrong", "-Invalid information value\r\n", ""},
			{"BF.INFO k capacity size", arity("bf.info"), ""},
			{"BF.ADD j item", ":1\r\n", "#t\r\n"},
			{"BF.INFO j SIZE", "*1\r\n:240\r\n", "%1\r\n+Size\r\n:240\r\n"},
		},
		"dump": {
			{"BF.SCANDUMP k 0", "-ERR not found\r\n", ""},
			{"BF.LOADCHUNK k 2 x", "-ERR not found\r\n", ""},
			{"BF.LOADCHUNK k 1 x", "-ERR received bad data\r\n", ""},
			{"BF.LOADCHUNK k one x", "-ERR Second argument must be numeric\r\n", ""},
			{"BF.RESERVE k 0.1 4", "+OK\r\n", ""}, // 8 bytes
			{"BF.SCANDUMP k str", "-Second argument must be numeric\r\n", ""},
			{"BF.SCANDUMP k 1", "*2\r\n:9\r\n$8\r\n\x00\x00\x00\x00\x00\x00\x00\x00\r\n", ""},
			{"BF.SCANDUMP k 6", "*2\r\n:9\r\n$3\r\n\x00\x00\x00\r\n", ""},
			{"BF.SCANDUMP k 9", "*2\r\n:0\r\n$0\r\n\r\n", ""},
			{"BF.SCANDUMP k -1", "*2\r\n:0\r\n$0\r\n\r\n", ""},
			{"BF.SCANDUMP k -9223372036854775808", "*2\r\n:0\r\n$0\r\n\r\n", ""},
			{"BF.LOADCHUNK k -9223372036854775808 1", "-ERR received bad data\r\n", ""},
			{"BF.LOADCHUNK k 922337203685477588 1", "-ERR invalid offset - no link found\r\n", ""},
			{"BF.LOADCHUNK k 4 kdoasdksaodsadsadsadsadsadadsadadsdad", "-ERR received bad data\r\n", ""},
			{"BF.LOADCHUNK k 4 abcd", "-ERR invalid offset - no link found\r\n", ""},
			{"BF.LOADCHUNK k 9 abcdefgh", "+OK\r\n", ""},
			{"BF.LOADCHUNK k 10 abcdefgh", "-ERR invalid chunk - Too big for current filter\r\n", ""},
			{"BF.LOADCHUNK k 7 xy", "+OK\r\n", ""},
			{"BF.SCANDUMP k 1", "*2\r\n:9\r\n$8\r\nabcdxygh\r\n", ""},
		},
		"keys": {
			{"BF.MADD k a b c", "*3\r\n:1\r\n:1\r\n:1\r\n", "*3\r\n#t\r\n#t\r\n#t\r\n"},
			{"COPY k j", ":1\r\n", ""},
			{"BF.ADD j d", ":1\r\n", "#t\r\n"},
			{"BF.EXISTS k d", ":0\r\n", "#f\r\n"},
			{"BF.MEXISTS j a b c d", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "*4\r\n#t\r\n#t\r\n#t\r\n#t\r\n"},
			{"RENAME k j", "+OK\r\n", ""},
			{"BF.MEXISTS j a b c d", "*4\r\n:1\r\n:1\r\n:1\r\n:0\r\n", "*4\r\n#t\r\n#t\r\n#t\r\n#f\r\n"},
			{"EXPIRE j 100", ":1\r\n", ""},
			{"BF.ADD j e", ":1\r\n", "#t\r\n"},
			{"TTL j", ":100\r\n", ""},
			{"SET j x", "+OK\r\n", ""},
			{"TYPE j", "+string\r\n", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for protocol := 2; protocol <= 3; protocol++ {
				core, _ := newCore(t)
				core.Settings.MaxFilter.Set(64 << 30)
				cl := core.Client(protocol)
				for _, s := range steps {
					want := s.resp2
					if protocol == 3 && s.resp3 != "" {
						want = s.resp3
					}
					if got := do(core, cl, s.call); got != want {
						t.Errorf("RESP%d: %s\n got %q\nwant %q", protocol, s.call, got, want)
					}
				}
			}
		})
	}
}

// TestMaxSize: bf-max-size limits the capacity of a filter, not its content. Commands from a primary are not limited.
func TestMaxSize(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	const refused = "-ERR the filter would be larger than bf-max-size or maxmemory\r\n"
	core.Settings.MaxFilter.Set(64 << 30)
	if got := do(core, cl, "BF.RESERVE big 0.01 2000000"); got != "+OK\r\n" { // 2.7 MB
		t.Fatal(got)
	}
	header := strings.SplitN(do(core, cl, "BF.SCANDUMP big 0"), "\r\n", 4)[3]
	header = header[:len(header)-2]
	core.Settings.MaxFilter.Set(1 << 20)
	for _, c := range []struct{ call, more, want string }{
		{"BF.RESERVE k 0.01 2000000", "", refused},
		{"BF.RESERVE k 0.01 4000000000", "", refused},
		{"BF.INSERT k CAPACITY 2000000 ITEMS a", "", refused},
		{"BF.LOADCHUNK k 1", header, refused},
		{"EXISTS k", "", ":0\r\n"},
		{"BF.RESERVE k 0.01 700000", "", "+OK\r\n"}, // 0.96 MB
		{"BF.ADD big a", "", ":1\r\n"},              // the filter exists with its full size already
		{"BF.RESERVE grows 0.01 1 EXPANSION 4000000", "", "+OK\r\n"},
		{"BF.ADD grows a", "", ":1\r\n"},
		{"BF.ADD grows b", "", refused},
		{"BF.MADD grows a b c", "", "*3\r\n:0\r\n" + refused + refused},
		{"BF.INFO grows FILTERS", "", "*1\r\n:1\r\n"},
	} {
		call := strings.Fields(c.call)
		if c.more != "" {
			call = append(call, c.more)
		}
		if got := core.Do(cl, call...); got != c.want {
			t.Errorf("%s: %q, want %q", c.call, got, c.want)
		}
	}
	// Replicas have no such bound and get the items that were added.
	for _, c := range []struct{ call, want string }{
		{"BF.MADD grows a", "[{0 [BF.MADD grows a]}]"},
		{"BF.MADD grows a b a c", "[{0 [BF.MADD grows a a]}]"},
		{"BF.INSERT grows NOCREATE ITEMS b a c", "[{0 [BF.INSERT grows NOCREATE ITEMS a]}]"},
		{"BF.MADD grows b c", "[]"},
		{"BF.ADD grows b", "[]"},
	} {
		core.Reset()
		do(core, cl, c.call)
		if got := fmt.Sprint(core.Effects); got != c.want {
			t.Errorf("%s: %s, want %s", c.call, got, c.want)
		}
	}
	var memory setting.Uint
	memory.Set(100_000)
	core.Settings.MaxMemory = &memory
	if got := do(core, cl, "BF.RESERVE m 0.01 100000"); got != refused {
		t.Errorf("beyond maxmemory: %q", got)
	}
	cl.Flags |= client.Primary
	if got := do(core, cl, "BF.RESERVE m 0.01 100000000"); got != "+OK\r\n" {
		t.Errorf("from a primary: %q", got)
	}
}

// chunkHeader returns the header of a chain of links like l. Each link is 8 bytes longer than the one before.
func chunkHeader(links int, l bloom.Link) string {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, 0)
	b = le.AppendUint32(b, uint32(links))
	b = le.AppendUint32(b, uint32(bloom.Exact|bloom.Wide))
	b = le.AppendUint32(b, 2)
	for i := range uint64(links) {
		b = le.AppendUint64(b, l.Bytes+8*i)
		b = le.AppendUint64(b, l.Bits+64*i)
		b = le.AppendUint64(b, 0)
		b = le.AppendUint64(b, math.Float64bits(l.Error))
		b = le.AppendUint64(b, math.Float64bits(l.PerItem))
		b = le.AppendUint32(b, l.Hashes)
		b = le.AppendUint64(b, l.Capacity)
		b = append(b, l.Power)
	}
	return string(b)
}

// TestWork: no command on a forged chain holds the turn for long. The chain has hundreds of links with a thousand
// hashes each, and nearly all bits are set.
func TestWork(t *testing.T) {
	core, space := newCore(t)
	cl := core.Client(2)
	l := bloom.Link{Bytes: 512, Bits: 4096, Error: 0.5, PerItem: 1442, Hashes: 1000, Capacity: 1 << 40}
	if got := do(core, cl, "BF.LOADCHUNK k 1", chunkHeader(2048, l)); got != "-ERR received bad data\r\n" {
		t.Errorf("two million hashes: %q", got)
	}
	const links = 500
	if got := do(core, cl, "BF.LOADCHUNK k 1", chunkHeader(links, l)); got != "+OK\r\n" {
		t.Fatal(got)
	}
	rng, end := rand.New(rand.NewPCG(1, 2)), 0
	for i := range links {
		bits := bytes.Repeat([]byte{0xff}, 512+8*i)
		for range len(bits) / 16 { // 1 bit of 128
			bits[rng.IntN(len(bits))] &^= 1 << rng.IntN(8)
		}
		end += len(bits)
		if got := do(core, cl, "BF.LOADCHUNK k "+strconv.Itoa(1+end), string(bits)); got != "+OK\r\n" {
			t.Fatal(got)
		}
	}
	items := make([]string, 2000)
	for i := range items {
		items[i] = strconv.Itoa(i)
	}
	r := bloom.Read(space.DB(0).Peek([]byte("k")))
	b := bloom.Bound{Probes: 1 << 40}
	if _, err := r.HasWithin([]byte("item"), &b); err != nil || 1<<40-b.Probes < 8192 {
		t.Errorf("an item costs %d looks: too few for this test", 1<<40-b.Probes)
	}
	const refused = "-ERR the filter has too many hashes for so many items in one call\r\n"
	if got := do(core, cl, "BF.MEXISTS k", items...); got != refused {
		t.Errorf("BF.MEXISTS: %.80q", got)
	}
	if got := do(core, cl, "BF.MADD k", items...); !strings.HasSuffix(got, refused) {
		t.Errorf("BF.MADD: %.80q", got[len(got)-80:])
	}
	if got := do(core, cl, "BF.MEXISTS k", items[:10]...); !strings.HasPrefix(got, "*10\r\n") {
		t.Errorf("BF.MEXISTS of a few: %.80q", got)
	}
	// These commands succeed on the longest chain that additions can make.
	do(core, cl, "BF.RESERVE long 0.5 1 EXPANSION 1")
	for i := range 900 {
		do(core, cl, "BF.ADD long", strconv.Itoa(i))
	}
	if got := do(core, cl, "BF.MEXISTS long", items...); !strings.HasPrefix(got, "*2000\r\n") {
		t.Errorf("BF.MEXISTS of a long chain: %.80q", got)
	}
}

// TestEffects: an addition is propagated as written, even if the filter had the item. A failed addition is not
// propagated. The only event is "new".
func TestEffects(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	for _, c := range []struct {
		call    string
		effects string
		events  string
	}{
		{"BF.ADD k a", "[{0 [BF.ADD k a]}]", "new"},
		{"BF.ADD k a", "[{0 [BF.ADD k a]}]", ""},
		{"BF.MADD k a b", "[{0 [BF.MADD k a b]}]", ""},
		{"BF.RESERVE k 0.1 10", "[]", ""},
		{"BF.RESERVE j 0.1 10", "[{0 [BF.RESERVE j 0.1 10]}]", "new"},
		{"BF.INSERT j ITEMS a", "[{0 [BF.INSERT j ITEMS a]}]", ""},
		{"BF.INSERT f CAPACITY 1 NONSCALING ITEMS a b", "[{0 [BF.INSERT f CAPACITY 1 NONSCALING ITEMS a b]}]", "new"},
		{"BF.ADD f b", "[]", ""},
		{"BF.EXISTS j a", "[]", ""},
		{"BF.CARD none", "[]", "keymiss"},
	} {
		core.Reset()
		do(core, cl, c.call)
		var events []string
		for _, e := range core.Events {
			events = append(events, e.Name)
		}
		if got := fmt.Sprint(core.Effects); got != c.effects {
			t.Errorf("%s: %s, want %s", c.call, got, c.effects)
		}
		if got := strings.Join(events, " "); got != c.events {
			t.Errorf("%s: events %q, want %q", c.call, got, c.events)
		}
	}
}

// chunks returns the pieces that BF.SCANDUMP returns for key, with their iterators.
func chunks(t *testing.T, core *commandtest.Core, cl *client.Client, key string) (pieces [][2]string) {
	for at := "0"; ; {
		reply := do(core, cl, "BF.SCANDUMP", key, at)
		head, rest, _ := strings.Cut(strings.TrimPrefix(reply, "*2\r\n:"), "\r\n$")
		_, data, _ := strings.Cut(rest, "\r\n")
		if head == "0" {
			return pieces
		}
		if at == head {
			t.Fatalf("%s again", at)
		}
		at = head
		pieces = append(pieces, [2]string{at, strings.TrimSuffix(data, "\r\n")})
	}
}

// TestDump: BF.LOADCHUNK rebuilds any filter from BF.SCANDUMP's chunks. It refuses a false header.
func TestDump(t *testing.T) {
	core, space := newCore(t)
	cl := core.Client(2)
	do(core, cl, "BF.RESERVE k 0.01 62")
	for i := range 5000 {
		do(core, cl, "BF.ADD k", strconv.Itoa(i))
	}
	do(core, cl, "BF.RESERVE big 0.01 14000000")
	do(core, cl, "BF.MADD big a b c")
	for _, key := range []string{"k", "big"} {
		pieces := chunks(t, core, cl, key)
		for _, p := range pieces {
			if got := do(core, cl, "BF.LOADCHUNK copy", p[0], p[1]); got != "+OK\r\n" {
				t.Fatalf("%s: %s", p[0], got)
			}
		}
		if got, want := do(core, cl, "BF.DEBUG copy"), do(core, cl, "BF.DEBUG "+key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
		if again := chunks(t, core, cl, "copy"); fmt.Sprint(again) != fmt.Sprint(pieces) {
			t.Errorf("%s: other bits", key)
		}
		if err := bloom.Check(space.DB(0).Peek([]byte("copy"))); err != nil {
			t.Error(err)
		}
		do(core, cl, "DEL copy")
	}
	if got := len(chunks(t, core, cl, "big")); got != 3 { // 19 MB and the header
		t.Errorf("%d pieces", got)
	}
	header := chunks(t, core, cl, "k")[0][1]
	for name, change := range map[string]func(h []byte) []byte{
		"short":             func(h []byte) []byte { return h[:19] },
		"cut":               func(h []byte) []byte { return h[:len(h)-1] },
		"longer":            func(h []byte) []byte { return append(h, 0) },
		"no links":          func(h []byte) []byte { return append(h[:8:8], make([]byte, 12)...) },
		"items":             func(h []byte) []byte { h[0]++; return h },
		"option":            func(h []byte) []byte { h[12] |= 16; return h },
		"bytes":             func(h []byte) []byte { h[20]++; return h },
		"bits":              func(h []byte) []byte { h[28]++; return h },
		"huge":              func(h []byte) []byte { h[27] = 0x03; h[35] = 0x18; return h }, // published
		"huge and zero":     func(h []byte) []byte { h[27], h[35] = 0x20, 0; return h },
		"rate":              func(h []byte) []byte { copy(h[44:52], make([]byte, 8)); return h },
		"bits an item":      func(h []byte) []byte { h[59]++; return h },
		"hashes":            func(h []byte) []byte { h[60]++; return h },
		"power":             func(h []byte) []byte { h[72] = 64; return h },
		"power of all bits": func(h []byte) []byte { h[72] = 63; return h },
	} {
		if got := do(core, cl, "BF.LOADCHUNK bad 1", string(change([]byte(header)))); got != "-ERR received bad data\r\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := do(core, cl, "EXISTS bad"); got != ":0\r\n" {
		t.Error("a header that was refused made a key")
	}
}

// TestNoAllocations: in steady state queries and additions do not allocate on the Go heap.
func TestNoAllocations(t *testing.T) {
	core, _ := newCore(t)
	cl := core.Client(2)
	do(core, cl, "BF.RESERVE k 0.01 10000")
	core.Mute = true
	var args [][]byte
	n := 0
	for _, words := range []string{"BF.ADD k item", "BF.EXISTS k item", "BF.MADD k a b c", "BF.MEXISTS k a b z",
		"BF.INSERT k ITEMS a b", "BF.CARD k", "BF.INFO k", "BF.DEBUG k"} {
		args = args[:0]
		for _, w := range strings.Fields(words) {
			args = append(args, []byte(w))
		}
		if allocs := testing.AllocsPerRun(200, func() {
			n++
			args[len(args)-1] = strconv.AppendInt(args[len(args)-1][:0], int64(n%90), 10)
			if words == "BF.INFO k" || words == "BF.DEBUG k" || words == "BF.CARD k" {
				args[len(args)-1] = append(args[len(args)-1][:0], 'k')
			}
			cl.Out.Reset()
			core.Serve(cl, args)
		}); allocs != 0 {
			t.Errorf("%s allocates %v times", words, allocs)
		}
	}
}
