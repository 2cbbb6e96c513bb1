package replication

// Outside carries out the decisions of a Link. Its methods do not wait, and do not call the Link.
type Outside interface {
	Terms() Terms
	// History returns the history of the present data, and the offset of the last byte applied. ok is false if no
	// primary could continue it.
	History() (id string, offset int64, ok bool)
	Dial(host string, port int)
	Send(words ...string)
	HangUp()
	// Receive prepares for a full copy, which comes next. The copy is history id at offset, or at -1 if the peer did
	// not say.
	Receive(id string, offset int64)
	// Continue prepares for the stream, which comes next, from the end of the present history. id is the history's new
	// name.
	Continue(id string)
	// Acknowledge sends the applied offset to the peer.
	Acknowledge()
	// Answered passes on whether the peer has accepted a PSYNC that asked it to take over.
	Answered(accepted bool)
}

// Terms are what a link sends about this server, and how patient it is.
type Terms struct {
	User, Password string
	Port           int    // where this server listens
	Address        string // replica-announce-ip
	PatienceMs     int64  // repl-timeout
}

// A step is one command of the handshake.
type step struct {
	words    []string
	critical bool
	quiet    bool // an error is not logged, because only a few servers know the option
}

// login returns the AUTH that the terms ask for. ok is false if they ask for none.
func (t Terms) login() (s step, ok bool) {
	switch {
	case t.Password == "":
		return s, false
	case t.User == "":
		return step{words: []string{"AUTH", t.Password}, critical: true}, true
	}
	return step{words: []string{"AUTH", t.User, t.Password}, critical: true}, true
}
