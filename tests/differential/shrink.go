package differential

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spindle/protocol/respclient"
)

// shrink removes calls as long as the remaining ones still differ (delta debugging). It removes halves first, then
// smaller parts, then single calls. It stops when no call can be removed or the time limit is reached.
func shrink[T any](calls []T, differs func([]T) bool, limit time.Duration) []T {
	deadline := time.Now().Add(limit)
	for size := (len(calls) + 1) / 2; size > 0; {
		dropped := false
		for from := 0; from < len(calls); {
			if time.Now().After(deadline) {
				return calls
			}
			rest := slices.Concat(calls[:from], calls[min(from+size, len(calls)):])
			if len(rest) > 0 && differs(rest) {
				calls, dropped = rest, true
			} else {
				from += size
			}
		}
		if size == 1 && !dropped {
			break
		}
		if !dropped || size > len(calls) {
			size = max(1, size/2)
		}
	}
	return calls
}

// replay plays calls on emptied servers and returns their difference, or nil.
func (p *pair) replay(calls []call) (*difference, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	if d := p.playAll(calls, 100); d != nil {
		return d, nil
	}
	what, err := p.sameState(nil)
	if err != nil || what == "" {
		return nil, err
	}
	return &difference{at: len(calls), what: what}, nil
}

// explain shrinks the calls that led to a difference and returns them as a transcript. If the difference does not occur
// again, explain reports that: then it depends on time, or on how the batches were split.
func (p *pair) explain(calls []call, d *difference) string {
	if d.lost {
		return fmt.Sprintf("the connection broke at %.300s\n%s", d.call.text(), d.what)
	}
	differs := func(calls []call) bool {
		again, err := p.replay(calls)
		return err == nil && again != nil && !again.lost && again.kind() == d.kind()
	}
	if !differs(calls) {
		return fmt.Sprintf("%s\n%.1000s\nand does not come again when its round is replayed",
			d.what, calls[len(calls)-1].text())
	}
	calls = shrink(calls, differs, time.Minute)
	again, err := p.replay(calls)
	if err != nil || again == nil {
		return fmt.Sprintf("%s\nand comes again only at times (%v):\n%s", d.what, err, p.transcript(calls))
	}
	return again.what + "\n" + p.transcript(calls)
}

// transcript returns calls with redis-server's replies, in the format of tests/transcripts. There the recorder records
// the replies in both protocols; these are in one protocol.
func (p *pair) transcript(calls []call) string {
	var b strings.Builder
	if err := p.reset(); err != nil {
		return err.Error()
	}
	for i := range calls {
		c := &calls[i]
		if c.conn > 0 {
			fmt.Fprint(&b, c.conn+1)
		}
		fmt.Fprintf(&b, "> %s\n", c.text())
		l := p.reference.links[c.conn]
		if err := l.exchange(c.appendTo(nil), nil, 1); err != nil {
			return b.String() + err.Error()
		}
		writeReply(&b, parse(l.reply(0)))
	}
	return b.String()
}

// writeReply writes the lines of a reply.
func writeReply(b *strings.Builder, v respclient.Value) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "< "+format+"\n", args...) }
	switch {
	case v.Null && v.Kind == '_':
		line("_")
	case v.Null:
		line("%c-1", v.Kind)
	case v.Kind == ':':
		line(":%d", v.Int)
	case v.Kind == '#':
		line("#%c", "ft"[v.Int])
	case v.Kind == '$':
		line("$%d", len(v.Text))
		line("%s", word(v.Text))
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '%' || v.Kind == '>':
		n := len(v.Elems)
		if v.Kind == '%' {
			n /= 2
		}
		line("%c%d", v.Kind, n)
		for _, e := range v.Elems {
			writeReply(b, e)
		}
	default:
		line("%c%s", v.Kind, v.Text)
	}
}
