package conn

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// A kind is a client type in CLIENT LIST TYPE and CLIENT KILL TYPE.
type kind uint8

const (
	normal kind = iota
	replica
	primary
	pubSub
)

// parseKind reads the name of a client type. Old names also work.
func parseKind(name []byte) (kind, error) {
	switch {
	case command.Is(name, "NORMAL"):
		return normal, nil
	case command.Is(name, "SLAVE"), command.Is(name, "REPLICA"):
		return replica, nil
	case command.Is(name, "MASTER"):
		return primary, nil
	case command.Is(name, "PUBSUB"):
		return pubSub, nil
	}
	return 0, errClientType(name)
}

func kindOf(cl *client.Client) kind {
	switch {
	case cl.Is(client.Primary):
		return primary
	case cl.Is(client.Replica) && !cl.Is(client.Monitor):
		return replica
	case cl.Is(client.PubSub):
		return pubSub
	}
	return normal
}

// list is CLIENT LIST [option value …]. The options are those of CLIENT KILL.
func (f *family) list(c *command.Context) error {
	args := c.Args[2:]
	var lines []byte
	switch {
	case len(args) == 0:
		for cl := range f.Clients.All {
			lines = f.line(lines, c, cl)
		}
	case len(args) == 2 && command.Is(args[0], "TYPE"):
		k, err := parseKind(args[1])
		if err != nil {
			return err
		}
		for cl := range f.Clients.All {
			if kindOf(cl) == k {
				lines = f.line(lines, c, cl)
			}
		}
	case len(args) > 1 && command.Is(args[0], "ID") && !slices.ContainsFunc(args[1:], isOption):
		for _, a := range args[1:] {
			id, ok := number.ParseInt(a)
			if !ok {
				return errClientID
			}
			if cl := f.Clients.Get(id); cl != nil {
				lines = f.line(lines, c, cl)
			}
		}
	default:
		want, err := f.parseFilter(c, args, false)
		if err != nil {
			return err
		}
		for cl := range f.Clients.All {
			if want.meets(c, cl) {
				lines = f.line(lines, c, cl)
			}
		}
	}
	c.Reply.Verbatim("txt", unsafe.String(unsafe.SliceData(lines), len(lines)))
	return nil
}

func (f *family) info(c *command.Context) error {
	line := f.line(nil, c, c.Client)
	c.Reply.Verbatim("txt", string(line))
	return nil
}

// line appends the line of cl. The caller's own line includes the memory of this CLIENT LIST command.
func (f *family) line(b []byte, c *command.Context, cl *client.Client) []byte {
	var counts [3]int
	if f.Subscriptions != nil {
		counts[0], counts[1], counts[2] = f.Subscriptions(cl)
	}
	if cl != c.Client {
		return appendLine(b, cl, c.Now, counts, 0, 0)
	}
	argv := 0
	for _, a := range c.Args {
		argv += len(a)
	}
	return appendLine(b, cl, c.Now, counts, cl.Reading, argv)
}

// isOption reports whether an argument after ID begins the next option.
func isOption(arg []byte) bool {
	word := strings.TrimPrefix(strings.ToUpper(string(arg)), "NOT-")
	return slices.Contains([]string{"ADDR", "CAPA", "DB", "FLAGS", "ID", "IDLE", "IP", "LADDR", "LIB-NAME", "LIB-VER",
		"MAXAGE", "NAME", "SKIPME", "TYPE", "USER"}, word)
}

// idleSeconds returns the number of seconds since cl last sent anything.
func idleSeconds(cl *client.Client, nowMs int64) int64 {
	active := cl.LastMs
	if cl.Conn != nil {
		active = max(active, cl.Conn.LastActive())
	}
	return max(0, nowMs-active) / 1000
}

// AppendLine appends the line of CLIENT LIST for one client: "id=3 addr=127.0.0.1:56920 …\n". subscriptions may be nil.
// Turn only.
func AppendLine(b []byte, cl *client.Client, nowMs int64,
	subscriptions func(*client.Client) (channels, patterns, shards int)) []byte {
	var counts [3]int
	if subscriptions != nil {
		counts[0], counts[1], counts[2] = subscriptions(cl)
	}
	return appendLine(b, cl, nowMs, counts, 0, 0)
}

