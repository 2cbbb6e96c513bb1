package introspect

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/internal/info"
)

// These sections show other packages' figures. server/wire.go provides the figures. The fields' names are here.

// ServerFacts are the process's values in INFO server. Strings never change.
type ServerFacts struct {
	RedisVersion                func() string // that clients are told
	Version                     string        // our own
	GitSHA                      string
	GitDirty                    bool
	BuildID, Mode, Multiplexing string
	Compiler, Supervised, RunID string
	Executable, ConfigFile      string
	ProcessID                   int
	Port                        func() int64
	Zone                        func() string // availability-zone
	Uptime                      func() time.Duration
	Loops                       func() (n int, set bool, why string) // event loops that serve; io-threads is set
	Listeners                   func(w *info.Writer)
	ShutdownInMs                func() (left int64, waiting bool)
	Hz                          func() int64
	StartedMs                   int64
	LRUClock                    func() int64
}

func ServerSection(f ServerFacts) info.Section {
	c := info.Constant
	fields := []info.Field{
		info.Text("redis_version", f.RedisVersion), c("server_name", "spindle"), c("server_mode", f.Mode),
		c("spindle_version", f.Version), c("redis_git_sha1", orZero(f.GitSHA)),
		info.Bool("redis_git_dirty", func() bool { return f.GitDirty }), c("redis_build_id", orZero(f.BuildID)),
		c("os", systemName()), c("executable", f.Executable), c("config_file", f.ConfigFile),
		c("process_id", strconv.Itoa(f.ProcessID)), c("run_id", f.RunID),
		info.Int("server_time_usec", func() int64 { return time.Now().UnixMicro() }),
	}
	for _, o := range []struct{ name, value string }{
		{"redis_mode", f.Mode}, {"multiplexing_api", f.Multiplexing}, {"process_supervised", f.Supervised},
		{"gcc_version", f.Compiler},
	} {
		if o.value != "" {
			fields = append(fields, c(o.name, o.value))
		}
	}
	if f.Port != nil {
		fields = append(fields, info.Int("tcp_port", f.Port))
	}
	if f.Uptime != nil {
		fields = append(fields,
			info.Int("uptime_in_seconds", func() int64 { return int64(f.Uptime() / time.Second) }),
			info.Int("uptime_in_days", func() int64 { return int64(f.Uptime() / (24 * time.Hour)) }))
	}
	if f.LRUClock == nil {
		f.LRUClock = func() int64 { return time.Now().Unix() & (1<<24 - 1) }
	}
	fields = append(fields, info.Int("lru_clock", f.LRUClock))
	if f.Hz != nil {
		fields = append(fields, info.Int("hz", f.Hz), info.Int("configured_hz", f.Hz))
	}
	if f.Loops != nil {
		fields = append(fields, loopFields(f.Loops)...)
	}
	if f.Zone != nil {
		fields = append(fields, info.Text("availability_zone", f.Zone))
	}
	if f.Listeners != nil {
		fields = append(fields, info.Lines("listener0", f.Listeners))
	}
	if f.ShutdownInMs != nil {
		fields = append(fields, info.Lines("shutdown_in_milliseconds", func(w *info.Writer) {
			if left, waiting := f.ShutdownInMs(); waiting {
				w.Int("shutdown_in_milliseconds", left)
			}
		}))
	}
	return info.Section{Name: "Server", Fields: fields}
}

// loopFields are the fields about event loops.
func loopFields(loops func() (n int, set bool, why string)) []info.Field {
	return []info.Field{
		info.Bool("io_threads_active", func() bool { n, _, _ := loops(); return n > 1 }),
		info.Int("io_threads_count", func() int64 { n, _, _ := loops(); return int64(n) }),
		info.Text("io_threads_choice", func() string {
			if _, set, _ := loops(); set {
				return "set"
			}
			return "automatic"
		}),
		info.Text("io_threads_reason", func() string { _, _, why := loops(); return why }),
	}
}

func orZero(s string) string {
	if s == "" {
		return "00000000"
	}
	return s
}

