package replication

import (
	"fmt"
	"strconv"
	"strings"

	"spindle/engine/client"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/protocol"
)

// A state is the stage that a replica has reached.
type state uint8

const (
	handshake state = iota // it has sent REPLCONF, and nothing else yet
	waiting                // it waits for a view
	sending                // the view is being sent
	awaitAck               // the view was sent; the stream begins when the replica reports that it has loaded it
	online
)

func (s state) String() string {
	switch s {
	case online:
		return "online"
	case waiting:
		return "wait_bgsave"
	}
	return "send_bulk"
}

// A replica is one client that takes the stream. Times are by clock.Steady.
type replica struct {
	cl    *client.Client
	state state
	gone  chan struct{} // closed when the client has left

	// Set by REPLCONF:
	port        int    // listening-port
	addr        string // ip-address
	eof, psync2 bool   // capa
	reads       Forms  // capa: forms that it reads
	rdbOnly     bool
	filter      Filter

	// Set by REPLCONF version, or by the answer of the replica's server:
	asked    bool
	answered bool   // or will not answer
	version  string // "": unknown
	lacks    Forms  // forms that it cannot read
	met      Find   // a form that was in the stream before the answer

	// Used while the replica waits for a full copy:
	askedMs    int64
	searchedAt int64           // the data at this offset, counted from 1, have no form that it lacks; 0: not searched
	refusedMs  int64           // when the copy was refused, or a search began; 0: neither
	refusal    string          // the reply of a refused copy
	psync      bool            // it asked by PSYNC: +FULLRESYNC comes before the view
	answer     *protocol.Reply // gets +FULLRESYNC while PSYNC runs; nil: it is posted
	loaded     bool            // it has acknowledged the view, perhaps before the end of sending is known

	// Used in the stream:
	since      int64 // the stream's offset when it began to follow
	at         int64 // its loop has the stream up to this offset (replication.F3); live: it gets the new bytes
	unseen     int   // bytes given to its loop since the unsent bytes were last checked
	ackOffset  int64
	diskOffset int64 // fsynced, by FACK; -1: never reported
	ackMs      int64 // when it was last heard
	activeMs   int64 // Unix ms of its last bytes, by its connection; only a change matters
	blankMs    int64 // when activeMs last changed
	softSince  int64 // when its missing bytes exceeded the soft limit; 0: they do not
	lag        lagTrend
}

// live is the value of at for a replica that gets the stream as it comes, or does not get it yet.
const live = -1

// replicaOf returns the replica of client cl. It makes the replica at the first REPLCONF, SYNC or PSYNC.
func replicaOf(cl *client.Client) *replica {
	if r, ok := cl.ReplicaState.(*replica); ok {
		return r
	}
	r := &replica{cl: cl, at: live, diskOffset: -1, gone: make(chan struct{})}
	cl.ReplicaState = r
	return r
}

// isHere reports whether the client is still connected.
func (r *replica) isHere() bool {
	_, here := r.cl.ReplicaState.(*replica)
	return here
}

// awaitsView reports whether r waits for a full copy.
func (r *replica) awaitsView() bool { return r.state == waiting && !r.cl.Is(client.CloseASAP) }

// A form is the format of a full synchronisation. Replicas with the same form can share one.
type form struct {
	eof, rdbOnly bool
	filter       Filter
	dialect      Dialect
}

func (r *replica) form() form {
	f := form{r.eof, r.rdbOnly, r.filter, CommonDialect}
	switch {
	case r.wantsValkey():
		f.dialect = ValkeyDialect
	case r.reads&Messages != 0:
		f.dialect = MemoryDialect
	}
	return f
}

// setFilter runs REPLCONF rdb-filter-only, whose value lists the contents of the RDB stream. Functions are the only
// contents that a replica can list, so every filter leaves out the keys.
func (r *replica) setFilter(list string) error {
	words, err := setting.SplitArgs(list)
	if err != nil {
		return errNoFilter
	}
	r.filter = Filter{NoKeys: true, NoFunctions: true} // even if a word is refused
	for _, word := range words {
		if !strings.EqualFold(word, "functions") {
			return errFilter(word)
		}
		r.filter.NoFunctions = false
	}
	return nil
}

// sayVersion runs REPLCONF version, which Valkey sends since 8.0. Such a server need not be asked. The forms that a
// spindle reads are in its capa. sayVersion returns false if text is not three numbers.
func (r *replica) sayVersion(text string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return false
	}
	r.asked, r.answered, r.version = true, true, text
	r.lacks = lackingValkey(major) // except for the forms in capa
	return true
}

// wantsValkey reports whether r is a Valkey that reads deadlines of hash fields only in Valkey's form.
func (r *replica) wantsValkey() bool {
	return r.lacks&^r.reads&(redisFields|FieldDeadlines) == redisFields
}

// acknowledged returns the offset up to which r certainly has the stream. ok is false if r does not follow the stream
// yet, or cannot continue it later.
func (r *replica) acknowledged() (at int64, ok bool) {
	return max(r.ackOffset, r.since), r.state == online && r.psync2 && !r.rdbOnly && r.port != 0
}

// unsent returns how many bytes r's loop has that the socket has not taken.
func (r *replica) unsent() int64 {
	if r.cl.Conn == nil {
		return 0
	}
	return int64(r.cl.Conn.Usage().Output)
}

// applied and onDisk return the offsets that a replica has acknowledged.
func applied(r *replica) int64 { return r.ackOffset }
func onDisk(r *replica) int64  { return r.diskOffset }

// name returns how log lines call a replica: its address and port, if it has sent the port.
func (r *replica) name() string {
	if r.port == 0 {
		return "client id #" + strconv.FormatInt(r.cl.ID, 10)
	}
	return r.host() + ":" + strconv.Itoa(r.port)
}

// address is where a replica listens.
func (r *replica) address() Address { return Address{r.host(), r.port} }

func (r *replica) host() string {
	if r.addr != "" {
		return r.addr
	}
	if r.cl.Conn == nil {
		return ""
	}
	addr := r.cl.Conn.RemoteAddr()
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return addr
	}
	return strings.Trim(addr[:at], "[]")
}

// describe returns a client for log lines.
func describe(cl *client.Client) logging.Client {
	id := "id=" + strconv.FormatInt(cl.ID, 10)
	if cl.Conn == nil {
		return logging.Client(id)
	}
	return logging.Client(id + " addr=" + cl.Conn.RemoteAddr() + " name=" + cl.Name)
}
