package migrate

import (
	"errors"
	"os"
	"syscall"
	"time"

	"spindle/bgsave"
	"spindle/protocol"
)

// writeAtOnce is how many bytes are written under one deadline.
const writeAtOnce = 64 << 10

// A sender writes a call's requests to its target in pieces.
type sender struct {
	t       *target
	timeout time.Duration
	out     []byte
}

// Write implements io.Writer. Errors: those of the connection.
func (s *sender) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += writeAtOnce {
		if err := s.t.conn.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
			return at, err
		}
		if _, err := s.t.conn.Write(p[at:min(at+writeAtOnce, len(p))]); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// flush writes the gathered bytes if they are at least from bytes.
func (s *sender) flush(from int) error {
	if len(s.out) == 0 || len(s.out) < from {
		return nil
	}
	_, err := s.Write(s.out)
	s.out = s.out[:0]
	return err
}

// line reads a reply of one line and returns it without its end.
func (s *sender) line() ([]byte, error) {
	if err := s.t.conn.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
		return nil, err
	}
	line, err := s.t.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// run sends the call's keys and reads the replies. It may block; the timeout applies to each piece. restore is the name
// of the RESTORE command to send.
//
// A pooled connection may be dead. So a call that fails before any reply, but not by timeout, is tried again.
func (m *call) run(p *pool, d *bgsave.Dumper, restore string) {
	t := p.take(m.name())
	for try := 0; ; try++ {
		if t == nil {
			var err error
			if t, err = p.connect(m); err != nil {
				if m.failed = errConnect; errors.Is(err, syscall.ECONNREFUSED) {
					m.failed = errWrite // redis-server notices this error at the write
				}
				return
			}
		}
		again, broken := m.attempt(t, d, restore)
		if !broken {
			p.put(t)
			return
		}
		p.close(t)
		if !again || try > 0 {
			return
		}
		t, m.failed = nil, nil
	}
}

// attempt does run's work over one connection. again: no reply came and it was no timeout. broken: the connection must
// be closed.
func (m *call) attempt(t *target, d *bgsave.Dumper, restore string) (again, broken bool) {
	s := &sender{t: t, timeout: m.timeout}
	sent, chosen, err := m.send(s, d, restore)
	if err != nil {
		m.failed = errWrite
		return !isTimeout(err), true
	}
	var auth, selected []byte
	if m.password != nil {
		if auth, err = s.line(); err != nil {
			m.failed = errRead
			return !isTimeout(err), true
		}
		auth = clone(auth)
	}
	if chosen {
		if selected, err = s.line(); err != nil {
			m.failed = errRead
			return !isTimeout(err), true
		}
		selected = clone(selected)
	}
	for n, i := range sent {
		line, err := s.line()
		if err != nil {
			if m.failed == nil {
				m.failed = errRead
				return n == 0 && !isTimeout(err), true
			}
			return false, true
		}
		if why := firstError(auth, selected, line); why == nil {
			m.acked = append(m.acked, i)
		} else if m.failed == nil {
			m.failed, t.db = targetError(why), -1
		}
	}
	if m.failed == nil {
		t.db = m.db
	}
	return false, false
}

// firstError returns the first error among lines; nil if there is none.
func firstError(lines ...[]byte) []byte {
	for _, l := range lines {
		if len(l) > 0 && l[0] == '-' {
			return l
		}
	}
	return nil
}

// send writes all requests. sent are the keys that had not expired; chosen: SELECT was written.
func (m *call) send(s *sender, d *bgsave.Dumper, restore string) (sent []int, chosen bool, err error) {
	word := func(w string) []byte { return []byte(w) }
	if m.password != nil {
		args := [][]byte{word("AUTH"), m.user, m.password}
		if m.user == nil {
			args = append(args[:1], m.password)
		}
		s.out = protocol.AppendCommand(s.out, args)
	}
	if chosen = s.t.db != m.db; chosen {
		s.out = protocol.AppendCommand(s.out, [][]byte{word("SELECT"), appendInt(nil, m.db)})
	}
	for i := range m.keys {
		k := &m.keys[i]
		ttl := int64(0)
		if k.deadline != 0 {
			if ttl = k.deadline - time.Now().UnixMilli(); ttl < 0 {
				continue
			}
			ttl = max(ttl, 1)
		}
		sent = append(sent, i)
		if err := m.sendKey(s, d, k, restore, ttl); err != nil {
			return nil, chosen, err
		}
	}
	return sent, chosen, s.flush(0)
}

// sendKey writes the RESTORE of one key.
func (m *call) sendKey(s *sender, d *bgsave.Dumper, k *item, restore string, ttl int64) error {
	count, size := int64(4), len(k.payload)
	if m.replace {
		count++
	}
	if k.payload == nil {
		size = d.Size(k.value)
	}
	s.out = append(appendInt(append(s.out, '*'), count), '\r', '\n')
	for _, arg := range [][]byte{[]byte(restore), k.key, appendInt(nil, ttl)} {
		s.out = append(appendInt(append(s.out, '$'), int64(len(arg))), '\r', '\n')
		s.out = append(append(s.out, arg...), '\r', '\n')
	}
	s.out = append(appendInt(append(s.out, '$'), int64(size)), '\r', '\n')
	if k.payload != nil {
		s.out = append(s.out, k.payload...)
	} else {
		if err := s.flush(0); err != nil {
			return err
		}
		if err := d.Write(k.value, s); err != nil {
			return err
		}
	}
	s.out = append(s.out, '\r', '\n')
	if m.replace {
		s.out = append(s.out, "$7\r\nREPLACE\r\n"...)
	}
	return s.flush(writeAtOnce)
}

// isTimeout reports whether a connection's error is a timeout.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