// systemName returns a text such as "Linux 6.1.0 x86_64".
func systemName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

// ClientFacts are the values of INFO clients. If a function is nil, INFO shows the layout's default.
type ClientFacts struct {
	Registry     *client.Registry
	Max          func() int64
	Blocked      func() int64
	Waiting      func() (deadlines int64)     // blocked clients with a timeout
	BlockingKeys func() (keys, missing int64) // total_blocking_keys, …_on_nokey
	Watching     func() (clients, keys int64) // watching_clients, total_watched_keys
	Recent       func() (input, output int64) // largest recent buffers
	Pausing      func() (reason string, all bool, leftMs int64)
}

func ClientsSection(f ClientFacts) info.Section {
	fields := []info.Field{info.Int("connected_clients", func() int64 {
		n := int64(f.Registry.Len())
		for cl := range f.Registry.All {
			if cl.Is(client.Replica) && !cl.Is(client.Monitor) {
				n--
			}
		}
		return n
	}), info.Int("pubsub_clients", func() (n int64) {
		for cl := range f.Registry.All {
			if cl.Is(client.PubSub) {
				n++
			}
		}
		return n
	})}
	if f.Max != nil {
		fields = append(fields, info.Int("maxclients", f.Max))
	}
	if f.Blocked != nil {
		fields = append(fields, info.Int("blocked_clients", f.Blocked))
	}
	if f.Waiting != nil {
		fields = append(fields, info.Int("clients_in_timeout_table", f.Waiting))
	}
	if f.BlockingKeys != nil {
		fields = append(fields,
			info.Int("total_blocking_keys", func() int64 { n, _ := f.BlockingKeys(); return n }),
			info.Int("total_blocking_keys_on_nokey", func() int64 { _, n := f.BlockingKeys(); return n }))
	}
	if f.Watching == nil {
		f.Watching = func() (clients, keys int64) {
			for cl := range f.Registry.All {
				if len(cl.Watched) > 0 {
					clients, keys = clients+1, keys+int64(len(cl.Watched))
				}
			}
			return clients, keys
		}
	}
	fields = append(fields,
		info.Int("watching_clients", func() int64 { n, _ := f.Watching(); return n }),
		info.Int("total_watched_keys", func() int64 { _, n := f.Watching(); return n }))
	if f.Pausing != nil {
		fields = append(fields, info.Lines("paused_reason", func(w *info.Writer) {
			reason, all, left := f.Pausing()
			actions := "write"
			switch {
			case reason == "none":
				actions = reason
			case all:
				actions = "all"
			}
			w.Text("paused_reason", reason)
			w.Text("paused_actions", actions)
			w.Int("paused_timeout_milliseconds", left)
		}))
	}
	if f.Recent != nil {
		fields = append(fields,
			info.Int("client_recent_max_input_buffer", func() int64 { n, _ := f.Recent(); return n }),
			info.Int("client_recent_max_output_buffer", func() int64 { _, n := f.Recent(); return n }))
	}
	return info.Section{Name: "Clients", Fields: fields}
}

// Counters are the counts of the core and the loops since the start or CONFIG RESETSTAT.
type Counters struct {
	Connections, Refused, Commands    uint64
	OpsPerSecond                      float64
	InputBytes, OutputBytes           uint64
	InputPerSecond, OutputPerSecond   float64 // bytes
	Reads, Writes                     uint64
	ThreadedReads, ThreadedWrites     uint64 // on loops beyond the first
	QueryLimitHits, OutputLimitHits   uint64
	ErrorReplies, UnexpectedErrors    uint64
	Turns                             uint64
	TurnTime, CommandTime             time.Duration
	TurnsPerSecond                    float64
	TurnMean                          time.Duration // of the recent turns
	LongestTurn, LongestTurnCPU       time.Duration // wall time, and the thread's CPU time while measure-turn-cpu is set
	LongTurns                         []LongTurn    // both times of the turns with the most CPU time, the longest first
	MostCommandsPerTurn               uint64
	Combined                          uint64 // batches that one loop has run for another
	DutyTime                          time.Duration
	DeniedAuth, DeniedCommands        uint64
	DeniedKeys, DeniedChannels        uint64
	DeniedDatabases                   uint64
	DeniedCertificates                uint64
	EvictedClients                    uint64
	EvictionTime, CurrentEvictionTime time.Duration
	ExpireTime                        time.Duration
}

