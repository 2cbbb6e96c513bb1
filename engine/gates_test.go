package engine

import (
	"fmt"
	"strings"
	"testing"
)

// gatesTable has a letter where a gate decides about calls of an origin. Different letters of one gate mean different
// functions.
const gatesTable = `
                        client primary exec script log guest unblocked returning
a log holds data only        .       .    .      .   A     .         .         .
a guest reads only           .       .    .      .   .     A         .         .
not for scripts              .       .    .      A   .     .         .         .
enable-debug-command         A       A    .      .   .     A         .         .
a password                   A       .    .      .   .     .         .         .
not in MULTI                 A       A    .      .   .     .         .         .
the user's rights            A       .    B      C   .     A         A         A
the slots                    A       .    .      .   .     A         .         B
a read-only script           .       .    .      A   .     .         .         .
run before                   .       .    .      A   .     .         .         .
the barriers                 A       A    .      B   .     A         C         D
memory of a script           .       .    .      A   .     .         .         .
the slots of a script        .       .    .      A   .     .         .         .
subscribed                   A       A    .      .   .     .         .         .
busy                         A       B    .      .   .     C         .         .
a fed stream                 A       A    .      .   .     .         .         .
a pause                      A       A    .      .   .     .         B         .
the throttle                 A       .    .      .   .     .         .         .
MULTI queues                 A       A    .      .   .     .         .         .
a latch                      A       .    .      B   .     .         C         D
a guest reads little         .       .    .      .   .     A         .         .
`

// TestGates: the gates in use are those of the table above.
func TestGates(t *testing.T) {
	names := []string{"client", "primary", "exec", "script", "log", "guest", "unblocked", "returning"}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-23s %s\n", "", strings.Join(names, " "))
	for _, g := range gates {
		fmt.Fprintf(&b, "%-23s", g.name)
		seen := map[string]string{}
		for from, f := range g.asks {
			mark := "."
			if f != nil {
				is := fmt.Sprintf("%p", f)
				if seen[is] == "" {
					seen[is] = string(rune('A' + len(seen)))
				}
				mark = seen[is]
			}
			fmt.Fprintf(&b, " %*s", len(names[from]), mark)
		}
		b.WriteByte('\n')
	}
	if got := b.String(); got != gatesTable {
		t.Errorf("the gates are %s", got)
	}
}
