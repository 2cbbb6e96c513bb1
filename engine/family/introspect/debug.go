package introspect

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/glob"
	"spindle/internal/number"
	"spindle/protocol"
)

// A debugCommand is a DEBUG subcommand. least and most bound the number of arguments after its name.
type debugCommand struct {
	least, most int // most -1: no limit
	run         func(f *family, c *command.Context, args [][]byte) error
}

// debugCommands are the subcommands in upper case. They have no rows, because COMMAND does not list them either.
// MALLCTL and MALLCTL-STR are absent, because they exist only in a build with jemalloc.
var debugCommands = map[string]debugCommand{
	"AOF-FLUSH-SLEEP":              {1, 1, flushSleep},
	"ASSERT":                       {0, -1, crash("assert")},
	"CHANGE-REPL-ID":               {0, 0, changeReplID},
	"CLIENT-EVICTION":              {0, 0, clientEviction},
	"CLUSTERLINK":                  {3, 3, clusterLink},
	"CONFIG-REWRITE-FORCE-ALL":     {0, 0, rewriteConfig},
	"CRASH-AND-RECOVER":            {0, -1, restart(false)},
	"DICT-RESIZING":                {1, 1, ok}, // tables split and merge segment by segment; there is nothing to control
	"DIGEST":                       {0, 0, wholeDigest},
	"DIGEST-VALUE":                 {0, -1, valueDigests},
	"DROP-CLUSTER-PACKET-FILTER":   {1, 1, dropPackets},
	"ERROR":                        {1, 1, sayError},
	"HELP":                         {0, -1, debugHelp},
	"HTSTATS":                      {1, 2, tableStats},
	"HTSTATS-KEY":                  {1, 2, tableStatsOfKey},
	"LEAK":                         {1, 1, leak},
	"LISTPACK":                     {1, 1, listpack},
	"LOADAOF":                      {0, -1, loadAOF},
	"LOG":                          {1, 1, writeLog},
	"OBJECT":                       {1, 1, object},
	"OOM":                          {0, -1, crash("oom")},
	"PANIC":                        {0, -1, crash("panic")},
	"PAUSE-CRON":                   {1, 1, pauseCron},
	"POPULATE":                     {1, 3, populate},
	"PROTOCOL":                     {1, 1, protocolSample},
	"QUICKLIST":                    {1, 2, quicklist},
	"QUICKLIST-PACKED-THRESHOLD":   {1, 1, packedThreshold},
	"RELOAD":                       {0, -1, reload},
	"REPLICATE":                    {1, -1, replicate},
	"REPLYBUFFER":                  {2, 2, replyBuffer},
	"RESTART":                      {0, -1, restart(true)},
	"SDSLEN":                       {1, 1, textLengths},
	"SEGFAULT":                     {0, -1, crash("segfault")},
	"SET-ACTIVE-EXPIRE":            {1, 1, setActiveExpire},
	"SET-DISABLE-DENY-SCRIPTS":     {1, 1, allowInScripts},
	"SET-SKIP-CHECKSUM-VALIDATION": {1, 1, skipChecksums},
	"SLEEP":                        {1, 1, sleep},
	"STRINGMATCH-TEST":             {0, 0, globTest},
	"STRUCTSIZE":                   {0, 0, structSizes},
}