// LongTurn is a turn's start, in Unix µs, and its duration.
type LongTurn struct {
	Began     int64
	Wall, CPU time.Duration
}

// longTurns writes INFO's line of long turns, unless there are none.
func longTurns(w *info.Writer, turns []LongTurn) {
	if len(turns) == 0 {
		return
	}
	w.B = append(w.B, "long_turns:"...)
	for i, t := range turns {
		if i > 0 {
			w.B = append(w.B, ';')
		}
		w.B = strconv.AppendInt(append(w.B, "began="...), t.Began, 10)
		w.B = strconv.AppendInt(append(w.B, ",usec="...), t.Wall.Microseconds(), 10)
		w.B = strconv.AppendInt(append(w.B, ",cpu_usec="...), t.CPU.Microseconds(), 10)
	}
	w.B = append(w.B, "\r\n"...)
}

func DebugSection(read func() Counters) info.Section {
	var n Counters
	first := info.Int("eventloop_duration_cron_sum", func() int64 {
		n = read()
		return n.DutyTime.Microseconds()
	})
	return info.Section{Name: "Debug", Fields: []info.Field{
		first, // read first: the fields below use its counters
		info.Int("eventloop_duration_max", func() int64 { return n.LongestTurn.Microseconds() }),
		info.Uint("eventloop_cmd_per_cycle_max", func() uint64 { return n.MostCommandsPerTurn }),
	}}
}

// StatsSection returns the part of INFO stats from the core and the loops. read is called once per report.
func StatsSection(read func() Counters) info.Section {
	var n Counters
	first := info.Lines("total_connections_received", func(w *info.Writer) {
		n = read()
		w.Int("total_connections_received", int64(n.Connections))
	})
	count := func(name string, at *uint64) info.Field { return info.Uint(name, func() uint64 { return *at }) }
	micros := func(name string, at *time.Duration) info.Field {
		return info.Int(name, func() int64 { return at.Microseconds() })
	}
	millis := func(name string, at *time.Duration) info.Field {
		return info.Int(name, func() int64 { return at.Milliseconds() })
	}
	kilo := func(name string, at *float64) info.Field {
		return info.Float(name, 2, func() float64 { return *at / 1024 })
	}
	whole := func(name string, at *float64) info.Field { return info.Int(name, func() int64 { return int64(*at) }) }
	return info.Section{Name: "Stats", Fields: []info.Field{
		first, // first in the layout: the fields below use its counters
		count("total_commands_processed", &n.Commands), whole("instantaneous_ops_per_sec", &n.OpsPerSecond),
		count("total_net_input_bytes", &n.InputBytes), count("total_net_output_bytes", &n.OutputBytes),
		kilo("instantaneous_input_kbps", &n.InputPerSecond), kilo("instantaneous_output_kbps", &n.OutputPerSecond),
		count("rejected_connections", &n.Refused),
		count("total_reads_processed", &n.Reads), count("total_writes_processed", &n.Writes),
		count("io_threaded_reads_processed", &n.ThreadedReads), count("io_threaded_writes_processed", &n.ThreadedWrites),
		count("client_query_buffer_limit_disconnections", &n.QueryLimitHits),
		count("client_output_buffer_limit_disconnections", &n.OutputLimitHits),
		count("total_error_replies", &n.ErrorReplies), count("unexpected_error_replies", &n.UnexpectedErrors),
		count("eventloop_cycles", &n.Turns), micros("eventloop_duration_sum", &n.TurnTime),
		micros("eventloop_duration_cmd_sum", &n.CommandTime),
		whole("instantaneous_eventloop_cycles_per_sec", &n.TurnsPerSecond),
		micros("instantaneous_eventloop_duration_usec", &n.TurnMean),
		count("acl_access_denied_auth", &n.DeniedAuth), count("acl_access_denied_cmd", &n.DeniedCommands),
		count("acl_access_denied_key", &n.DeniedKeys), count("acl_access_denied_channel", &n.DeniedChannels),
		count("acl_access_denied_tls_cert", &n.DeniedCertificates), count("acl_access_denied_db", &n.DeniedDatabases),
		count("evicted_clients", &n.EvictedClients),
		millis("total_eviction_exceeded_time", &n.EvictionTime),
		millis("current_eviction_exceeded_time", &n.CurrentEvictionTime),
		millis("expire_cycle_cpu_milliseconds", &n.ExpireTime),
		// Our own fields follow those of Redis.
		micros("longest_turn_usec", &n.LongestTurn), micros("longest_turn_cpu_usec", &n.LongestTurnCPU),
		count("most_commands_per_turn", &n.MostCommandsPerTurn),
		info.Int("turn_nsec_per_command", func() int64 { return n.CommandTime.Nanoseconds() / max(int64(n.Commands), 1) }),
		count("batches_run_for_other_loops", &n.Combined),
		info.Lines("long_turns", func(w *info.Writer) { longTurns(w, n.LongTurns) }),
		micros("duties_duration_sum", &n.DutyTime),
	}}
}

