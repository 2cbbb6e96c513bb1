package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestBar: a terminal gets a bar, which is redrawn in place and cleared at the end. Other outputs get none.
func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(process{err: &out, terminal: true})
	b.at(1, 100)
	if out.Len() > 0 {
		t.Errorf("%q is drawn for a short run", out.String())
	}
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{25, 100, "\r[" + strings.Repeat("#", 10) + strings.Repeat(" ", 30) + "]  25%"},
		{200, 100, "\r[" + strings.Repeat("#", 40) + "] 100%"},
	} {
		out.Reset()
		b.next = time.Time{}
		if b.at(c.done, c.total); out.String() != c.want {
			t.Errorf("%d of %d: %q", c.done, c.total, out.String())
		}
	}
	out.Reset()
	if b.end(); strings.Trim(out.String(), " \r") != "" || out.Len() < 40 {
		t.Errorf("the end is %q", out.String())
	}
	none := newBar(process{err: &out})
	out.Reset()
	none.at(1, 2)
	if none.end(); none != nil || out.Len() > 0 {
		t.Errorf("%q without a terminal", out.String())
	}
}
