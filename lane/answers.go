package lane

import (
	"bytes"
	"time"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/internal/info"
)

// call runs a command of the lane. For a command that shows state, it publishes a new view first, if the turn is free.
// Otherwise INFO has one more section, with the age of the figures.
func (l *Lane) call(c *command.Context) error {
	switch c.Spec.Full {
	case "script|kill", "function|kill":
		err := l.Kill(c.Spec.Full == "script|kill")
		if err == nil {
			c.Reply.OK()
		}
		return err
	case "shutdown":
		if len(c.Args) != 2 || !command.Is(c.Args[1], "NOSAVE") {
			return errNoSave
		}
		return l.shutdown(l.serving)
	case "info":
		fresh, v, w := l.Core.DoWithin(patience, l.publish), l.view.Load(), info.Writer{}
		introspect.AppendTexts(&w, v.info, c.Args[1:])
		if !fresh {
			w.B = append(w.B, "\r\n# Lane\r\n"...)
			w.Int("lane_answered_beside_turn", 1)
			w.Int("lane_report_age_ms", time.Since(v.at).Milliseconds())
		}
		c.Reply.Verbatim("txt", string(w.B))
		return nil
	case "auth", "hello":
		l.Core.DoWithin(patience, l.refresh)
	case "slowlog|get", "stalls|get", "client|list", "client|kill":
		l.Core.DoWithin(patience, l.publish)
	case "ping", "quit":
	default:
		return notServed(c.Spec.Full)
	}
	return l.view.Load().run[c.Spec.Full](c)
}

// shutdown runs SHUTDOWN NOSAVE. The client gets no reply, unless the shutdown is given up.
func (l *Lane) shutdown(s *session) (err error) {
	ending := make(chan error, 1)
	inTime := l.Core.DoWithin(100*patience, func() { // a busy host must not end it without its replicas
		err = l.Shutdown(func(err error) {
			ending <- err
			s.cl.Conn.Resume()
		})
	})
	if !inTime {
		l.End(s.cl.Conn) // the append-only file gets no more effects
	}
	if err != nil {
		return err
	}
	s.ending = ending
	return s.ended()
}

// ended returns why the session's shutdown was given up, or errWaits.
func (s *session) ended() error {
	select {
	case err := <-s.ending:
		s.ending = nil
		return err
	default:
		return errWaits
	}
}

// deny stores a refused call of the served client for ACL LOG.
func (l *Lane) deny(why acl.Reason, object, user string) {
	now := time.Now().UnixMilli()
	line := string(bytes.TrimSuffix(conn.AppendLine(nil, l.serving.cl, now, nil), []byte("\n")))
	l.Refusals.Add(acl.Entry{Reason: why, Object: object, User: user, Client: line}, now)
}