// KeyspaceSections returns INFO keyspace and the keyspace's fields of INFO stats.
func KeyspaceSections(k *keyspace.Keyspace) []info.Section {
	lag := func(name string, pick func(keyspace.Lag) int64) info.Field {
		return info.Int(name, func() int64 { return pick(k.Lag()) })
	}
	return []info.Section{
		SizesSection(k),
		{Name: "Keyspace", Fields: []info.Field{info.Lines("db0", func(w *info.Writer) {
			for i := range k.Len() {
				db := k.DB(i)
				if db.Len() == 0 {
					continue
				}
				b := append(w.B, "db"...)
				b = append(strconv.AppendInt(b, int64(i), 10), ":keys="...)
				b = append(strconv.AppendInt(b, int64(db.Len()), 10), ",expires="...)
				b = append(strconv.AppendInt(b, int64(db.Volatile()), 10), ",avg_ttl="...)
				b = append(strconv.AppendInt(b, db.AvgTTL(), 10), ",subexpiry="...)
				b = append(strconv.AppendInt(b, int64(db.HashesWithDeadlines()), 10), "\r\n"...)
				w.B = b
			}
		})}},
		{Name: "Stats", Fields: []info.Field{
			info.Int("keyspace_hits", func() int64 { return k.Stats.Hits }),
			info.Int("keyspace_misses", func() int64 { return k.Stats.Misses }),
			info.Int("expired_subkeys", func() int64 { return k.Stats.ExpiredFields }),
			info.Int("expired_fields", func() int64 { return k.Stats.ExpiredFields }), // the same in Valkey's words
			info.Int("expired_keys", func() int64 { return k.Stats.Expired }),
			info.Int("expired_subkeys_active", func() int64 { return k.Stats.FieldsByCycle }),
			info.Int("expired_keys_active", func() int64 { return k.Stats.KeysByCycle }),
			info.Int("evicted_keys", func() int64 { return k.Stats.Evicted }),
			info.Int("expired_time_cap_reached_count", func() int64 { return k.Stats.TimeCapReached }),
			lag("expired_lag_p50_ms", func(l keyspace.Lag) int64 { return l.P50 }),
			lag("expired_lag_p99_ms", func(l keyspace.Lag) int64 { return l.P99 }),
			lag("expired_lag_max_ms", func(l keyspace.Lag) int64 { return l.Max }),
		}},
	}
}