func (f *family) debug(c *command.Context) error {
	word := strings.ToUpper(string(c.Args[1]))
	args := c.Args[2:]
	d, known := debugCommands[word]
	if !known || len(args) < d.least || d.most >= 0 && len(args) > d.most {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	return d.run(f, c, args)
}

// ok replies to a subcommand whose setting has no effect in this server.
func ok(_ *family, c *command.Context, _ [][]byte) error {
	c.Reply.OK()
	return nil
}

// allowInScripts lets scripts run commands that are refused in scripts.
func allowInScripts(f *family, c *command.Context, args [][]byte) error {
	f.AllowAnyInScripts(isOn(args[0]))
	c.Reply.OK()
	return nil
}

// isOn reads a 0 or 1 as C's atoi does.
func isOn(arg []byte) bool {
	n, _ := number.ParseInt(arg)
	return n != 0
}

func setActiveExpire(f *family, c *command.Context, args [][]byte) error {
	if f.SetActiveExpire == nil {
		return errNotHere
	}
	f.SetActiveExpire(isOn(args[0]))
	c.Reply.OK()
	return nil
}

func pauseCron(f *family, c *command.Context, args [][]byte) error {
	if f.PauseCron == nil {
		return errNotHere
	}
	f.PauseCron(isOn(args[0]))
	c.Reply.OK()
	return nil
}

func skipChecksums(f *family, c *command.Context, args [][]byte) error {
	if f.SkipChecksums == nil {
		return errNotHere
	}
	f.SkipChecksums(isOn(args[0]))
	c.Reply.OK()
	return nil
}

func changeReplID(f *family, c *command.Context, _ [][]byte) error {
	if f.ChangeReplID == nil {
		return errNotHere
	}
	f.ChangeReplID()
	c.Reply.OK()
	return nil
}

func rewriteConfig(f *family, c *command.Context, _ [][]byte) error {
	if f.RewriteConfig == nil {
		return errNotHere
	}
	if err := f.RewriteConfig(); err != nil {
		return errRewrite(err)
	}
	c.Reply.OK()
	return nil
}

// replicate is DEBUG REPLICATE command [argument …]. It propagates the command without running or checking it. The
// command also goes to the append-only file, so it must be one that a file may hold.
func replicate(_ *family, c *command.Context, args [][]byte) error {
	c.Propagate(args...)
	c.Reply.OK()
	return nil
}

func writeLog(f *family, c *command.Context, args [][]byte) error {
	if f.Log != nil {
		f.Log(string(args[0])) // the function logs that the text comes from a client
	}
	c.Reply.OK()
	return nil
}

// leak keeps a copy of its argument for ever.
func leak(_ *family, c *command.Context, args [][]byte) error {
	leaked = append(leaked, bytes.Clone(args[0]))
	c.Reply.OK()
	return nil
}

var leaked [][]byte

func crash(how string) func(*family, *command.Context, [][]byte) error {
	return func(f *family, _ *command.Context, _ [][]byte) error {
		if f.Crash != nil {
			f.Crash(how)
		}
		panic("DEBUG asked for a crash: " + how)
	}
}

func restart(gracefully bool) func(*family, *command.Context, [][]byte) error {
	return func(f *family, c *command.Context, args [][]byte) error {
		delay := int64(0)
		if len(args) > 0 {
			n, isNumber := number.ParseInt(args[0])
			if !isNumber {
				return protocol.ErrNotInteger
			}
			delay = max(n, 0)
		}
		if f.Restart == nil {
			return errNotHere
		}
		f.Restart(gracefully, delay)
		return errRestart
	}
}

// reload is DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]: it saves, empties the databases and loads the saved file.
func reload(f *family, c *command.Context, args [][]byte) error {
	var o ReloadOptions
	for _, a := range args {
		switch {
		case command.Is(a, "MERGE"):
			o.Merge = true
		case command.Is(a, "NOFLUSH"):
			o.NoFlush = true
		case command.Is(a, "NOSAVE"):
			o.NoSave = true
		default:
			return errReload
		}
	}
	if f.Reload == nil {
		return errNotHere
	}
	if err := f.Reload(c, o); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func flushSleep(f *family, c *command.Context, args [][]byte) error {
	us, err := command.Int(args[0])
	if err != nil {
		return err
	}
	if f.FlushSleep != nil {
		f.FlushSleep(time.Duration(us) * time.Microsecond)
	}
	c.Reply.OK()
	return nil
}

func loadAOF(f *family, c *command.Context, _ [][]byte) error {
	if f.LoadAOF == nil {
		return errLoadAOF
	}
	return f.LoadAOF(c)
}

// sleep is DEBUG SLEEP seconds. It holds the turn on purpose.
func sleep(f *family, c *command.Context, args [][]byte) error {
	seconds, err := strconv.ParseFloat(string(args[0]), 64)
	if err != nil || math.IsNaN(seconds) {
		seconds = 0
	}
	pause := func() { time.Sleep(time.Duration(min(max(seconds, 0), 1e9) * 1e9)) }
	if f.Still != nil {
		f.Still(pause)
	} else {
		pause()
	}
	c.Reply.OK()
	return nil
}

// sayError is DEBUG ERROR text. Replies: text as an error, with its code. Tests of clients use it; error statistics do
// not count it.
func sayError(_ *family, c *command.Context, args [][]byte) error {
	r := c.Reply
	r.Raw([]byte{'-'})
	mark := len(r.B)
	r.Raw(args[0])
	for i, b := range r.B[mark:] {
		if b == '\r' || b == '\n' {
			r.B[mark+i] = ' '
		}
	}
	r.Raw([]byte("\r\n"))
	return nil
}

func wholeDigest(_ *family, c *command.Context, _ [][]byte) error {
	parts, n := partsOf(c.Space, int(c.Settings.LongRead.Get()))
	if c.IsLong(n) {
		return c.ReadBeside(func(r *command.Reading) error {
			r.Reply.Simple(digestOf(r, parts).String())
			return nil
		})
	}
	c.Reply.Simple(digestOf(c.Inline(), parts).String())
	return nil
}

func valueDigests(_ *family, c *command.Context, args [][]byte) error {
	list, n := make([]value.Value, len(args)), 0
	for i, key := range args {
		if list[i] = c.DB.Peek(key); list[i].Exists() {
			n += c.Space.Store().Weight(list[i])
		}
	}
	answer := func(r *command.Reading) error {
		r.Reply.Array(len(list))
		var scratch []byte
		for _, v := range list {
			var d digest
			if r.Step(); v.Exists() {
				scratch = d.addValue(r, v, scratch)
			}
			r.Reply.Simple(d.String())
		}
		return nil
	}
	if c.IsLong(n) {
		return c.ReadBeside(answer)
	}
	return answer(c.Inline())
}

// replyBuffer only checks its arguments. The loops own the reply buffers, and shrink idle ones.
func replyBuffer(_ *family, c *command.Context, args [][]byte) error {
	switch {
	case command.Is(args[0], "RESIZING"):
	case !command.Is(args[0], "PEAK-RESET-TIME"):
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case command.Is(args[1], "NEVER"), command.Is(args[1], "RESET"):
	default:
		if _, isNumber := number.ParseInt(args[1]); !isNumber {
			return protocol.ErrNotInteger
		}
	}
	c.Reply.OK()
	return nil
}

func dropPackets(f *family, c *command.Context, args [][]byte) error {
	kind, isNumber := number.ParseInt(args[0])
	if !isNumber {
		return protocol.ErrNotInteger
	}
	if f.DropPackets != nil {
		f.DropPackets(int(kind))
	}
	c.Reply.OK()
	return nil
}

// clusterLink is DEBUG CLUSTERLINK KILL to|from|all id. It closes the bus connections with a node.
func clusterLink(f *family, c *command.Context, args [][]byte) error {
	switch {
	case !command.Is(args[0], "kill"):
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	case f.KillLinks == nil:
		return errNoCluster
	}
	return f.KillLinks(c, args[1], args[2])
}

// clientEviction is DEBUG CLIENT-EVICTION. Replies: the classes of clients with similar cost, from the costliest.
func clientEviction(f *family, c *command.Context, _ [][]byte) error {
	if f.ClientCosts == nil || f.ClientCosts() == nil {
		return errNoEviction
	}
	text := []byte("below (bytes)        together (bytes)     clients\n")
	for class := range f.ClientCosts() {
		text = fmt.Appendf(text, "%-20d %-20d %d\n", class.Below, class.Bytes, class.Clients)
	}
	c.Reply.Verbatim("txt", string(text))
	return nil
}

func structSizes(_ *family, c *command.Context, _ [][]byte) error {
	c.Reply.Simple("bits:64 slot:8 bucket:64 entry:8 deadline:8")
	return nil
}

// populate is DEBUG POPULATE count [prefix] [size]. It creates prefix:0, prefix:1, … and does not change existing keys.
// It propagates nothing.
func populate(_ *family, c *command.Context, args [][]byte) error {
	count, isNumber := number.ParseInt(args[0])
	if !isNumber || count < 0 {
		return errPositive
	}
	prefix, size := []byte("key"), int64(0)
	if len(args) > 1 {
		prefix = args[1]
	}
	if len(args) > 2 {
		if size, isNumber = number.ParseInt(args[2]); !isNumber || size < 0 {
			return errPositive
		}
	}
	c.DB.Reserve(int(min(count, 1<<40)))
	key, val := append(bytes.Clone(prefix), ':'), []byte("value:")
	stem := len(key)
	for j := range count {
		key = number.AppendInt(key[:stem], j)
		if c.DB.Peek(key).Exists() {
			continue
		}
		val = number.AppendInt(val[:6], j)
		text := val
		if size > 0 {
			for int64(len(text)) < size {
				text = append(text, make([]byte, size-int64(len(text)))...)
			}
			text = text[:size]
		}
		c.DB.SetString(key, text, 0)
		c.Notify(command.EventNew, "new", key)
	}
	c.Reply.OK()
	return nil
}

// protocolSample is DEBUG PROTOCOL type: a reply of each type, for tests of clients.
func protocolSample(_ *family, c *command.Context, args [][]byte) error {
	r := c.Reply
	three := func() {
		for i := range int64(3) {
			r.Int(i)
		}
	}
	switch name := strings.ToLower(string(args[0])); name {
	case "string":
		r.BulkString("Hello World")
	case "integer":
		r.Int(12345)
	case "double":
		r.DoubleText([]byte("3.141"))
	case "null":
		r.Null()
	case "array":
		r.Array(3)
		three()
	case "set":
		r.Set(3)
		three()
	case "map":
		r.Map(3)
		for i := range int64(3) {
			r.Int(i)
			r.Bool(i == 1)
		}
	case "attrib":
		if r.RESP3 {
			r.Attribute(1)
			r.BulkString("key-popularity")
			r.Array(2)
			r.BulkString("key:123")
			r.Int(90)
		}
		r.BulkString("Some real reply following the attribute")
	case "push":
		if !r.RESP3 {
			return errNeedsRESP3
		}
		r.BulkString("Some real reply following the push reply") // a command's own push follows its reply
		r.Push(2)
		r.BulkString("server-cpu-usage")
		r.Int(42)
	case "true", "false":
		r.Bool(name == "true")
	case "verbatim":
		r.Verbatim("txt", "This is a verbatim\nstring")
	case "bignum":
		r.BigNumber("1234567999999999999999999999999999999")
	default:
		return errProtocolType
	}
	return nil
}

func tableStats(_ *family, c *command.Context, args [][]byte) error {
	i, isNumber := number.ParseInt(args[0])
	switch {
	case !isNumber:
		return protocol.ErrNotInteger
	case i < 0 || i >= int64(c.Space.Len()):
		return errDatabase
	}
	db := c.Space.DB(int(i))
	c.Reply.Verbatim("txt", "[Dictionary HT]\nHash table 0 stats (main hash table):\n number of elements: "+
		strconv.Itoa(db.Len())+
		"\n[Expires HT]\n number of elements: "+strconv.Itoa(db.Volatile())+"\n")
	return nil
}

func tableStatsOfKey(_ *family, c *command.Context, args [][]byte) error {
	v := c.DB.Peek(args[0])
	switch {
	case !v.Exists():
		return protocol.ErrNoSuchKey
	case v.Encoding() != value.HashTable && v.Encoding() != value.SkipList:
		return errNotTable
	}
	c.Reply.Verbatim("txt", "Hash table 0 stats (main hash table):\n number of elements: "+
		strconv.Itoa(c.Space.Store().Count(v))+"\n")
	return nil
}

// globTest matches a pattern on which naive matchers take for ever.
func globTest(_ *family, c *command.Context, _ [][]byte) error {
	pattern, text := bytes.Repeat([]byte("a*"), 40), bytes.Repeat([]byte("a"), 400)
	began := time.Now()
	glob.Match(append(pattern, 'b'), text)
	if took := time.Since(began); took > time.Second {
		return errSlowMatch(took)
	}
	c.Reply.Simple("Apparently Redis did not crash: test passed")
	return nil
}

func debugHelp(_ *family, c *command.Context, _ [][]byte) error {
	command.Help(c,
		"ASSERT",
		"    Crash by a broken assertion.",
		"CHANGE-REPL-ID",
		"    Take another replication id, so that no replica can continue from where it was.",
		"CONFIG-REWRITE-FORCE-ALL",
		"    CONFIG REWRITE with every directive, defaults included.",
		"CRASH-AND-RECOVER [<milliseconds>]",
		"    End at once and start again after the delay.",
		"DIGEST",
		"    A signature of all databases.",
		"DIGEST-VALUE <key> [<key> ...]",
		"    Signatures of these keys' values.",
		"ERROR <string>",
		"    Answer with this error.",
		"HTSTATS <dbid> [full]",
		"    Figures of a database's table.",
		"HTSTATS-KEY <key> [full]",
		"    Figures of the table of a key's value.",
		"LEAK <string>",
		"    Keep a copy of the string for ever.",
		"LISTPACK <key>",
		"    Whether the key's value is a listpack.",
		"LOADAOF",
		"    Write out the append-only file and load it.",
		"LOG <message>",
		"    Write the message to the log.",
		"OBJECT <key>",
		"    Encoding, length and age of a key's value.",
		"OOM",
		"    Crash as if memory had run out.",
		"PANIC",
		"    Crash by a panic.",
		"PAUSE-CRON <0|1>",
		"    Hold the periodic duties.",
		"POPULATE <count> [<prefix>] [<size>]",
		"    Create string keys <prefix>:<n>. Replicas are not told.",
		"PROTOCOL <type>",
		"    Answer with a value of this type: string, integer, double, bignum, null, array, set, map,",
		"    attrib, push, verbatim, true, false.",
		"QUICKLIST <key> [<0|1>]",
		"    Whether the key's value is a quicklist.",
		"RELOAD [MERGE] [NOFLUSH] [NOSAVE]",
		"    Save, empty the databases, load. NOSAVE loads the file that is there, NOFLUSH keeps the keys,",
		"    MERGE lets the file's keys win.",
		"REPLICATE <command ...>",
		"    Send a command to the replicas without running it.",
		"RESTART [<milliseconds>]",
		"    Save, end and start again after the delay.",
		"SDSLEN <key>",
		"    Lengths of a key and its string.",
		"SEGFAULT",
		"    Crash by an access to no memory.",
		"SET-ACTIVE-EXPIRE <0|1>",
		"    Whether keys past their deadline are removed when no client asks for them.",
		"SET-SKIP-CHECKSUM-VALIDATION <0|1>",
		"    Whether the checksums of RDB files and RESTORE payloads are believed unseen.",
		"SLEEP <seconds>",
		"    Hold everything for a while; decimals allowed.",
		"STRINGMATCH-TEST",
		"    Try the pattern matcher on a hard case.",
		"STRUCTSIZE",
		"    Sizes of structures.",
	)
	return nil
}
