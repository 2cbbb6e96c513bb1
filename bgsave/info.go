package bgsave

import (
	"os"
	"time"

	"spindle/internal/info"
)

var pid = os.Getpid()

// Sections returns INFO's fields about saving and loading. They are read in turns.
func (s *Scheduler) Sections(l *Loading) []info.Section {
	progress := func(f func(p *Progress) int64) func() int64 {
		return func() int64 {
			if s.job == nil {
				return 0
			}
			return f(&s.job.progress)
		}
	}
	retained := func() int64 {
		if s.job == nil || s.parts.Retained == nil {
			return 0
		}
		return s.parts.Retained()
	}
	return []info.Section{
		{Name: "Persistence", Fields: []info.Field{
			info.Bool("loading", func() bool { return l.Active.Load() && !l.ServesOld.Load() }),
			info.Bool("async_loading", l.ServesOld.Load),
			info.Int("current_cow_peak", func() int64 { s.watch(); return s.currentPeak() }),
			info.Int("current_cow_size", retained),
			info.Constant("current_cow_size_age", "0"), // it is computed when it is read
			info.Float("current_fork_perc", 2, func() float64 {
				if s.job == nil {
					return 0
				}
				keys, total := s.job.progress.Keys.Load(), s.job.progress.Total.Load()
				return 100 * float64(keys) / float64(max(total, 1))
			}),
			info.Int("current_save_keys_processed", progress(func(p *Progress) int64 { return p.Keys.Load() })),
			info.Int("current_save_keys_total", progress(func(p *Progress) int64 { return p.Total.Load() })),
			info.Int("rdb_changes_since_last_save", s.Changes),
			info.Bool("rdb_bgsave_in_progress", func() bool {
				return s.InProgress() || s.parts.Streaming != nil && s.parts.Streaming()
			}),
			info.Int("rdb_last_save_time", func() int64 { return s.lastSave.Unix() }),
			info.Text("rdb_last_bgsave_status", func() string {
				if s.failed {
					return "err"
				}
				return "ok"
			}),
			info.Int("rdb_last_bgsave_time_sec", func() int64 {
				if s.lastSpan == 0 {
					return -1
				}
				return int64(s.lastSpan / time.Second)
			}),
			info.Int("rdb_current_bgsave_time_sec", func() int64 {
				if s.job == nil {
					return -1
				}
				return int64(s.parts.Now().Sub(s.job.began) / time.Second)
			}),
			info.Int("rdb_saves", func() int64 { return s.saves }),
			info.Int("rdb_last_cow_size", func() int64 { return s.lastKept }),
			info.Int("rdb_last_load_keys_expired", l.LastKeysExpired.Load),
			info.Int("rdb_last_load_keys_loaded", l.LastKeysLoaded.Load),
			info.Lines("loading_start_time", l.lines),
		}},
		{Name: "Stats", Fields: []info.Field{
			info.Int("total_forks", func() int64 {
				if s.parts.Forks == nil {
					return s.forks
				}
				return s.forks + s.parts.Forks()
			}),
		}},
	}
}

// ResetStats does this package's part of CONFIG RESETSTAT. It keeps the count of saves and resets that of forks.
func (s *Scheduler) ResetStats() { s.forks = 0 }

// Sections returns INFO's fields about payloads. They are read in turns.
func (h *Commands) Sections() []info.Section {
	return []info.Section{{Name: "Stats", Fields: []info.Field{
		info.Int("dump_payload_sanitizations", func() int64 { return h.sanitizations }),
	}}}
}

// ResetStats does the commands' part of CONFIG RESETSTAT.
func (h *Commands) ResetStats() { h.sanitizations = 0 }

func (s *Scheduler) currentPeak() int64 {
	if s.job == nil {
		return 0
	}
	return s.job.kept
}

// lines writes the fields that INFO shows only while a file is loaded.
func (l *Loading) lines(w *info.Writer) {
	if !l.Active.Load() {
		return
	}
	now := time.Now().Unix()
	start, total, read := l.StartUnix.Load(), l.Total.Load(), l.Read.Load()
	elapsed, eta, percent := now-start, int64(1), 0.0
	if total > 0 {
		percent = 100 * float64(read) / float64(total)
	}
	if elapsed > 0 && read > 0 {
		eta = elapsed * (total - read) / read
	}
	w.Int("loading_start_time", start)
	w.Int("loading_total_bytes", total)
	w.Int("loading_rdb_used_mem", l.UsedMemory.Load())
	w.Int("loading_loaded_bytes", read)
	w.Float("loading_loaded_perc", min(percent, 100), 2)
	w.Int("loading_eta_seconds", max(eta, 0))
}
