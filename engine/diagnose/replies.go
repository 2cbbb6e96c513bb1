package diagnose

import (
	"strconv"
	"time"

	"spindle/internal/histogram"
	"spindle/internal/info"
)

// A commandLatency is how long the replies of a command took, from reading the request to writing the reply.
type commandLatency struct {
	Command string
	histogram.H
}

// replyLatency returns the figures of the commands that have run, in the order of COMMAND. Any goroutine may call it.
func (d *Deps) replyLatency() (list []commandLatency) {
	catalogue := d.Catalogue()
	names := make([]string, catalogue.IDs())
	for _, row := range catalogue.All() {
		names[row.ID] = row.Full
	}
	for row, h := range d.Replies {
		list = append(list, commandLatency{names[row], *h})
	}
	return list
}

// replySection is INFO replylatency, such as "reply_usec_get:calls=3,mean=21.3,p50=18.4,p99=33.0,p99.9=33.0,max=33.0".
func (d *Deps) replySection() info.Section {
	return info.Section{Name: "Replylatency", Fields: []info.Field{info.Lines("reply_usec", func(w *info.Writer) {
		for _, c := range d.replyLatency() {
			b := append(append(w.B, "reply_usec_"...), c.Command...)
			b = strconv.AppendUint(append(b, ":calls="...), c.Total, 10)
			for _, f := range []struct {
				name string
				d    time.Duration
			}{{"mean", c.Sum / time.Duration(max(c.Total, 1))}, {"p50", c.Percentile(50)}, {"p99", c.Percentile(99)},
				{"p99.9", c.Percentile(99.9)}, {"max", c.Max}} {
				b = append(append(append(b, ','), f.name...), '=')
				b = strconv.AppendFloat(b, float64(f.d)/1e3, 'f', 1, 64)
			}
			w.B = append(b, '\r', '\n')
		}
	})}}
}
