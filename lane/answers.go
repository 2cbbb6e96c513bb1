package lane

import (
	"bytes"
	"time"

	"spindle/engine/acl"
	"spindle/engine/command"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/internal/info"
	"spindle/protocol"
)

// call runs a command of the lane. Commands that show state publish it first, if a turn is free. Otherwise INFO has
// one more section, with the age of the others.
func (l *Lane) call(c *command.Context) error {
	switch c.Spec.Full {
	case "script|kill", "function|kill":
		if err := l.Kill(c.Spec.Full == "script|kill"); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	case "shutdown":
		if len(c.Args) != 2 || !command.Is(c.Args[1], "NOSAVE") {
			return errNoSave
		}
		return l.shutdown(l.serving)
	case "info":
		fresh, v, w := l.inTurn(l.publish), l.view.Load(), info.Writer{}
		introspect.AppendTexts(&w, v.info, c.Args[1:])
		if !fresh {
			w.B = append(w.B, "\r\n# Lane\r\n"...)
			w.Int("lane_answered_beside_turn", 1)
			w.Int("lane_report_age_ms", time.Since(v.at).Milliseconds())
		}
		c.Reply.Verbatim("txt", string(w.B))
		return nil
	case "auth", "hello":
		l.inTurn(l.refresh)
	case "slowlog|get", "stalls|get", "client|list", "client|kill":
		l.inTurn(l.publish)
	case "ping", "quit":
	default:
		return notServed(c.Spec.Full)
	}
	return l.view.Load().run[c.Spec.Full](c)
}

// shutdown is SHUTDOWN NOSAVE. The client gets no reply, unless the shutdown is given up.
func (l *Lane) shutdown(s *session) (err error) {
	ending := make(chan error, 1)
	inTime := l.inTurn(func() {
		err = l.Shutdown(func(err error) {
			ending <- err
			s.cl.Conn.Resume()
		})
	})
	if !inTime {
		l.End(s.cl.Conn) // the append-only file gets no more data
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

// A denial is a refused call and its reply.
type denial struct {
	acl.Entry
	err *protocol.Error
}

// deny stores a refused call of the served client for ACL LOG. If there is no room, it only counts the call.
func (l *Lane) deny(e acl.Entry, err *protocol.Error) {
	now := time.Now().UnixMilli()
	e.Origin, e.Count, e.CreatedMs, e.UpdatedMs = acl.TopLevel, 1, now, now
	e.Client = string(bytes.TrimSuffix(conn.AppendLine(nil, l.serving.cl, now, nil), []byte("\n")))
	select {
	case l.denied <- denial{e, err}:
	default:
		l.dropped.Add(1)
	}
}

// Book adds the refused calls to ACL LOG and to the counts of errors. Turn only.
func (l *Lane) Book() {
	if n := l.dropped.Swap(0); n > 0 { // 0 would give INFO a line of the error
		l.Denials.Count(acl.DeniedAuth, n)
		l.CountErrors(errWrongPass, n)
	}
	for len(l.denied) > 0 {
		d := <-l.denied
		l.Denials.Merge(d.Entry)
		l.CountErrors(d.err, 1)
	}
}
