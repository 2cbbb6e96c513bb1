package replication

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"spindle/bgsave/rdb"
	"spindle/engine/client"
	"spindle/engine/command"
)

// What some servers cannot read. No release of Redis tells its version in the handshake of a replica. A spindle says by
// REPLCONF capa what it reads. Any other peer is asked, on a connection of its own, once something is to be sent that
// it may not read.
//
// replication.V1. What a peer is known not to read is not sent to it, neither in a full copy nor as an effect.
// replication.V2. A peer of which nothing is known gets everything, as with Redis.

// Forms is a set of forms of data that only some servers read.
type Forms uint8

const (
	FieldDeadlines Forms = 1 << iota // of hashes: Redis 7.4 reads them, from RDB version 12 on
	Blooms                           // Bloom filters: a server with the module bf reads them
)

// capabilities are the words for them in REPLCONF capa.
const (
	capaFieldDeadlines = "hash-field-deadlines"
	capaBlooms         = "bloom"
)

// String names the first of the forms, and who reads it.
func (f Forms) String() string {
	if f&FieldDeadlines != 0 {
		return "deadlines of fields, which Redis reads from version 7.4 (RDB version 12) on"
	}
	return "a Bloom filter, which needs the module bf"
}

const (
	askLimit    = 3 * time.Second // for a peer to say what it reads
	askMax      = 1 << 20         // bytes of its answer
	refusalRest = 30_000          // ms until a peer that was refused may try again
)

// askRead finds out what r's server reads. It says so to anybody who asks, unless it wants a password. No password is
// sent: r's address is what r has told.
func (f *Feed) askRead(r *replica) {
	r.asked = true
	if r.port == 0 || r.rdbOnly {
		r.answered = true // no server: redis-cli, or a program that takes the stream
		return
	}
	address, dial := net.JoinHostPort(r.host(), strconv.Itoa(r.port)), f.follower.parts.Dial
	go func() {
		version, lacks, err := survey(dial, address)
		f.core.Do(func() { f.told(r, version, lacks, err) })
	}()
}

// survey asks the server at address for its version and its modules.
func survey(dial Dialer, address string) (version string, lacks Forms, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	conn, err := dial(ctx, address, "")
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(askLimit))
	if _, err := io.WriteString(conn, "INFO server\r\nINFO modules\r\n"); err != nil {
		return "", 0, err
	}
	in := bufio.NewReader(conn)
	about, err := readText(in)
	if err != nil {
		return "", 0, err
	}
	modules, err := readText(in)
	if err != nil {
		return "", 0, err
	}
	_, rest, _ := strings.Cut(about, "\nredis_version:")
	version, _, _ = strings.Cut(rest, "\r\n")
	return version, lacking(version, modules), nil
}

