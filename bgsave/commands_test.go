package bgsave

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"spindle/bgsave/rdb"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/bloom"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
)

// A testServer is a keyspace with this package's command handlers.
type testServer struct {
	*Commands
	t      testing.TB
	space  *keyspace.Keyspace
	cl     client.Client
	common command.Settings
	events []string
	told   string // the propagation of the last command: "-" none, "=" as written, else the commands
	dirty  int64
}

func newTestServer(t testing.TB) *testServer {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &testServer{t: t, space: keyspace.New(h, keyspace.Options{}), Commands: &Commands{Settings: &Settings{}}}
	b.Settings.Rows()
	b.space.SetNow(1_000_000)
	return b
}

func (b *testServer) Call(*command.Context, *command.Spec, [][]byte) (bool, error) { panic("not here") }
func (b *testServer) Run(*client.Client, [][]byte) error                           { panic("not here") }
func (b *testServer) Lend(*command.Context, command.Step) bool                     { panic("not here") }
func (b *testServer) GiveWay(*command.Context) bool                                { panic("not here") }
func (b *testServer) Tardy() bool                                                  { panic("not here") }
func (b *testServer) ReadsAnyKey(*command.Context) bool                            { return true }
func (b *testServer) CanReadBeside(*command.Context) bool                          { return false }
func (b *testServer) ReadBeside(*command.Context, func(*command.Reading) error) {
	panic("not here")
}
func (b *testServer) Show(*command.Context)                { panic("not here") }
func (b *testServer) Block(*command.Context, command.Wait) { panic("not here") }
func (*testServer) Notifies(command.EventClass) bool       { return false }

func (b *testServer) Notify(_ command.EventClass, event string, db int, key []byte) {
	b.events = append(b.events, fmt.Sprintf("%s %d %.20s", event, db, key))
}

func (b *testServer) NotifySubkeys(class command.EventClass, event string, db int, key []byte, _ [][]byte, _ int) {
	b.Notify(class, event, db, key)
}

// run returns a command's reply.
func (b *testServer) run(args ...string) string {
	b.t.Helper()
	var reply protocol.Reply
	c := &command.Context{Client: &b.cl, Reply: &reply, Space: b.space, DB: b.space.DB(b.cl.DB), Now: b.space.Now(),
		Core: b, Settings: &b.common}
	for _, a := range args {
		c.Args = append(c.Args, []byte(a))
	}
	for _, f := range b.Families() {
		for i := range f.Rows {
			if row := &f.Rows[i]; row.Name == strings.ToLower(args[0]) {
				c.Spec = row
				if err := row.Run(c); err != nil {
					reply.Reset()
					reply.Error(err)
				}
			}
		}
	}
	b.told, b.dirty = "-", c.Dirty
	switch {
	case c.Effects.Replaced:
		b.told = ""
		for _, cmd := range c.Effects.Commands {
			b.told += string(bytes.Join(cmd, []byte(" ")))
		}
	case c.Dirty > 0:
		b.told = "="
	}
	var out []byte
	reply.Pieces(func(p []byte) bool { out = append(out, p...); return true })
	return string(out)
}

// dumped returns a key's payload.
func (b *testServer) dumped(key string) string {
	reply := b.run("dump", key)
	_, payload, _ := strings.Cut(reply, "\r\n")
	return strings.TrimSuffix(payload, "\r\n")
}

func (b *testServer) get(key string) string {
	v := b.space.DB(b.cl.DB).Peek([]byte(key))
	if !v.Exists() {
		return "(nil)"
	}
	return fmt.Sprintf("%s %s @%d", v.Encoding(), v.Bytes(nil), v.Deadline())
}

