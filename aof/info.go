package aof

import (
	"time"

	"spindle/internal/info"
)

// Sections returns INFO's figures of the log. Turn only.
func (l *Log) Sections() []info.Section {
	seconds := func(f func() (time.Duration, bool)) func() int64 {
		return func() int64 {
			if d, ok := f(); ok {
				return int64(d / time.Second)
			}
			return -1
		}
	}
	status := func(bad func() bool) func() string {
		return func() string {
			if bad() {
				return "err"
			}
			return "ok"
		}
	}
	return []info.Section{
		{Name: "Persistence", Fields: []info.Field{
			info.Bool("aof_enabled", l.On),
			info.Bool("aof_rewrite_in_progress", l.Rewriting),
			info.Bool("aof_rewrite_scheduled", func() bool { return l.rw.scheduled }),
			info.Int("aof_last_rewrite_time_sec", seconds(func() (time.Duration, bool) { return l.rw.span, l.rw.ended })),
			info.Int("aof_current_rewrite_time_sec", seconds(func() (time.Duration, bool) {
				if l.rw.job == nil {
					return 0, false
				}
				return l.parts.Now().Sub(l.rw.job.began), true
			})),
			info.Text("aof_last_bgrewrite_status", status(func() bool { return l.rw.failed })),
			info.Int("aof_rewrites", func() int64 { return l.rw.count }),
			info.Int("aof_rewrites_consecutive_failures", func() int64 { return l.rw.failures }),
			info.Text("aof_last_write_status", status(func() bool { return l.w.refusal() != "" })),
			info.Bool("backup_in_progress", l.BackingUp),
			info.Int("aof_last_cow_size", func() int64 { return l.rw.kept }),
			info.Lines("aof_current_size", l.lines),
		}},
		{Name: "Memory", Fields: []info.Field{
			info.Int("mem_aof_buffer", l.Memory),
		}},
		{Name: "Debug", Fields: []info.Field{
			info.Int("eventloop_duration_aof_sum", func() int64 { return l.w.spentHere() / 1000 }),
		}},
	}
}

// lines writes the figures of a log that is on.
func (l *Log) lines(w *info.Writer) {
	if l.state == off {
		return
	}
	w.Int("aof_current_size", l.size())
	w.Int("aof_base_size", l.rw.base)
	pending, syncing := int64(0), int64(0)
	if l.rw.scheduled {
		pending = 1
	}
	if l.w.isSyncing() {
		syncing = 1
	}
	w.Int("aof_pending_rewrite", pending)
	w.Int("aof_buffer_length", l.w.unwritten())
	w.Int("aof_pending_bio_fsync", syncing)
	w.Int("aof_delayed_fsync", l.delayed)
	if l.w.pastOn.Load() {
		w.Int("aof_history_size", l.w.pastSize.Load())
		w.Int("aof_history_from", l.w.pastFrom.Load()/1000)
		if l.state == on {
			w.Int("aof_history_offset", l.w.pastAt.Load()+l.w.end())
		}
	}
}

// Forks counts the rewrites, for INFO total_forks, because Redis forks for them.
func (l *Log) Forks() int64 { return l.rw.forks }

// ResetStats does the log's part of CONFIG RESETSTAT.
func (l *Log) ResetStats() { l.rw.forks, l.delayed = 0, 0 }