// readText reads a reply that is a text, such as INFO's, or returns an error that says what came instead.
func readText(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '$' {
		return "", fmt.Errorf("it answers %.100q", line)
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > askMax {
		return "", fmt.Errorf("it announces %.20q bytes", line[1:])
	}
	text := make([]byte, n+len("\r\n"))
	_, err = io.ReadFull(in, text)
	return string(text[:n]), err
}

// lacking is what a server of that version and with those modules, in INFO's words, cannot read. Of a version that is
// no number nothing is known.
func lacking(version, modules string) (lacks Forms) {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	if major < 7 || major == 7 && minor < 4 {
		lacks |= FieldDeadlines
	}
	if !strings.Contains(modules, "name=bf,") {
		lacks |= Blooms
	}
	return lacks
}

// told goes on with r, whose server has said what it reads, or has not answered.
func (f *Feed) told(r *replica, version string, lacks Forms, err error) {
	if _, still := r.cl.ReplicaState.(*replica); !still {
		return
	}
	r.answered, r.version, r.lacks = true, version, lacks
	if err != nil {
		f.settings.Log.Notice("Replica %s does not say which version it is (%v): it gets everything", r.name(), err)
	}
	if r.met.Forms&lacks != 0 {
		f.closeTooOld(r, r.met)
		return
	}
	f.startWaiting()
}

// A Find is a key that holds one of the forms.
type Find struct {
	DB    int
	Key   string
	Forms Forms
}

// String says it to operators.
func (x Find) String() string {
	return fmt.Sprintf("key '%.100s' of database %d has %s", x.Key, x.DB, x.Forms)
}

// spotEffect is spot for a command as the stream has it.
func (f *Feed) spotEffect(db int, effect []byte) {
	at := bytes.IndexByte(effect, '\n') + len("$5\r\n") + 1
	if at < len(effect) && effect[at] == '\n' { // the name has ten letters or more
		at++
	}
	if at+2 > len(effect) {
		return
	}
	switch string([]byte{effect[at] &^ 0x20, effect[at+1] &^ 0x20}) {
	case "HE", "HP", "BF", "RE": // beginnings of what special looks for
		if _, err := f.parser.Parse(effect); err == nil && len(f.parser.Requests) == 1 {
			f.spot(db, f.parser.Requests[0].Args)
		}
	}
}

// spot looks whether args, the next command of the stream, is one that only some servers know.
func (f *Feed) spot(db int, args [][]byte) {
	forms := special(args)
	if forms == 0 {
		return
	}
	x := Find{db, string(args[1]), forms}
	f.specialAt = f.offset + 1
	for _, r := range f.replicas {
		switch {
		case forms&^r.reads == 0, r.state == waiting, r.cl.Is(client.CloseASAP):
		case !r.answered:
			if r.met.Forms&forms == 0 {
				r.met = x
			}
			if !r.asked {
				f.askRead(r)
			}
		case forms&r.lacks != 0:
			f.closeTooOld(r, x)
		}
	}
}

// special says whether only some servers can carry out a command, and for want of what.
func special(args [][]byte) Forms {
	if len(args) < 2 {
		return 0
	}
	switch name := args[0]; {
	case len(name) > 3 && command.Is(name[:3], "BF."):
		return Blooms
	case command.Is(name, "HEXPIRE"), command.Is(name, "HPEXPIRE"), command.Is(name, "HEXPIREAT"),
		command.Is(name, "HPEXPIREAT"), command.Is(name, "HPERSIST"):
		return FieldDeadlines
	case command.Is(name, "RESTORE") && len(args) > 3 && len(args[3]) > 0:
		return FormsOf(rdb.Kind(args[3][0]))
	}
	return 0
}

// FormsOf is what a value that is written as kind needs of its reader.
func FormsOf(kind rdb.Kind) Forms {
	switch {
	case !kind.Known():
	case kind == rdb.KindModule2:
		return Blooms
	case kind.Since() >= rdb.KindHashTTL.Since():
		return FieldDeadlines
	}
	return 0
}

// closeTooOld closes r, which cannot read what the stream holds next. It must not go on from the backlog: what it
// misses is in there.
func (f *Feed) closeTooOld(r *replica, x Find) {
	f.settings.Log.Warning("Closing replica %s of version %s, which could not read the stream: %s", r.name(), r.version, x)
	f.tooOld[r.address()] = true
	f.core.Kill(r.cl, false)
}

// canRead says whether r, which waits for a full copy, can read one of the data as they are now. If it cannot, that is
// said, and r closed after a rest.
func (f *Feed) canRead(r *replica) bool {
	may := f.saver.Holds() &^ r.reads
	switch {
	case may == 0:
		return true
	case !r.asked:
		f.askRead(r)
	}
	if !r.answered || r.refusedMs != 0 {
		return false
	}
	if may &= r.lacks; may == 0 || r.searchedAt > f.specialAt {
		return true
	}
	r.refusedMs = f.core.SteadyMs()
	at, view := f.offset+1, f.core.Freeze()
	go func() {
		x, found := f.saver.Find(view, may)
		view.Close()
		f.core.Do(func() { f.searched(r, x, found, at) })
	}()
	return false
}

// searched goes on with r once the data of offset at have been searched for what it cannot read.
func (f *Feed) searched(r *replica, x Find, found bool, at int64) {
	if _, still := r.cl.ReplicaState.(*replica); !still {
		return
	}
	if !found {
		r.refusedMs, r.searchedAt = 0, at
		f.startWaiting()
		return
	}
	f.settings.Log.Warning("Full synchronization with replica %s of version %s refused: %s", r.name(), r.version, x)
	r.refusal = "-ERR Full synchronization refused: " + x.String() + "\r\n"
	if r.psync {
		r.cl.Conn.Post(f.core.TurnNumber(), []byte(r.refusal)) // it asks by SYNC then, and that waits
	}
}

// tickRefused closes who was refused and has rested: it may try again.
func (f *Feed) tickRefused(nowMs int64) {
	for _, r := range f.replicas {
		if r.refusal != "" && nowMs-r.refusedMs >= refusalRest && !r.cl.Is(client.CloseASAP) {
			r.cl.Conn.Post(f.core.TurnNumber(), []byte(r.refusal))
			f.core.Kill(r.cl, true)
		}
	}
}