// appendLine appends the fields in Redis's order. reading is the size of the current batch in bytes, argv that of the
// current command's arguments.
func appendLine(b []byte, cl *client.Client, nowMs int64, subscriptions [3]int, reading, argv int) []byte {
	var usage protocol.Usage
	fd, addr, local := -1, cl.Addr(), ""
	if cl.Conn != nil {
		usage, fd, local = cl.Conn.Usage(), cl.Conn.FD(), cl.Conn.LocalAddr()
	}
	usage.Query += reading
	multi, queued := -1, 0
	if cl.Is(client.Multi) {
		multi = 0
	}
	if cl.Queue != nil {
		multi, queued = len(cl.Queue.Commands), cl.Queue.Bytes
	}
	fixed := min(usage.Output, usage.ReplyCap)
	if usage.Pieces > 0 {
		fixed = 0
	}
	w := line{b}
	w.number("id=", cl.ID)
	w.text(" addr=", addr)
	w.text(" laddr=", local)
	w.number(" fd=", int64(fd))
	w.text(" name=", cl.Name)
	w.number(" age=", cl.Age(nowMs))
	w.number(" idle=", idleSeconds(cl, nowMs))
	w.text(" flags=", "")
	w.b = appendFlags(w.b, cl)
	if cl.Is(client.Redirects) {
		w.text(" capa=", "r") // other clients have no such field in Redis 7.4
	}
	w.number(" db=", int64(cl.DB))
	w.number(" sub=", int64(subscriptions[0]))
	w.number(" psub=", int64(subscriptions[1]))
	w.number(" ssub=", int64(subscriptions[2]))
	w.number(" multi=", int64(multi))
	w.number(" watch=", int64(len(cl.Watched)))
	w.number(" qbuf=", int64(usage.Query))
	w.number(" qbuf-free=", int64(usage.QueryFree))
	w.number(" argv-mem=", int64(argv))
	w.number(" multi-mem=", int64(queued))
	w.number(" rbs=", int64(usage.ReplyCap))
	w.number(" rbp=", int64(usage.ReplyCap)) // the buffer belongs to the loop, so a client has no peak
	w.number(" obl=", int64(fixed))
	w.number(" oll=", int64(usage.Pieces))
	w.number(" omem=", int64(usage.Output-fixed))
	w.number(" tot-mem=", int64(cl.OwnBytes()+cl.Prepared()+usage.Total+argv))
	events := "r"
	if usage.Output > 0 {
		events = "rw"
	}
	if cl.Conn == nil {
		events = ""
	}
	w.text(" events=", events)
	w.text(" cmd=", cl.LastCommand)
	w.text(" user=", cl.UserName())
	redirection := int64(-1)
	if cl.Is(client.Tracking) {
		redirection = cl.Redirect
	}
	w.number(" redir=", redirection)
	w.number(" resp=", int64(cl.Protocol))
	w.text(" lib-name=", cl.LibName)
	w.text(" lib-ver=", cl.LibVersion)
	return append(w.b, '\n')
}

// flagLetters are the flags of CLIENT LIST, in Redis's order.
var flagLetters = []struct {
	flag   client.Flags
	letter byte
}{
	{client.Primary, 'M'}, {client.PubSub, 'P'}, {client.Multi, 'x'}, {client.Blocked, 'b'}, {client.Tracking, 't'},
	{client.TrackingBroken, 'R'}, {client.TrackingBcast, 'B'}, {client.DirtyCAS, 'd'}, {client.CloseAfter, 'c'},
	{client.CloseASAP, 'A'}, {client.Unix, 'U'},
	{client.ReadOnly, 'r'}, {client.NoEvict, 'e'}, {client.NoTouch, 'T'}, {client.Importing, 'i'}, {client.Throttled, 'h'},
}

// everyFlag has the letters that a filter may name: those of flagLetters, and those of the clients' kinds.
const everyFlag = "OSNMPxbtRBdcAUreTih"

func appendFlags(b []byte, cl *client.Client) []byte {
	from := len(b)
	switch {
	case cl.Is(client.Monitor):
		b = append(b, 'O')
	case cl.Is(client.Replica):
		b = append(b, 'S')
	}
	shown := cl.Flags
	if cl.Is(client.Busy) {
		shown &^= client.Blocked
	}
	for _, f := range flagLetters {
		if shown&f.flag != 0 {
			b = append(b, f.letter)
		}
	}
	if len(b) == from {
		b = append(b, 'N')
	}
	return b
}

// A line is the output under construction.
type line struct{ b []byte }

func (w *line) number(name string, n int64) { w.b = strconv.AppendInt(append(w.b, name...), n, 10) }
func (w *line) text(name, s string)         { w.b = append(append(w.b, name...), s...) }