// CPUSection returns INFO cpu: CPU seconds of the process, of ended children, and of the thread that runs the turn.
// turns returns the total time of all turns.
func CPUSection(turns func() time.Duration) info.Section {
	seconds := func(name string, who int, pick func(*unix.Rusage) unix.Timeval) info.Field {
		return info.Float(name, 6, func() float64 {
			var u unix.Rusage
			if unix.Getrusage(who, &u) != nil {
				return 0
			}
			t := pick(&u)
			return float64(t.Sec) + float64(t.Usec)/1e6
		})
	}
	system := func(u *unix.Rusage) unix.Timeval { return u.Stime }
	user := func(u *unix.Rusage) unix.Timeval { return u.Utime }
	return info.Section{Name: "CPU", Fields: []info.Field{
		seconds("used_cpu_sys", unix.RUSAGE_SELF, system), seconds("used_cpu_user", unix.RUSAGE_SELF, user),
		seconds("used_cpu_sys_children", unix.RUSAGE_CHILDREN, system),
		seconds("used_cpu_user_children", unix.RUSAGE_CHILDREN, user),
		seconds("used_cpu_sys_main_thread", unix.RUSAGE_THREAD, system),
		seconds("used_cpu_user_main_thread", unix.RUSAGE_THREAD, user),
		info.Float("used_active_time_main_thread", 6, func() float64 { return turns().Seconds() }),
	}}
}

func CommandSections(catalogue func() *command.Catalogue, percentiles func() []float64) []info.Section {
	return []info.Section{
		{Name: "Commandstats", Fields: []info.Field{info.Lines("cmdstat", func(w *info.Writer) {
			for _, row := range catalogue().All() {
				appendCommandStats(w, row)
			}
		})}},
		{Name: "Latencystats", Fields: []info.Field{info.Lines("latency_percentiles", func(w *info.Writer) {
			for _, row := range catalogue().All() {
				appendLatencyStats(w, row, percentiles())
			}
		})}},
	}
}

// appendCommandStats writes "cmdstat_get:calls=1,usec=4,usec_per_call=4.00,rejected_calls=0,failed_calls=0".
func appendCommandStats(w *info.Writer, row *command.Spec) {
	s := &row.Stats
	if s.Calls|s.Rejected|s.Failed == 0 {
		return
	}
	micros := s.Nanos / 1000
	perCall := 0.0
	if s.Calls > 0 {
		// The value is computed from the rounded micros, with as many bits as in Redis.
		perCall = float64(float32(micros) / float32(s.Calls))
	}
	b := append(append(w.B, "cmdstat_"...), row.Full...)
	b = strconv.AppendUint(append(b, ":calls="...), s.Calls, 10)
	b = strconv.AppendUint(append(b, ",usec="...), micros, 10)
	b = strconv.AppendFloat(append(b, ",usec_per_call="...), perCall, 'f', 2, 64)
	b = strconv.AppendUint(append(b, ",rejected_calls="...), s.Rejected, 10)
	b = strconv.AppendUint(append(b, ",failed_calls="...), s.Failed, 10)
	w.B = append(b, '\r', '\n')
}

// appendLatencyStats writes "latency_percentiles_usec_get:p50=4.015,p99=4.015,p99.9=4.015".
func appendLatencyStats(w *info.Writer, row *command.Spec, percentiles []float64) {
	h := &row.Stats.Latency
	if h.Total == 0 || row.Stats.Untracked {
		return
	}
	b := append(append(w.B, "latency_percentiles_usec_"...), row.Full...)
	b = append(b, ':')
	for i, p := range percentiles {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(append(b, 'p'), p, 'f', -1, 64)
		b = strconv.AppendFloat(append(b, '='), float64(h.Percentile(p))/1000, 'f', 3, 64)
	}
	w.B = append(b, '\r', '\n')
}

// ErrorsSection returns INFO errorstats: the number of replies with each error code, sorted by code.
func ErrorsSection(counts func(yield func(code string, n uint64) bool)) info.Section {
	return info.Section{Name: "Errorstats", Fields: []info.Field{info.Lines("errorstat", func(w *info.Writer) {
		for code, n := range counts {
			b := append(append(w.B, "errorstat_"...), code...)
			w.B = append(strconv.AppendUint(append(b, ":count="...), n, 10), '\r', '\n')
		}
	})}}
}
