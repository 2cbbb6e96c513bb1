// Package migrate moves keys to other servers: MIGRATE, in cluster mode and without it.
//
// Owner: the turn parses a call, takes the keys and deletes what has arrived; a goroutine of each call talks with the
// target in between. Pool alone is used by both.
// Never: holds the turn while a target is slow, but inside MULTI and scripts.
// Start here: commands.go takes the keys, transfer.go sends them, pool.go keeps connections.
package migrate

import (
	"fmt"
	"strconv"
	"time"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/protocol"
)

// A call is one MIGRATE on its way.
//
//	turn: parse, take keys, latch ─▶ goroutine: connect, send, read ─▶ turn: delete, tell, reply, unlatch
//
// migrate.C1. A key of the call is not changed between its encoding and its end: its latch holds back who names it.
// migrate.C2. Only keys that the target has confirmed are deleted.
type call struct {
	host, port     string
	db             int64 // the target's
	timeout        time.Duration
	copy, replace  bool
	user, password []byte // password nil: no AUTH
	secrets        []int  // which arguments these were
	from           int    // the database here

	keys []item
	view *keyspace.View // of the keys that are sent from it; nil if none is

	acked  []int // of keys, in order
	failed error // the reply; nil: OK
}

// An item is one key.
type item struct {
	key      []byte
	deadline int64       // Unix ms; 0: none
	payload  []byte      // encoded already; nil: value is sent from the view
	value    value.Value // frozen
}

// What stands in the way.
var (
	errKeyAndKeys = &protocol.Error{Code: "ERR",
		Text: "When using MIGRATE KEYS option, the key argument must be set to the empty string"}
	errConnect = &protocol.Error{Code: "IOERR", Text: "error or timeout connecting to the client"}
	errWrite   = &protocol.Error{Code: "IOERR", Text: "error or timeout writing to target instance"}
	errRead    = &protocol.Error{Code: "IOERR", Text: "error or timeout reading to target instance"}
)

// defaultTimeout holds where a call gives none above 0.
const defaultTimeout = time.Second

// parse reads a call. keys are the arguments that name some, lent. On an error m has the secrets that were read.
//
// Syntax: MIGRATE host port key|"" db timeout [COPY] [REPLACE] [AUTH password | AUTH2 user password] [KEYS key ...]
func parse(args [][]byte) (m *call, keys [][]byte, err error) {
	m, keys = &call{}, args[3:4]
options:
	for i := 6; i < len(args); i++ {
		more := len(args) - 1 - i
		switch word := args[i]; {
		case command.Is(word, "COPY"):
			m.copy = true
		case command.Is(word, "REPLACE"):
			m.replace = true
		case command.Is(word, "AUTH") && more >= 1:
			m.user, m.password = nil, clone(args[i+1])
			m.secrets = append(m.secrets, i+1)
			i++
		case command.Is(word, "AUTH2") && more >= 2:
			m.user, m.password = clone(args[i+1]), clone(args[i+2])
			m.secrets = append(m.secrets, i+1, i+2)
			i += 2
		case command.Is(word, "KEYS"):
			if len(args[3]) != 0 {
				return m, nil, errKeyAndKeys
			}
			keys = args[i+1:]
			break options
		default:
			return m, nil, protocol.ErrSyntax
		}
	}
	ms, err := command.Int(args[5])
	if err != nil {
		return m, nil, err
	}
	if m.db, err = command.Int(args[4]); err != nil {
		return m, nil, err
	}
	m.timeout = defaultTimeout
	if ms > 0 {
		m.timeout = time.Duration(min(ms, int64(longest/time.Millisecond))) * time.Millisecond
	}
	m.host, m.port = string(args[1]), string(args[2])
	return m, keys, nil
}

// longest is as good as for ever, and does not overflow a deadline.
const longest = 1000 * 24 * time.Hour

// clone copies lent bytes; what is empty is not nil.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// address is where the target listens. A port is read as C's atoi does: a name is none.
func (m *call) address() (host string, port int) {
	n := 0
	for _, c := range []byte(m.port) {
		if c < '0' || c > '9' || n > 1<<16 {
			break
		}
		n = n*10 + int(c-'0')
	}
	return m.host, n
}

// name is the pool's key for connections to the target. A connection that was authenticated serves only calls with the
// same user and password.
func (m *call) name() string {
	name := m.host + ":" + m.port
	if m.password != nil {
		name += fmt.Sprintf(" %q %q", m.user, m.password)
	}
	return name
}

// keyPositions finds the keys of a call: those after KEYS if key is empty and the word is there, else key.
func keyPositions(into []command.KeyPosition, args [][]byte) ([]command.KeyPosition, error) {
	const flags = command.KeyRW | command.KeyAccess | command.KeyDelete
	for i := 6; i < len(args) && len(args[3]) == 0; i++ {
		switch word := args[i]; {
		case command.Is(word, "AUTH"):
			i++
		case command.Is(word, "AUTH2"):
			i += 2
		case command.Is(word, "KEYS"):
			for at := i + 1; at < len(args); at++ {
				into = append(into, command.KeyPosition{Index: at, Flags: flags})
			}
			return into, nil
		}
	}
	return append(into, command.KeyPosition{Index: 3, Flags: flags}), nil
}

// targetError is the reply to an error of the target's, whose line begins with "-".
func targetError(line []byte) error {
	return protocol.Errorf("ERR", "Target instance replied with error: %s", line[1:])
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
