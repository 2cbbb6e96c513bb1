package replication

import (
	"strconv"

	"spindle/engine"
	"spindle/internal/info"
)

// Sections are INFO replication and the feed's share of INFO stats. They are read in turns.
func (f *Feed) Sections() []info.Section {
	return []info.Section{
		{Name: "Replication", Fields: []info.Field{
			info.Constant("role", "master"),
			info.Int("connected_slaves", func() int64 { return int64(len(f.replicas)) }),
			info.Lines("min_slaves_good_slaves", func(w *info.Writer) {
				if f.WantsReplicas() {
					w.Int("min_slaves_good_slaves", f.GoodReplicas())
				}
			}),
			info.Lines("slave0", f.replicaLines),
			info.Text("master_replid", func() string { return f.ID }),
			info.Int("master_repl_offset", func() int64 { return f.offset }),
			info.Text("master_replid2", func() string { return f.ID2 }),
			info.Int("second_repl_offset", func() int64 { return f.secondOffset }),
			info.Int("repl_backlog_active", func() int64 {
				if f.log == nil {
					return 0
				}
				return 1
			}),
			info.Int("repl_backlog_size", f.settings.BacklogSize.Get),
			info.Int("repl_backlog_first_byte_offset", func() int64 {
				if f.log == nil {
					return 0
				}
				f.flush()
				return f.log.begin() + 1
			}),
			info.Int("repl_backlog_histlen", func() int64 {
				if f.log == nil {
					return 0
				}
				f.flush()
				return f.log.length
			}),
		}},
		{Name: "Stats", Fields: []info.Field{
			info.Uint("sync_full", func() uint64 { return f.fullSyncs }),
			info.Uint("sync_partial_ok", func() uint64 { return f.continued }),
			info.Uint("sync_partial_err", func() uint64 { return f.refused }),
			info.Uint("total_net_repl_output_bytes", f.written),
			info.Float("instantaneous_output_repl_kbps", 2, func() float64 { return f.sentRate.PerSecond() / 1024 }),
		}},
	}
}

// replicaLines are slave0, slave1, …
func (f *Feed) replicaLines(w *info.Writer) {
	for i, r := range f.replicas {
		lag := (f.core.Now() - r.ackMs) / 1000
		if r.state != online {
			lag = 0
		}
		w.Text("slave"+strconv.Itoa(i), "ip="+r.host()+",port="+strconv.Itoa(r.port)+",state="+r.state.String()+
			",offset="+strconv.FormatInt(r.ackOffset, 10)+",lag="+strconv.FormatInt(lag, 10))
	}
}

// ResetStats is CONFIG RESETSTAT's share.
func (f *Feed) ResetStats() {
	f.fullSyncs, f.continued, f.refused, f.outLimit = 0, 0, 0, 0
	f.sentBytes = 0
	f.sentRate = engine.Rate{}
	f.posted.Store(0)
	for _, r := range f.replicas {
		f.posted.Add(r.unsent()) // it is still to be written
	}
}

// written is how many bytes replicas' sockets have taken. Nobody counts them one by one: it is what loops were given, less what they still
// have. What is on its way to a loop counts as written, and never is less told than before. Turn only.
func (f *Feed) written() uint64 {
	n := f.posted.Load()
	for _, r := range f.replicas {
		n -= r.unsent()
	}
	f.sentBytes = max(f.sentBytes, n)
	return uint64(f.sentBytes)
}

// unsent is how many bytes r's loop has and the socket has not taken.
func (r *replica) unsent() int64 {
	if r.cl.Conn == nil {
		return 0
	}
	return int64(r.cl.Conn.Usage().Output)
}

// OutputLimitCloses counts the replicas that were closed because too much was held for them: their share of
// client_output_buffer_limit_disconnections. Turn only.
func (f *Feed) OutputLimitCloses() uint64 { return f.outLimit }
