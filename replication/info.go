package replication

import (
	"strconv"
	"strings"

	"spindle/internal/info"
	"spindle/replication/segments"
)

// Sections returns INFO replication, and replication's share of INFO stats. Turn only.
func (e *Ends) Sections() []info.Section {
	f := e.feed
	return []info.Section{
		{Name: "Replication", Fields: []info.Field{
			info.Text("role", func() string {
				if f.following {
					return "slave"
				}
				return "master"
			}),
			info.Lines("master_host", func(w *info.Writer) {
				if f.following {
					followerLines(w, e.follower)
				}
			}),
			info.Int("connected_slaves", func() int64 { return int64(len(f.replicas)) }),
			info.Lines("min_slaves_good_slaves", func(w *info.Writer) {
				if f.WantsReplicas() {
					w.Int("min_slaves_good_slaves", f.goodReplicas())
				}
			}),
			info.Lines("ack_state", func(w *info.Writer) { f.acks.lines(w) }),
			info.Lines("ack_replicas_known", func(w *info.Writer) { quorumLines(w, f) }),
			info.Lines("slave0", func(w *info.Writer) { replicaLines(w, f) }),
			info.Text("master_failover_state", func() string { return e.failover.stage.String() }),
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
			info.Lines("repl_backlog_histlen", func(w *info.Writer) {
				length := int64(0)
				if f.log != nil {
					f.flush()
					length = f.log.length
				}
				w.Int("repl_backlog_histlen", length)
				spoolLines(w, f.spool)
			}),
		}},
		{Name: "Throttling", Fields: []info.Field{
			info.Lines("total_throttled_commands", f.throttle.lines),
		}},
		{Name: "Debug", Fields: []info.Field{info.Lines("repl_throttle_more_events", f.throttle.debugLines)}},
		{Name: "Stats", Fields: []info.Field{
			info.Int("slave_expires_tracked_keys", func() int64 { return int64(f.core.OwnKeys()) }),
			info.Uint("sync_full", func() uint64 { return f.fullSyncs }),
			info.Uint("sync_partial_ok", func() uint64 { return f.continued }),
			info.Uint("sync_partial_err", func() uint64 { return f.refused }),
			info.Int("total_net_repl_input_bytes", func() int64 { return e.follower.inputBytes() }),
			info.Uint("total_net_repl_output_bytes", f.written),
			info.Float("instantaneous_input_repl_kbps", 2, func() float64 { return e.follower.rate.PerSecond() / 1024 }),
			info.Float("instantaneous_output_repl_kbps", 2, func() float64 { return f.sentRate.PerSecond() / 1024 }),
		}},
	}
}

// spoolLines writes the fields of the part on disk, if the settings allow one.
func spoolLines(w *info.Writer, s *spool) {
	size := s.settings.DiskSize.Get()
	if size == 0 {
		return
	}
	var f segments.Figures
	first := int64(0)
	if s.on() {
		f = s.log.Figures()
		first = f.Begin + 1
	}
	w.Int("repl_backlog_disk_active", number(s.on()))
	w.Int("repl_backlog_disk_size", size)
	w.Int("repl_backlog_disk_first_byte_offset", first)
	w.Int("repl_backlog_disk_histlen", f.End-f.Begin)
	w.Int("repl_backlog_disk_file_bytes", f.InFiles)
	w.Int("repl_backlog_disk_queued_bytes", f.Queued)
	w.Int("repl_backlog_disk_failures", int64(s.failures))
}

// replicaLines writes the fields slave0, slave1, …
func replicaLines(w *info.Writer, f *Feed) {
	for i, r := range f.replicas {
		lag := (f.core.SteadyMs() - r.ackMs) / 1000
		if r.state != online {
			lag = 0
		}
		w.Text("slave"+strconv.Itoa(i), "ip="+r.host()+",port="+strconv.Itoa(r.port)+",state="+stateOf(r)+
			",offset="+strconv.FormatInt(r.ackOffset, 10)+",lag="+strconv.FormatInt(lag, 10))
	}
}

// stateOf returns INFO's word for the state of r. A stream with an EOF mark is encoded while it is sent. Redis shows
// that as a save.
func stateOf(r *replica) string {
	if r.state == sending && r.eof {
		return waiting.String()
	}
	return r.state.String()
}

// ResetStats is replication's share of CONFIG RESETSTAT.
func (e *Ends) ResetStats() {
	e.feed.fullSyncs, e.feed.continued, e.feed.refused = 0, 0, 0
	e.feed.resetSums()
	e.feed.most = 0
	e.follower.resetStats()
}

// followerLines writes INFO replication of a replica.
func followerLines(w *info.Writer, f *Follower) {
	now := f.core.SteadyMs()
	heard, read := int64(-1), f.feed.offset
	if up := f.wire; up != nil {
		if f.link.Up() {
			heard = (now - up.heard.Load()) / 1000
			read = f.feed.offset + up.unapplied.Load()
		}
	}
	status := "down"
	if f.link.Up() {
		status = "up"
	}
	syncing := f.link.state == receiving
	w.Text("master_host", f.link.Host)
	w.Int("master_port", int64(f.link.Port))
	w.Text("master_link_status", status)
	w.Int("master_last_io_seconds_ago", max(heard, -1))
	w.Int("master_sync_in_progress", number(syncing))
	w.Int("slave_read_repl_offset", read)
	w.Int("slave_repl_offset", f.feed.offset)
	if syncing {
		copied := f.copied.Load()
		w.Int("master_sync_total_bytes", f.size)
		w.Int("master_sync_read_bytes", copied)
		w.Int("master_sync_left_bytes", f.size-copied)
		percent := 0.0
		if f.size > 0 {
			percent = float64(copied) / float64(f.size) * 100
		}
		w.Float("master_sync_perc", percent, 2)
		w.Int("master_sync_last_io_seconds_ago", max(0, now-f.link.since)/1000)
	}
	w.Int("master_current_sync_attempts", f.link.tries)
	w.Int("master_total_sync_attempts", f.link.allTries)
	if f.link.Up() {
		w.Int("master_link_up_since_seconds", (now-f.link.upSinceMs)/1000)
	}
	w.Int("total_disconnect_time_sec", f.link.LostMs(now)/1000)
	if !f.link.Up() {
		down := int64(-1)
		if f.link.downSinceMs != 0 {
			down = (now - f.link.downSinceMs) / 1000
		}
		w.Int("master_link_down_since_seconds", down)
		if f.link.why != "" {
			w.Text("master_link_down_reason", strings.Join(strings.Fields(f.link.why), " "))
		}
	}
	w.Int("slave_priority", f.settings.Priority.Get())
	w.Int("slave_read_only", number(f.settings.ReadOnly.Get()))
	w.Int("replica_announced", number(f.settings.Announced.Get()))
}
