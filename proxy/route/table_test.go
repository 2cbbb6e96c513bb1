package route

import (
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// commands is a COMMAND reply in short form: name, arity, flags, first, last and step, tips, and specifications.
const commands = `
get 2 readonly,fast 1 1 1 - 1/range:0:1:0
set -3 write 1 1 1 - 1/range:0:1:0
mget -2 readonly 1 -1 1 request_policy:multi_shard 1/range:-1:1:0
mset -3 write 1 -1 2 request_policy:multi_shard,response_policy:all_succeeded 1/range:-1:2:0
msetnx -3 write 1 -1 2 request_policy:multi_shard,response_policy:agg_min 1/range:-1:2:0
msetex -4 write,movablekeys 0 0 0 request_policy:multi_shard,response_policy:all_succeeded 1/keynum:0:1:2
del -2 write 1 -1 1 request_policy:multi_shard,response_policy:agg_sum 1/range:-1:1:0
rename 3 write 1 2 1 - 1/range:0:1:0 2/range:0:1:0
lcs -3 readonly 1 2 1 - 1/range:1:1:0
bitop -4 write 2 -1 1 - 2/range:0:1:0 3/range:-1:1:0
blpop -3 write,blocking 1 -2 1 - 1/range:-2:1:0
eval -3 noscript,movablekeys 0 0 0 - 2/keynum:0:1:1
zunionstore -4 write,movablekeys 1 1 1 - 1/range:0:1:0 2/keynum:0:1:1
xread -4 readonly,blocking,movablekeys 0 0 0 - STREAMS@1/range:-1:1:2
xreadgroup -7 write,blocking,movablekeys 0 0 0 - STREAMS@4/range:-1:1:2
georadius -6 write,movablekeys 1 1 1 - 1/range:0:1:0 STORE@6/range:0:1:0 STOREDIST@6/range:0:1:0
sort -2 write,movablekeys 1 1 1 - 1/range:0:1:0 unknown unknown
sort_ro -2 readonly,movablekeys 1 1 1 - 1/range:0:1:0 unknown
migrate -6 write,movablekeys 3 3 1 - 3/range:0:1:0 KEYS@-2/range:-1:1:0/incomplete
object -2 - 0 0 0 -
.object|encoding 3 readonly 2 2 1 - 2/range:0:1:0
.object|help 2 loading 0 0 0 -
client -2 - 0 0 0 -
.client|list -2 admin 0 0 0 -
config -2 - 0 0 0 -
.config|get -3 admin 0 0 0 -
script -2 - 0 0 0 -
.script|load 3 noscript 0 0 0 request_policy:all_nodes,response_policy:all_succeeded
.script|exists -3 noscript 0 0 0 request_policy:all_shards,response_policy:agg_logical_and
dbsize 1 readonly,fast 0 0 0 request_policy:all_shards,response_policy:agg_sum
keys 2 readonly 0 0 0 request_policy:all_shards
randomkey 1 readonly 0 0 0 request_policy:all_shards,response_policy:special
scan -2 readonly 0 0 0 request_policy:special,response_policy:special
wait 3 blocking 0 0 0 request_policy:all_shards,response_policy:agg_min
multi 1 noscript 0 0 0 -
watch -2 noscript 1 -1 1 - 1/range:-1:1:0
ssubscribe -2 pubsub 1 -1 1 - 1/range:-1:1:0
spublish 3 pubsub 1 1 1 - 1/range:0:1:0
monitor 1 admin 0 0 0 -
ping -1 fast 0 0 0 request_policy:all_shards,response_policy:all_succeeded
foo.any -1 module 0 0 0 -
foo.sum -1 module 0 0 0 request_policy:all_shards,response_policy:agg_max
foo.odd -1 module 0 0 0 request_policy:all_shards,response_policy:special
foo.key 2 module,readonly 1 1 1 -
foo.part -2 module 1 1 1 - 1/range:0:1:0/incomplete
foo.move -2 module,movablekeys 1 1 1 -
`

func text(s string) respclient.Value { return respclient.Value{Kind: '$', Text: s} }
func whole64(n int) respclient.Value { return respclient.Value{Kind: ':', Int: int64(n)} }
func list(of ...respclient.Value) respclient.Value {
	return respclient.Value{Kind: '*', Elems: of}
}

func words(s, sep string) respclient.Value {
	v := list()
	for w := range strings.SplitSeq(s, sep) {
		if w != "-" {
			v.Elems = append(v.Elems, text(w))
		}
	}
	return v
}

// specValue makes a key specification from one word of commands.
func specValue(t testing.TB, word string) respclient.Value {
	begin, find, _ := strings.Cut(word, "/")
	find, flag, _ := strings.Cut(find, "/")
	part := func(kind string, fields ...respclient.Value) respclient.Value {
		return list(text("type"), text(kind), text("spec"), list(fields...))
	}
	b, f := part("unknown"), part("unknown")
	if keyword, start, is := strings.Cut(begin, "@"); is {
		b = part("keyword", text("keyword"), text(keyword), text("startfrom"), whole64(atoi(t, start)))
	} else if begin != "unknown" {
		b = part("index", text("index"), whole64(atoi(t, begin)))
	}
	if kind, numbers, is := strings.Cut(find, ":"); is {
		n := strings.Split(numbers, ":")
		names := []string{"lastkey", "keystep", "limit"}
		if kind == "keynum" {
			names = []string{"keynumidx", "firstkey", "keystep"}
		}
		f = part(kind, text(names[0]), whole64(atoi(t, n[0])), text(names[1]), whole64(atoi(t, n[1])), text(names[2]),
			whole64(atoi(t, n[2])))
	}
	return list(text("flags"), words("RO,"+flag, ","), text("begin_search"), b, text("find_keys"), f)
}

func atoi(t testing.TB, s string) (n int) {
	negative := strings.HasPrefix(s, "-")
	for _, c := range strings.TrimPrefix(s, "-") {
		if c < '0' || c > '9' {
			t.Fatalf("%q is no number", s)
		}
		n = n*10 + int(c-'0')
	}
	if negative {
		return -n
	}
	return n
}

// commandReply makes the COMMAND reply. If legacy is true, rows have 6 fields and no subcommands.
func commandReply(t testing.TB, legacy bool) respclient.Value {
	reply := list()
	for line := range strings.SplitSeq(strings.TrimSpace(commands), "\n") {
		name, isSub := strings.CutPrefix(line, ".")
		f := strings.Fields(name)
		row := list(text(f[0]), whole64(atoi(t, f[1])), words(f[2], ","), whole64(atoi(t, f[3])), whole64(atoi(t, f[4])),
			whole64(atoi(t, f[5])))
		if legacy {
			if !isSub {
				reply.Elems = append(reply.Elems, row)
			}
			continue
		}
		specs := list()
		for _, w := range f[7:] {
			specs.Elems = append(specs.Elems, specValue(t, w))
		}
		row.Elems = append(row.Elems, list(), words(f[6], ","), specs, list())
		if isSub {
			last := &reply.Elems[len(reply.Elems)-1].Elems[9]
			last.Elems = append(last.Elems, row)
		} else {
			reply.Elems = append(reply.Elems, row)
		}
	}
	return reply
}

func readTable(t testing.TB, legacy bool) *Table {
	table, err := Read(commandReply(t, legacy), Redis)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestClasses(t *testing.T) {
	for name, want := range map[string]string{
		"get": "forward", "SET": "forward", "mget": "split in the order of the keys", "MsEt": "split all succeeded",
		"msetnx": "forward", "msetex": "forward", "del": "split sum", "rename": "forward", "blpop": "pinned",
		"eval": "forward", "xread": "pinned", "sort": "forward", "migrate": "pinned", "object|encoding": "forward",
		"object|help": "forward", "client|list": "local", "config|get": "local", "script|load": "all all succeeded",
		"script|exists": "all 1 if the proxy's clients can run it at all shards", "dbsize": "all sum",
		"keys": "all concatenated", "randomkey": "all a random one", "scan": "local", "wait": "all minimum",
		"multi": "pinned", "watch": "pinned", "ssubscribe": "local", "spublish": "local", "monitor": "refused",
		"ping": "local", "hello": "local", "foo.any": "refused", "foo.sum": "all maximum", "foo.odd": "refused",
		"foo.key": "forward", "foo.part": "refused", "foo.move": "refused",
	} {
		table := readTable(t, false)
		top, sub, isSub := strings.Cut(name, "|")
		row := table.Find([]byte(top))
		if isSub {
			row = row.Sub([]byte(sub))
		}
		if row == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		if got := strings.TrimSpace(row.Class.String() + " " + row.Merge.String()); got != want {
			t.Errorf("%s: %s (%s), want %s", name, got, row.Reason, want)
		}
		if (row.Class == Refused) != (row.Reason != "") {
			t.Errorf("%s is %v for the reason %q", name, row.Class, row.Reason)
		}
	}
}

func TestRefusesOddReplies(t *testing.T) {
	good := commandReply(t, false).Elems[0]
	for name, change := range map[string]func(row []respclient.Value){
		"no name":        func(row []respclient.Value) { row[0] = text("") },
		"name of spaces": func(row []respclient.Value) { row[0] = text("a b") },
		"a sub alone":    func(row []respclient.Value) { row[0] = text("a|b") },
		"arity":          func(row []respclient.Value) { row[1] = text("2") },
		"first":          func(row []respclient.Value) { row[3] = whole64(1 << 40) },
	} {
		row := list(append([]respclient.Value{}, good.Elems...)...)
		change(row.Elems)
		if _, err := Read(list(row), Redis); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, v := range []respclient.Value{{}, list(), list(list(text("get"))), list(text("get")),
		{Kind: '-', Text: "ERR no"}} {
		if _, err := Read(v, Redis); err == nil {
			t.Errorf("%v: no error", v)
		}
	}
}

// TestCommonCommands: a table of several shards has only the commands that all of them have. It keeps the row numbers
// of the previous table.
func TestCommonCommands(t *testing.T) {
	whole, part := commandReply(t, false), commandReply(t, false)
	part.Elems = append(part.Elems[:1:1], part.Elems[3:]...) // without set and mget
	for i, row := range part.Elems {
		if row.Elems[0].Text == "object" {
			part.Elems[i].Elems[9].Elems = row.Elems[9].Elems[:1] // without help
		}
	}
	before, err := Read(whole, Redis)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Read(Common([]respclient.Value{whole, part}), Redis)
	if err != nil {
		t.Fatal(err)
	}
	after.Continue(before)
	for name, is := range map[string]bool{"get": true, "set": false, "mget": false, "mset": true, "object": true} {
		if row := after.Find([]byte(name)); (row != nil) != is {
			t.Errorf("%s is there: %t", name, row != nil)
		}
	}
	object := after.Find([]byte("object"))
	if object.Sub([]byte("encoding")) == nil || object.Sub([]byte("help")) != nil {
		t.Error("the subcommands are not those of both")
	}
	for i, row := range after.Rows() {
		if row.Number != i {
			t.Errorf("%s has the number %d at the place %d", row.Name, row.Number, i)
		}
		if i < len(before.Rows()) && before.Rows()[i].Name != row.Name {
			t.Errorf("the number %d was of %s, and is of %s", i, before.Rows()[i].Name, row.Name)
		}
	}
}