func TestDumpRestore(t *testing.T) {
	b := newTestServer(t)
	if got := b.run("dump", "none"); got != "$-1\r\n" {
		t.Errorf("DUMP of nothing: %q", got)
	}
	values := []string{"", "10", "-9223372036854775808", "hello", strings.Repeat("a", 44), strings.Repeat("ab", 5000),
		strings.Repeat("x\x00\xffy", 100_000)}
	for i, v := range values {
		key := fmt.Sprintf("k%d", i)
		b.space.DB(0).SetString([]byte(key), []byte(v), 0)
		payload := b.dumped(key)
		b.cl.DB = 1
		if got := b.run("restore", key, "0", payload); got != "+OK\r\n" {
			t.Fatalf("RESTORE of %.20q: %q", v, got)
		}
		now := b.get(key)
		b.cl.DB = 0
		if was := b.get(key); now != was {
			t.Errorf("%.20q came back as %.40q, was %.40q", v, now, was)
		}
	}
	// This is redis-server's own payload, version 11.
	if got := b.run("restore", "theirs", "0", rdb11("\x00\x05hello")); got != "+OK\r\n" ||
		b.get("theirs") != "embstr hello @0" {
		t.Errorf("%q, %s", got, b.get("theirs"))
	}
}

// filter makes key a Bloom filter for capacity items, with one item added.
func (b *testServer) filter(key string, capacity uint64) {
	root, err := bloom.New(b.space.Store(), bloom.Params{Error: 0.01, Capacity: capacity, Growth: 2}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	e := b.space.DB(0).CreateRoot([]byte(key), value.Module, value.Raw, root)
	if _, err := bloom.Add(e, []byte("item"), nil); err != nil {
		b.t.Fatal(err)
	}
}

// TestDumpTooLong: a payload longer than proto-max-bulk-len is refused, for every type.
func TestDumpTooLong(t *testing.T) {
	b := newTestServer(t)
	b.common.MaxBulk = &setting.Int{}
	b.common.MaxBulk.Set(20_000)
	rng, db := rand.New(rand.NewPCG(1, 2)), b.space.DB(0)
	noise := make([]byte, 30_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	db.SetString([]byte("long"), noise, 0)
	db.SetString([]byte("short"), noise[:10_000], 0)
	db.PutPacked([]byte("list"), value.List, value.Listpack, listpack.AppendElement(listpack.AppendEmpty(nil),
		listpack.OfText(noise)), 0)
	b.filter("sparse", 1_000_000)  // 1.4 MB with almost no bit set
	b.filter("emptier", 9_000_000) // 12 MB, which is too long even in LZF
	for key, refused := range map[string]bool{"long": true, "short": false, "list": true, "sparse": false,
		"emptier": true} {
		if got := b.run("dump", key); (got == "-ERR the payload would be longer than proto-max-bulk-len\r\n") != refused {
			t.Errorf("%s: %.60q", key, got)
		}
	}
}

// TestFilterBound: a client's RESTORE cannot make a filter larger than bf-max-size. A primary's can.
func TestFilterBound(t *testing.T) {
	b := newTestServer(t)
	b.filter("k", 1_000_000)
	payload := b.dumped("k")
	if len(payload) > 20_000 {
		t.Errorf("%d bytes for a filter that is nearly empty", len(payload))
	}
	b.common.MaxFilter.Set(1 << 20)
	if got := b.run("restore", "j", "0", payload); got !=
		"-ERR the filter would be larger than bf-max-size or maxmemory\r\n" {
		t.Errorf("beyond bf-max-size: %q", got)
	}
	b.cl.Flags |= client.Primary
	if got := b.run("restore", "j", "0", payload); got != "+OK\r\n" {
		t.Errorf("from a primary: %q", got)
	}
	if r := bloom.Read(b.space.DB(0).Peek([]byte("j"))); !r.Has([]byte("item")) || r.Has([]byte("other")) {
		t.Error("the filter that came back is another one")
	}
}

// rdb11 returns body as a payload of version 11.
func rdb11(body string) string { return string(rdb.AppendFooter([]byte(body), 0, 11)) }

func TestRestoreReplies(t *testing.T) {
	b := newTestServer(t)
	hello := rdb11("\x00\x05hello")
	wrong := "-ERR DUMP payload version or checksum are wrong\r\n"
	format := "-ERR Bad data format\r\n"
	cases := []struct {
		args string // PAYLOAD stands for hello
		want string
	}{
		{"k -1 PAYLOAD", "-ERR Invalid TTL value, must be >= 0\r\n"},
		{"k x PAYLOAD", "-ERR value is not an integer or out of range\r\n"},
		{"k 0 PAYLOAD REPLACE FOO", "-ERR syntax error\r\n"},
		{"k 0 PAYLOAD IDLETIME", "-ERR syntax error\r\n"},
		{"k 0 PAYLOAD IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0\r\n"},
		{"k 0 PAYLOAD IDLETIME x", "-ERR value is not an integer or out of range\r\n"},
		{"k 0 PAYLOAD FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"},
		{"k 0 PAYLOAD FREQ 1 IDLETIME 1", "-ERR syntax error\r\n"},
		{"there 0 PAYLOAD", "-BUSYKEY Target key name already exists.\r\n"},
		{"there x garbage", "-BUSYKEY Target key name already exists.\r\n"},
		{"k 0 short", wrong},
		{"k 0 " + hello[:len(hello)-1] + "!", wrong},
		{"k 0 " + string(rdb.AppendFooter([]byte("\x00\x05hello"), 0, 16)), wrong},
		{"k 0 " + string(rdb.AppendFooter([]byte("\x00\x05hello"), 0, 81)), wrong},
		{"k 0 " + rdb11(""), format},
		{"k 0 " + rdb11("\x00\x06hello"), format},
		{"k 0 " + rdb11("\x00\x04hello"), format},
		{"k 0 " + rdb11("\x08\x05hello"), format},
		{"k 0 " + rdb11("\x00\xc3\x02\x05\xff\xff"), format},
		{"k 0 " + rdb11("\x00\x81\x10\x00\x00\x00\x00\x00\x00\x00a"), format},
		{"k 0 " + rdb11("\x07"+string(rdb.AppendLength(nil, rdb.ModuleID("ReJSON-RL", 3)))+"\x05\x01a\x00"), format},
		{"k 0 " + rdb11("\x02\x00"), format},
		{"k 0 " + rdb11("\x02\x02\x01a\x01a"), format},
		{"k 0 " + rdb11("\x02\x01\x01aa"), format},
		{"k 0 PAYLOAD replace ABSTTL idletime 5", "+OK\r\n"},
	}
	for _, c := range cases {
		b.space.DB(0).SetString([]byte("there"), []byte("x"), 0)
		b.space.DB(0).Delete([]byte("k"))
		args := append([]string{"restore"}, strings.Split(c.args, " ")...)
		for i := range args {
			if args[i] == "PAYLOAD" {
				args[i] = hello
			}
		}
		if got := b.run(args...); got != c.want {
			t.Errorf("RESTORE %q: %q, want %q", c.args, got, c.want)
		}
		if c.want[0] == '-' && b.get("k") != "(nil)" {
			t.Errorf("RESTORE %q left %s", c.args, b.get("k"))
		}
	}
	b.AnyChecksum = true
	if got := b.run("restore", "k", "0", hello[:len(hello)-1]+"!", "REPLACE"); got != "+OK\r\n" {
		t.Errorf("any checksum: %q", got)
	}
}

// TestRestoreEffects checks deadlines, propagated commands, and events.
func TestRestoreEffects(t *testing.T) {
	b := newTestServer(t)
	b.common.Rows()
	p := string(rdb.AppendFooter([]byte("\x00\x01v"), 0, 10))
	steps := []struct{ args, key, told, event string }{
		{"k 0 PAYLOAD", "embstr v @0", "=", "new 0 k,restore 0 k"},
		{"k 500 PAYLOAD REPLACE IDLETIME 7", "embstr v @1000500", "restore k 1000500 PAYLOAD REPLACE IDLETIME 7 ABSTTL",
			"new 0 k,restore 0 k"},
		{"k 2000000 PAYLOAD REPLACE ABSTTL", "embstr v @2000000", "=", "new 0 k,restore 0 k"},
		{"k 999999 PAYLOAD REPLACE ABSTTL", "(nil)", "DEL k", "del 0 k"},
		{"k 999999 PAYLOAD ABSTTL", "(nil)", "-", ""},
		{"k 0 PAYLOAD", "embstr v @0", "=", "new 0 k,restore 0 k"},
		{"k 999999 PAYLOAD REPLACE ABSTTL", "(nil)", "UNLINK k", "del 0 k"}, // lazyfree-lazy-server-del
		{"k 9223372036854775807 PAYLOAD", "embstr v @9223372036854775807",
			"restore k 9223372036854775807 PAYLOAD ABSTTL", "new 0 k,restore 0 k"},
	}
	for i, s := range steps {
		b.common.LazyfreeServer.Set(i > 4)
		b.events = nil
		got := b.run(append([]string{"restore"}, strings.Split(strings.ReplaceAll(s.args, "PAYLOAD", p), " ")...)...)
		told := strings.ReplaceAll(b.told, p, "PAYLOAD")
		if got != "+OK\r\n" || b.get("k") != s.key || told != s.told || strings.Join(b.events, ",") != s.event {
			t.Errorf("RESTORE %s: %q, %s, told %q, events %q; want %+v", s.args, got, b.get("k"), told, b.events, s)
		}
	}
}

// TestRestoreAsItCame: a hash whose fields have deadlines has no older form. So its payload is propagated as it came,
// or with a lower version in the footer.
func TestRestoreAsItCame(t *testing.T) {
	b := newTestServer(t)
	b.common.Rows()
	const body = "\x19\x00\x00\x10\x00\x00\x00\x00\x00\x18\x18\x00\x00\x00\x03\x00\x83key\x04\x85value\x06" +
		"\xf2\x00\x00\x10\x04\xff"
	got := b.run("restore", "k", "0", string(rdb.AppendFooter([]byte(body), 0, 12)))
	if got != "+OK\r\n" || b.told != "=" {
		t.Errorf("version 12: %q, told %q", got, b.told)
	}
	got = b.run("restore", "k", "0", string(rdb.AppendFooter([]byte(body), 0, 13)), "REPLACE")
	want := "restore k 0 " + string(rdb.AppendFooter([]byte(body), 0, 12)) + " REPLACE"
	if got != "+OK\r\n" || b.told != want {
		t.Errorf("version 13: %q, told %q, want %q", got, b.told, want)
	}
}

// TestRestoreNewer: replicas and the log always get a payload that older servers can read.
func TestRestoreNewer(t *testing.T) {
	b := newTestServer(t)
	b.common.Rows()
	const stream3 = "\x00\x00\x05\x01\x00\x00\x00\x00\x05\x00"
	hash2 := "\x16\x02\x01a\x01x\x00\xd8\xc3\x2c\xbb\x03\x00\x00\x01b\x01y\xff\xff\xff\xff\xff\xff\xff\xff"
	for _, c := range []struct {
		body    string
		version int
		kind    rdb.Kind
		told    int // the version of the propagated payload
	}{
		{"\x00\x01v", 15, rdb.KindString, 9},
		{"\x00\x01v", 80, rdb.KindString, 9},
		{"\x00\x01v", 12, rdb.KindString, 9},
		{"\x00\x01v", 10, rdb.KindString, 10}, // as it came: Redis 7.0 reads it
		{"\x14\x0a\x0a\x00\x00\x00\x01\x00\x81m\x02\xff", 80, rdb.KindSet, 9},
		{"\x14\x0a\x0a\x00\x00\x00\x01\x00\x81m\x02\xff", 10, rdb.KindSet, 9}, // Redis 7.0 has no such kind
		{"\x15" + stream3, 11, rdb.KindStream2, 10}, {"\x15" + stream3, 80, rdb.KindStream2, 10},
		{hash2, 80, rdb.KindHashTTLListpack, 12},
		{"\x19\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x0f\x00\x00\x00\x03\x00\x81f\x02\x81v\x02\x00\x01\xff", 12,
			rdb.KindHash, 9}, // no field has a deadline
		{"\x1f\x01\x01\x01a\x01x", 15, rdb.KindHashListpack, 10},
	} {
		for _, ttl := range []string{"0", "5000"} {
			p := string(rdb.AppendFooter([]byte(c.body), 0, c.version))
			if got := b.run("restore", "k", ttl, p, "REPLACE"); got != "+OK\r\n" {
				t.Fatalf("%q: %s", c.body, got)
			}
			told := []byte(p)
			if b.told != "=" {
				head, tail := "restore k 0 ", " REPLACE"
				if ttl != "0" {
					head, tail = "restore k 1005000 ", " REPLACE ABSTTL"
				}
				rest, ok := strings.CutPrefix(b.told, head)
				rest, ok2 := strings.CutSuffix(rest, tail)
				if told = []byte(rest); !ok || !ok2 {
					t.Fatalf("told %q", b.told)
				}
			}
			kind, _, err := rdb.Payload(told, rdb.Check{})
			if err != nil || kind != c.kind || rdb.PayloadVersion(told) != c.told {
				t.Errorf("%q of version %d is told as %s of version %d: %v", c.body, c.version, kind, rdb.PayloadVersion(told), err)
			}
			was := b.dumped("k")
			b.run("restore", "again", ttl, string(told), "REPLACE")
			if got := b.dumped("again"); got != was && c.kind != rdb.KindHash { // the hash gets another encoding
				t.Errorf("%q is %q, and %q where it was told", c.body, was, got)
			}
		}
	}
}

func TestRestoreClock(t *testing.T) {
	b := newTestServer(t)
	p := rdb11("\x00\x01v")
	b.run("restore", "k", "0", p, "IDLETIME", "100")
	if idle := b.space.IdleMs(b.space.DB(0).Peek([]byte("k"))); idle != 100_000 {
		t.Errorf("idle %d ms", idle)
	}
	b.space.Policy = keyspace.AllKeysLFU
	b.run("restore", "k", "0", p, "FREQ", "100", "REPLACE")
	if f := b.space.Frequency(b.space.DB(0).Peek([]byte("k"))); f != 100 {
		t.Errorf("freq %d", f)
	}
	b.space.Replica = true // an expired key is kept, but hidden
	for _, policy := range []keyspace.Policy{keyspace.AllKeysLFU, keyspace.AllKeysLRU} {
		b.space.Policy = policy
		for _, word := range []string{"IDLETIME", "FREQ"} {
			if got := b.run("restore", "past", "1", p, "ABSTTL", "REPLACE", word, "10"); got != "+OK\r\n" ||
				!b.space.DB(0).Stored([]byte("past")).Exists() {
				t.Errorf("%s of a key past its deadline: %q", word, got)
			}
		}
		past := rdb.Record{Key: []byte("loaded"), Value: rdb.Text{Bytes: []byte("x")}, DeadlineMs: 1, Idle: 1, Freq: 1}
		if _, err := (&Into{Space: b.space, Replace: true}).Insert([]rdb.Record{past}); err != nil {
			t.Error(err)
		}
	}
}

func TestSaveCommands(t *testing.T) {
	b, d := newTestServer(t), newTestScheduler(t)
	b.Scheduler = d.Scheduler
	if got := b.run("lastsave"); got != ":1700000000\r\n" {
		t.Errorf("LASTSAVE %q", got)
	}
	if got := b.run("save"); got != "+OK\r\n" {
		t.Errorf("SAVE %q", got)
	}
	for _, args := range [][]string{{"bgsave", "foo"}, {"bgsave", "schedule", "x"}} {
		if got := b.run(args...); got != "-ERR syntax error\r\n" {
			t.Errorf("%q: %q", args, got)
		}
	}
	d.settings.SaveDelay.Set(1000)
	d.in(func() {
		if got := b.run("bgsave"); got != "+Background saving started\r\n" {
			t.Errorf("BGSAVE %q", got)
		}
		for _, args := range [][]string{{"bgsave"}, {"bgsave", "schedule"}, {"save"}} {
			if got := b.run(args...); got != "-ERR Background save already in progress\r\n" {
				t.Errorf("%q beside a save: %q", args, got)
			}
		}
	})
	d.wait(t)
	b.cl.Flags |= client.Multi
	if got := b.run("bgsave"); got != "+Background saving scheduled\r\n" {
		t.Errorf("BGSAVE inside MULTI %q", got)
	}
	d.settings.FileName.Set("/nonexistent/x")
	if got := b.run("save"); got != "-ERR\r\n" {
		t.Errorf("SAVE that fails: %q", got)
	}
}

// TestKeyspace: a real view is saved while the core continues, and loaded into another keyspace.
func TestKeyspace(t *testing.T) {
	b := newTestServer(t)
	db := b.space.DB(0)
	const keys = 50_000
	for i := range keys {
		db.SetString(fmt.Appendf(nil, "key:%d", i), fmt.Appendf(nil, "value of %d", i), int64(i%3)*4_000_000_000_000)
	}
	b.space.DB(7).SetString([]byte("long"), bytes.Repeat([]byte("0123456789"), 200_000), 0)
	v := b.space.Freeze()
	var file bytes.Buffer
	done := make(chan error)
	go func() {
		_, err := WriteTo(t.Context(), &file, v, Options{Checksum: true, Compress: true, Savers: 2})
		v.Close()
		done <- err
	}()
	for i := range keys { // none of these changes is in the file
		key := fmt.Appendf(nil, "key:%d", i)
		switch i % 3 {
		case 0:
			db.Delete(key)
		case 1:
			db.SetString(key, []byte("too late"), 0)
		default:
			db.SetString(fmt.Appendf(nil, "new:%d", i), []byte("too late"), 0)
		}
	}
	b.space.DB(7).Append([]byte("long"), []byte("too late"))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	to := newTestServer(t).space
	turns := 0
	l, err := Read(t.Context(), &file, &Into{Space: to, Turn: func(f func()) { turns++; f() }}, LoadOptions{NowMs: 1})
	if err != nil || l.Keys != keys+1 || to.DB(0).Len() != keys || turns < keys/turnRecords {
		t.Fatalf("%+v, %v; %d keys, %d turns", l, err, to.DB(0).Len(), turns)
	}
	for i := range keys {
		v := to.DB(0).Peek(fmt.Appendf(nil, "key:%d", i))
		if !v.Exists() || string(v.Bytes(nil)) != fmt.Sprintf("value of %d", i) ||
			v.Deadline() != int64(i%3)*4_000_000_000_000 {
			t.Fatalf("key %d is %q @%d", i, v.Bytes(nil), v.Deadline())
		}
	}
	if v := to.DB(7).Peek([]byte("long")); v.Len() != 2_000_000 {
		t.Errorf("the long value has %d bytes", v.Len())
	}
	again := rdb.Record{Key: []byte("key:2"), Value: rdb.Text{Bytes: []byte("x")}, DeadlineMs: rdb.None,
		Idle: rdb.None, Freq: rdb.None}
	into := &Into{Space: to}
	_, err = into.Insert([]rdb.Record{again})
	if late := into.Finish(); err != nil || !errors.Is(late, ErrDuplicate) ||
		!strings.Contains(late.Error(), `key "key:2" of database 0`) {
		t.Errorf("a key twice: %v, %v", err, late)
	}
	if _, err := (&Into{Space: to, Replace: true}).Insert([]rdb.Record{again}); err != nil {
		t.Errorf("a key twice, to be replaced: %v", err)
	}
}

// TestSanitize: every damaged payload is refused, and the log has the reason. sanitize-dump-payload only decides which
// payloads INFO counts.
func TestSanitize(t *testing.T) {
	b := newTestServer(t)
	var log bytes.Buffer
	b.Log = logging.New(&log)
	b.Log.SetLevel(logging.LevelVerbose)
	packed := rdb11("\x14\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff")
	twice := rdb11("\x14\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81a\x02\xff")
	pieces := rdb11("\x12\x02\x02\x0a\x0a\x00\x00\x00\x01\x00\x81c\x02\xff\x02\x0a\x0a\x00\x00\x00\x01\x00\x81c\x02\xff")
	for mode, counted := range map[Sanitize]int64{SanitizeNo: 0, SanitizeYes: 2, SanitizeClients: 2} {
		b.Settings.Sanitize.Set(mode)
		b.ResetStats()
		log.Reset()
		for payload, want := range map[string]string{
			packed: "+OK\r\n", pieces: "+OK\r\n", twice: "-ERR Bad data format\r\n", rdb11("\x02\x01\x01a"): "+OK\r\n",
			rdb11("\x00\x01a"): "+OK\r\n",
		} {
			if got := b.run("restore", "k", "0", payload, "REPLACE"); got != want {
				t.Errorf("sanitize %d: %q is %q, want %q", mode, payload, got, want)
			}
		}
		if b.sanitizations != counted {
			t.Errorf("sanitize %d: %d looked at, want %d", mode, b.sanitizations, counted)
		}
		if !strings.Contains(log.String(), "Set listpack integrity check failed: Set listpack with dup elements") {
			t.Errorf("sanitize %d: the log is %q", mode, log.String())
		}
	}
}
