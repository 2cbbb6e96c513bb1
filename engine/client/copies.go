package client

// Copies makes copies of a registry's clients for readers outside the turn. Each turn copies some of them, so that it
// stays short.
type Copies struct {
	Complete *Copied // the last complete copy; it never changes
	next     *Copied
	from     int64 // the id of the next client to copy
}

// A Copied is a copy of a registry, with the numbers of its clients' subscriptions. Any goroutine.
type Copied struct {
	*Registry
	subscriptions map[int64][3]int
}

// leastCopied and mostCopied bound the number of clients that a turn copies. Within these bounds it copies a twentieth
// of all.
const leastCopied, mostCopied = 128, 1000

// NewCopies returns copies of an empty registry.
func NewCopies() *Copies { return &Copies{Complete: newCopied(), next: newCopied()} }

func newCopied() *Copied { return &Copied{NewRegistry(), map[int64][3]int{}} }

// Subscriptions returns the numbers that count returned for the client that cl is a copy of.
func (c *Copied) Subscriptions(cl *Client) (channels, patterns, shards int) {
	n := c.subscriptions[cl.ID]
	return n[0], n[1], n[2]
}

// Renew copies the next clients of r. When none is left, the copy is complete, and the next call begins a new copy.
// Turn only.
func (k *Copies) Renew(r *Registry, count func(*Client) (channels, patterns, shards int)) {
	left := min(max(leastCopied, r.Len()/20), mostCopied)
	for cl := range r.From(k.from) {
		if left--; left < 0 {
			k.from = cl.ID
			return
		}
		if cl.Conn != nil {
			k.next.Add(cl.copy())
			channels, patterns, shards := count(cl)
			k.next.subscriptions[cl.ID] = [3]int{channels, patterns, shards}
		}
	}
	k.from, k.Complete, k.next = 0, k.next, newCopied()
}

// copy returns a copy of the fields that CLIENT LIST and CLIENT KILL read. Turn only.
func (c *Client) copy() *Client {
	copied := &Client{
		ID: c.ID, Conn: c.Conn, Flags: c.Flags, DB: c.DB, User: c.User, Name: c.Name, LibName: c.LibName,
		LibVersion: c.LibVersion, CreatedMs: c.CreatedMs, LastMs: c.LastMs, LastCommand: c.LastCommand,
		Protocol: c.Protocol, Redirect: c.Redirect, Watched: c.Watched, FamilyBytes: c.FamilyBytes,
		CommandsRun: c.CommandsRun, InputBytes: c.InputBytes, OutputBytes: c.OutputBytes,
	}
	if q := c.Queue; q != nil {
		copied.Queue = &Queue{Commands: q.Commands, Bytes: q.Bytes}
	}
	return copied
}
