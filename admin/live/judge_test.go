package live

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy returns the figures of a server without trouble. fields replace their INFO fields.
func healthy(fields ...string) Figures {
	f := Figures{AtMs: 1_000_000, Held: 50 * time.Millisecond, Info: map[string]string{
		"role": "master", "connected_slaves": "1", "master_repl_offset": "5000", "maxclients": "10000",
		"connected_clients": "3", "slave0": "ip=10.0.0.2,port=6379,state=online,offset=4990,lag=0", "maxmemory": "0",
		"used_memory": "1000000", "maxmemory_policy": "noeviction", "rdb_last_bgsave_status": "ok",
		"aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "loading": "0", "paused_timeout_milliseconds": "0",
		"master_failover_state": "no-failover", "instantaneous_ops_per_sec": "1000",
	}}
	for i := range f.Grown {
		f.Grown[i].Span = []time.Duration{5 * time.Second, time.Minute}[i]
	}
	for i := 0; i < len(fields); i += 2 {
		f.Info[fields[i]] = fields[i+1]
	}
	return f
}

// TestJudge checks each rule, with figures on both sides of its threshold.
func TestJudge(t *testing.T) {
	with := func(change func(f *Figures), fields ...string) Figures {
		f := healthy(fields...)
		change(&f)
		return f
	}
	replica := []string{"role", "slave", "connected_slaves", "0", "master_host", "10.0.0.1", "master_port", "6379",
		"master_link_status", "up", "master_last_io_seconds_ago", "1"}
	as := func(more ...string) []string { return append(slices.Clone(replica), more...) }
	limit := []string{"maxmemory", "104857600", "used_memory"}
	cluster := []string{"cluster_state", "ok", "cluster_slots_assigned", "16384"}
	evicts := func(f *Figures) { f.Grown[minute].EvictedKeys = 5000 }
	for _, c := range []struct {
		name  string
		f     Figures
		level Level
		id    string
		text  string // a part of it; "" is no trouble
		panel string
		since int64
	}{
		{name: "healthy", f: healthy()},
		{"held", with(func(f *Figures) { f.Held, f.Holder = 3*time.Second, Holder{"keys", 17, "10.0.0.9:5000"} }),
			Bad, "turn", "The turn is held for 3 s by KEYS of client 17 (10.0.0.9:5000).", "turns", 997_000},
		{"held by a script",
			with(func(f *Figures) { f.Held, f.Holder = 3*time.Second, Holder{"evalsha_ro", 17, "10.0.0.9:5000"} }), Bad, "turn",
			"by a slow script, EVALSHA_RO of client 17 (10.0.0.9:5000).", "turns", 997_000},
		{"held by nothing known", with(func(f *Figures) { f.Held = 2 * time.Second }), Bad, "turn", "a duty of the server",
			"turns", 998_000},
		{name: "held shortly", f: with(func(f *Figures) { f.Held = 900 * time.Millisecond })},
		{"a script", with(func(f *Figures) { f.Lent, f.Holder = 4*time.Second, Holder{"eval 0123abcd", 9, "10.0.0.9:1"} }),
			Bad, "script", "A slow script: EVAL 0123abcd of client 9 (10.0.0.9:1) has run for 4 s.", "turns", 996_000},
		{"a stall", with(func(f *Figures) {
			f.Stalls = []Stall{{ID: 7, EndMs: 980_000, Took: 1500 * time.Millisecond, What: "KEYS *", Addr: "10.0.0.9:5000"}}
		}), Warn, "stall 7", "held for 1.5 s by “KEYS *” of the client at 10.0.0.9:5000", "turns", 978_500},
		{name: "a stall that is long over", f: with(func(f *Figures) {
			f.Stalls = []Stall{{EndMs: 900_000, Took: 1500 * time.Millisecond, What: "KEYS *"}}
		})},
		{"at the limit", healthy(append(limit, "104857600")...), Bad, "memory",
			"at its limit: 100.0 MB of 100.0 MB. Writes are", "memory", 0},
		{"near the limit", healthy(append(limit, "100000000")...), Warn, "memory", "near its limit: 95.4 MB of 100.0 MB",
			"memory", 0},
		{name: "under the limit", f: healthy(append(limit, "90000000")...)},
		{name: "what does not count", f: healthy(append(limit, "104857600", "mem_not_counted_for_evict", "30000000")...)},
		{"writes refused", with(func(f *Figures) { f.Grown[minute].OOM = 1 }, append(limit, "104000000")...), Bad, "memory",
			"refused (OOM)", "memory", 0},
		{"eviction", with(evicts, append(limit, "104857600", "maxmemory_policy", "allkeys-lru")...), Note, "memory",
			"5,000 keys were evicted in the last 60 s (allkeys-lru)", "memory", 0},
		{"nothing to evict", with(evicts, append(limit, "114857600", "maxmemory_policy", "volatile-lru",
			"current_eviction_exceeded_time", "2500")...), Bad, "memory", "volatile-lru finds too little to evict", "memory",
			997_500},
		{"a save failed", with(func(f *Figures) { f.SaveFailure = "File too large" }, "rdb_last_bgsave_status", "err"),
			Bad, "save", "The last save failed: File too large.", "persistence", 0},
		{"a full disk", with(func(f *Figures) { f.DiskFree, f.DiskSize, f.Grown[minute].MISCONF = 0, 1<<20, 1 },
			"rdb_last_bgsave_status", "err"), Bad, "save",
			"The disk is full: 0 B of 1.0 MB are free. Writes are refused (MISCONF).", "persistence", 0},
		{"a full disk for the log", with(func(f *Figures) { f.LogFailure = "No space left on device" },
			"aof_last_write_status", "err"), Bad, "log",
			"cannot be written: No space left on device. Writes are refused (MISCONF).", "persistence", 0},
		{"a rewrite failed", healthy("aof_last_bgrewrite_status", "err"), Warn, "log rewrite",
			"rewrite of the append-only file", "persistence", 0},
		{"fsync is stuck", with(func(f *Figures) { f.Fsync = 4 * time.Second }), Bad, "fsync",
			"not confirmed the append-only file for 4 s", "persistence", 996_000},
		{"fsync is slow", with(func(f *Figures) { f.Grown[minute].DelayedSyncs = 3 }), Warn, "fsync slow",
			"held up writes 3 times", "persistence", 0},
		{name: "a sync", f: with(func(f *Figures) { f.Fsync = time.Second })},
		{name: "a cluster", f: healthy(cluster...)},
		{"uncovered slots", healthy("cluster_state", "fail", "cluster_slots_assigned", "10384"), Bad, "cluster slots",
			"6,000 of 16,384 slots are uncovered", "cluster", 0},
		{"failed slots", healthy(append(cluster, "cluster_slots_fail", "5461")...), Bad, "cluster failed",
			"5,461 slots are uncovered", "cluster", 0},
		{"silent slots", healthy(append(cluster, "cluster_slots_pfail", "5461")...), Warn, "cluster maybe", "does not answer",
			"cluster", 0},
		{"a failed cluster", healthy("cluster_state", "fail", "cluster_slots_assigned", "16384"), Bad, "cluster state",
			"refuses commands", "cluster", 0},
		{name: "a replica", f: healthy(replica...)},
		{"a link that is down", healthy(as("master_link_status", "down", "master_link_down_since_seconds", "7",
			"master_link_down_reason", "connection refused")...), Bad, "link",
			"link to the primary 10.0.0.1:6379 is down: connection refused", "replication", 993_000},
		{"a copy", healthy(as("master_link_status", "down", "master_sync_in_progress", "1", "master_sync_perc", "40.0")...),
			Warn, "link sync", "copies the data of its primary 10.0.0.1:6379: 40 %", "replication", 0},
		{"a silent primary", healthy(as("master_last_io_seconds_ago", "15")...), Warn, "link", "says nothing", "replication",
			985_000},
		{"a silent replica", healthy("slave0", "ip=10.0.0.2,port=6379,state=online,offset=3976,lag=5"), Bad,
			"replica 10.0.0.2:6379", "Replica 10.0.0.2:6379 lags: it has not answered for 5 s, and lacks 1.0 KB.",
			"replication", 995_000},
		{"a replica far behind", healthy("master_repl_offset", "20000000"), Warn, "replica 10.0.0.2:6379",
			"it lacks 19.1 MB", "replication", 0},
		{"a full copy", healthy("slave0", "ip=10.0.0.2,port=6379,state=send_bulk,offset=0,lag=9"), Warn,
			"replica 10.0.0.2:6379", "gets a full copy (send_bulk)", "replication", 0},
		{"rejected clients", with(func(f *Figures) { f.Grown[minute].Rejected = 12 }, "connected_clients", "10000"), Bad,
			"clients rejected", "12 clients were rejected in the last 60 s: 10000 of at most 10000", "clients", 0},
		{"many clients", healthy("connected_clients", "9000"), Warn, "clients full", "9000 of at most 10000", "clients", 0},
		{"a burst", with(func(f *Figures) { f.Grown[lately].Connections, f.Grown[minute].Connections = 1000, 1550 }), Warn,
			"clients burst", "A burst of connects: 200 a second, and 10 before.", "clients", 0},
		{name: "many connects always", f: with(func(f *Figures) {
			f.Grown[lately].Connections, f.Grown[minute].Connections = 1000, 12000
		})},
		{"closed for memory", with(func(f *Figures) { f.Grown[minute].EvictedClients = 2 }), Warn, "clients evicted",
			"maxmemory-clients", "clients", 0},
		{"closed for output", with(func(f *Figures) { f.Grown[minute].OutputLimit = 2 }), Warn, "clients output",
			"do not read", "clients", 0},
		{"an ended certificate", with(func(f *Figures) { f.Certificates = []Certificate{{"server", 0}} }), Bad,
			"certificate server", "The server's TLS certificate has ended", "server", 0},
		{"an ending certificate", with(func(f *Figures) { f.Certificates = []Certificate{{"ca", 9*86400 + 5}} }), Warn,
			"certificate ca", "The authority's TLS certificate ends in 9 days", "server", 0},
		{name: "a certificate", f: with(func(f *Figures) { f.Certificates = []Certificate{{"client", 31 * 86400}} })},
		{"a hot key", with(func(f *Figures) { f.Hot = HotKey{"user:1", 0, 61.5, 1000} }), Warn, "hotkey user:1",
			"A hot key: user:1 (db 0) gets 62 % of all accesses, 1,000 a second.", "keys", 0},
		{name: "a hot key of an idle server", f: with(func(f *Figures) { f.Hot = HotKey{"user:1", 0, 100, 3} })},
		{"a big key", with(func(f *Figures) { f.Big = []BigKey{{"hash", "carts", 0, 20 << 20, 300_000}} }), Warn,
			"bigkey hash carts", "A big key: the hash carts (db 0) has 20.0 MB, 300,000 elements.", "keys", 0},
		{name: "a key", f: with(func(f *Figures) { f.Big = []BigKey{{"hash", "carts", 0, 1 << 20, 3000}} })},
		{"errors", with(func(f *Figures) { f.Grown[lately].Errors = 2500 }), Warn, "errors",
			"500 error replies a second, of 1,000", "throughput", 0},
		{name: "few errors", f: with(func(f *Figures) { f.Grown[lately].Errors = 300 })},
		{"loading", healthy("loading", "1", "loading_start_time", "990", "loading_loaded_perc", "42.0"), Warn, "loading",
			"loads its data set: 42 %", "persistence", 990_000},
		{"a pause", healthy("paused_timeout_milliseconds", "5000", "paused_reason", "client_pause", "paused_actions",
			"write"), Warn, "paused", "for another 5 s", "clients", 0},
		{"a failover", healthy("master_failover_state", "waiting-for-sync"), Note, "failover", "waiting-for-sync",
			"replication", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Judge(&c.f)
			if c.text == "" {
				if len(found) != 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("found %+v", found)
			}
			got := found[0]
			if got.Level != c.level || got.ID != c.id || got.Panel != c.panel || got.SinceMs != c.since ||
				!strings.Contains(got.Text, c.text) {
				t.Errorf("found %+v\nwant %s %q in panel %s since %d: %s", got, c.level, c.id, c.panel, c.since, c.text)
			}
		})
	}
}

