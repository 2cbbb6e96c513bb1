package proxy

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/resp3"
)

// RESP3 over shards that speak RESP2 only: HELLO is not known there, as before Redis 6, or it is renamed. Their replies
// get the form of RESP3 in the proxy, command by command.
//
// proxy.V1. A reply whose form in RESP3 is not known is replaced by an error that names the command.

// A spoken takes a shard's reply to HELLO 3, the greeting of a connection for RESP3 clients.
type spoken struct{}

func (spoken) take(u *upstream, _ *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	u.old = err == nil && refusal != scan.NotRefused
}

// isUnknown reports whether a shard does not know the command that it has answered with p.
func isUnknown(p []byte) bool {
	return p[0] == '-' && strings.HasPrefix(errorOf(p).Text, "unknown command")
}

// shapeOf returns the shape of the reply to the oldest call of u. known: there is one.
func (u *upstream) shapeOf(c *call) (shape *resp3.Shape, known bool) {
	rows := u.w.p.table().Rows()
	if c.row == 0 || int(c.row) > len(rows) {
		return nil, false
	}
	return resp3.Of(rows[c.row-1].Name, firstWords(u.request(), math.MaxInt))
}

// isPlain reports whether p begins a reply to the oldest call that is the same in RESP3: a long string.
func (u *upstream) isPlain(c *call, p []byte) bool {
	if p[0] != '$' {
		return false
	}
	header, _, _ := bytes.Cut(p[1:], []byte("\r\n"))
	if n, err := strconv.Atoi(string(header)); err != nil || n < requestLong { // a null, or it may be a double
		return false
	}
	shape, known := u.shapeOf(c)
	return known && shape == nil
}

// inRESP3 returns the RESP3 form of p, the reply to the oldest call.
func (u *upstream) inRESP3(c *call, p []byte) []byte {
	shape, known := u.shapeOf(c)
	if known {
		if formed, err := shape.Append(nil, p); err == nil {
			return formed
		}
	}
	name := ""
	if rows := u.w.p.table().Rows(); int(c.row) <= len(rows) {
		name = rows[c.row-1].Name
	}
	return errorReply(errNoForm(u.at, name))
}

// inRESP3 returns the RESP3 form of p, the reply to EXEC.
func (t *transaction) inRESP3(u *upstream, p []byte) []byte {
	parts := make([]*resp3.Shape, len(t.requests))
	for i := range t.requests {
		r, known := &t.requests[i], false
		if parts[i], known = resp3.Of(r.row.Name, firstWords(r.raw, math.MaxInt)); !known {
			return errorReply(errNoForm(u.at, r.row.Name))
		}
	}
	formed, err := resp3.Transaction(parts).Append(nil, p)
	if err != nil {
		return errorReply(errNoForm(u.at, "exec"))
	}
	return formed
}

func errorReply(err *protocol.Error) []byte {
	var r protocol.Reply
	r.Error(err)
	return r.B
}
