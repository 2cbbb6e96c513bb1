package proxy

import (
	"net"
	"time"

	"spindle/protocol/scan"
)

// A mirrorLink is a connection to a node of the second cluster. The mirror's goroutine has it.
type mirrorLink struct {
	conn  net.Conn
	out   []byte // requests that were not sent yet
	err   error  // of sending them
	resp3 bool   // what the connection speaks after out
	extra int    // replies to leave out before that of the next request
	skips []int  // by request without a reply: how many to leave out before its own
	scan  scan.Scanner
	in    []byte // bytes that came and were not scanned
	room  [16 << 10]byte

	loading string // SHA-1 of a script that is loaded before the next request
}

// write adds a request to those that the next flush sends. If its reply is compared, the connection changes to the
// client's protocol before it.
func (l *mirrorLink) write(c *copied) {
	if c.reply != nil && c.resp3 != l.resp3 {
		l.resp3 = c.resp3
		proto := "2"
		if l.resp3 {
			proto = "3"
		}
		l.before(encode("HELLO", proto))
	}
	l.out = append(l.out, c.raw...)
	l.skips = append(l.skips, l.extra)
	l.extra = 0
}

// before adds a request whose reply is left out. It goes before the next one.
func (l *mirrorLink) before(request []byte) {
	l.out = append(l.out, request...)
	l.extra++
}

// load has the node load a script, before the next request. It returns false if body is nil.
func (l *mirrorLink) load(sha []byte, s *script) bool {
	if s == nil {
		return false
	}
	if string(sha) != l.loading {
		l.loading = string(sha)
		l.before(s.load())
	}
	return true
}

// flush sends what was written. Replies come within limit.
func (l *mirrorLink) flush(limit time.Duration) {
	if l.err = l.conn.SetDeadline(time.Now().Add(limit)); l.err == nil {
		_, l.err = l.conn.Write(l.out)
	}
	l.out, l.loading = l.out[:0], ""
	if cap(l.out) > keptIdle {
		l.out = nil
	}
}

// answerTo reads the replies to the oldest request. It returns the last one, or the one that says that the request has
// to be sent elsewhere or later.
func (l *mirrorLink) answerTo(c *copied) (p []byte, refusal scan.Refusal, err error) {
	if l.err != nil {
		return nil, 0, l.err
	}
	for range l.skips[0] {
		if _, _, err := l.read(); err != nil {
			return nil, 0, err
		}
	}
	l.skips = l.skips[1:]
	var first []byte
	var why scan.Refusal
	for range c.replies {
		if p, refusal, err = l.read(); err != nil {
			return nil, 0, err
		}
		if refusal > scan.OtherError && why == scan.NotRefused {
			first, why = p, refusal
		}
	}
	if why != scan.NotRefused {
		return first, why, nil
	}
	return p, refusal, nil
}

// read reads one reply. Pushes are left out.
func (l *mirrorLink) read() (p []byte, refusal scan.Refusal, err error) {
	for {
		if len(l.in) == 0 {
			n, err := l.conn.Read(l.room[:])
			if err != nil {
				return nil, 0, err
			}
			l.in = l.room[:n]
		}
		n, complete, err := l.scan.Scan(l.in)
		if err != nil {
			return nil, 0, err
		}
		p, l.in = append(p, l.in[:n]...), l.in[n:]
		if !complete {
			continue
		}
		if l.scan.Kind == '>' {
			p = nil
			continue
		}
		return p, l.scan.Refusal, nil
	}
}