// TestWorstFirst: troubles are ordered by level.
func TestWorstFirst(t *testing.T) {
	f := healthy("loading", "1", "aof_last_write_status", "err", "master_failover_state", "x")
	var levels []Level
	for _, trouble := range Judge(&f) {
		levels = append(levels, trouble.Level)
	}
	if !slices.Equal(levels, []Level{Bad, Warn, Note}) {
		t.Errorf("the levels are %v", levels)
	}
}

// TestShortNames: the middle of a long name is left out.
func TestShortNames(t *testing.T) {
	long := strings.Repeat("a", 40) + "é" + strings.Repeat("z", 40)
	if got := short(long); len([]rune(got)) != 48 || !strings.HasPrefix(got, "aaaa") || !strings.HasSuffix(got, "zzzz") {
		t.Errorf("%q", got)
	}
	if got := short("user:1"); got != "user:1" {
		t.Errorf("%q", got)
	}
}

// TestMarks: which events are found between two looks.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		was, now []string
		want     string // kinds and texts
	}{
		{nil, nil, ""},
		{nil, []string{"role", "slave", "master_host", "h", "master_port", "1"}, "role Became a replica of h:1"},
		{[]string{"role", "slave"}, nil, "role Became a primary"},
		{[]string{"role", "slave", "master_host", "a"}, []string{"role", "slave", "master_host", "b", "master_port", "2"},
			"role Became a replica of b:2"},
		{nil, []string{"rdb_last_save_time", "5"}, "save Saved"},
		{nil, []string{"rdb_last_bgsave_status", "err"}, "save A save failed"},
		{[]string{"aof_rewrite_in_progress", "1"}, []string{"aof_rewrite_in_progress", "0"},
			"rewrite Rewrote the append-only file: ok"},
		{nil, []string{"connected_slaves", "2"}, "copy 2 replicas connected"},
	} {
		var got []string
		for _, m := range marksBetween(healthy(c.was...).Info, healthy(c.now...).Info) {
			got = append(got, m.Kind+" "+m.Text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%v to %v: %q, want %q", c.was, c.now, got, c.want)
		}
	}
}
