// Package migrate moves keys to other servers: MIGRATE, in cluster mode and without it.
//
// Owner: the turn parses a call, looks up the keys and deletes confirmed ones. In between, a goroutine for each call
// talks to the target. Both use only the pool together.
// Never: blocks the turn while a target is slow, except inside MULTI and scripts.
// Start here: commands.go looks up the keys, transfer.go sends them, pool.go keeps connections.
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

// A call is one running MIGRATE.
//
//	turn: parse, take keys, latch ─▶ goroutine: connect, send, read ─▶ turn: delete, tell, reply, unlatch
//
// migrate.C1. A key of the call does not change between its encoding and the call's end. A latch delays commands that
// name it.
// migrate.C2. Only keys that the target has confirmed are deleted, and none whose slot is handed over as a whole.
type call struct {
	host, port     string
	db             int64 // the target's
	timeout        time.Duration
	copy, replace  bool
	user, password []byte // password nil: no AUTH
	secrets        []int  // the positions of user and password in the arguments
	from           int    // the database here

	keys []item
	view *keyspace.View // of the keys that are sent from it; nil: none

	acked  []int // indexes into keys, ascending
	failed error // the reply; nil: OK
}

// An item is one key.
type item struct {
	key      []byte
	deadline int64       // Unix ms; 0: none
	payload  []byte      // encoded already; nil: value is sent from the view
	value    value.Value // frozen
}

// defaultTimeout is used if a call gives no timeout above 0.
const defaultTimeout = time.Second

// parse reads a call. keys are the arguments that name keys; they are lent. After an error m has the secrets read so
// far.
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

// longest is in effect unlimited, but does not overflow a deadline.
const longest = 1000 * 24 * time.Hour

// clone copies lent bytes. The copy is never nil.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// address returns the target's address. The port is read as C's atoi does; a name becomes 0.
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

// name is the pool's key for connections to the target. It contains user and password: only calls with the same ones
// may use an authenticated connection.
func (m *call) name() string {
	name := m.host + ":" + m.port
	if m.password != nil {
		name += fmt.Sprintf(" %q %q", m.user, m.password)
	}
	return name
}

// keyPositions finds a call's keys: those after KEYS if key is empty and KEYS is present, else key.
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

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
