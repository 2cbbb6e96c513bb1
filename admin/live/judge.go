package live

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Figures are the data that the server publishes about itself at a moment. Judge reads nothing else.
type Figures struct {
	AtMs   int64
	Info   map[string]string // the fields of INFO, and of CLUSTER INFO in cluster mode
	Grown  [2]counters       // by how much the counters have grown in the last 5 and 60 seconds
	Held   time.Duration     // how long ago the core last did its duties
	Holder Holder            // the call that holds the turn now, or has lent it
	Lent   time.Duration     // how long ago a command that has lent the turn began; 0: none
	Fsync  time.Duration     // how long the running sync of the append-only file has taken; 0: none runs
	// Why the last save, or the last write of the append-only file, has failed, in the system's words. "" means no
	// failure.
	SaveFailure, LogFailure string
	DiskFree, DiskSize      int64 // bytes, where the server saves; DiskSize is 0 if they are not known
	Certificates            []Certificate
	Hot                     HotKey
	Big                     []BigKey
	Stalls                  []Stall // the newest first
}

// A Holder is the call that holds the turn.
type Holder struct {
	Command string // "" if it is not known
	Client  int64  // its ID; 0: none
	Addr    string
}

// String names the call: "keys of client 17 (127.0.0.1:50000)".
func (h Holder) String() string {
	name, rest, _ := strings.Cut(h.Command, " ")
	if rest != "" {
		rest = " " + short(rest)
	}
	name = strings.ReplaceAll(strings.ToUpper(name), "|", " ") + rest
	if h.Client == 0 {
		return name
	}
	return fmt.Sprintf("%s of client %d (%s)", name, h.Client, h.Addr)
}

// A Certificate is a TLS certificate in use, and the seconds until it expires. 0 means that it has expired.
type Certificate struct {
	Name string
	Left int64
}

// A HotKey is the most used key. Share is its percentage of all accesses to keys, PerSecond is its number of accesses.
type HotKey struct {
	Key              string
	DB               int64
	Share, PerSecond float64
}

// A BigKey is the largest key of a type.
type BigKey struct {
	Type, Key           string
	DB, Bytes, Elements int64
}

// A Stall is an entry of the stall log.
type Stall struct {
	ID, EndMs  int64 // EndMs is Unix ms
	Took       time.Duration
	What, Addr string
}

// counters are the figures whose growth matters.
type counters struct {
	Connections, Rejected, Errors, OOM, MISCONF, EvictedKeys, EvictedClients, OutputLimit, DelayedSyncs int64
	// Span is the time in which the counters grew.
	Span time.Duration
}

// The two spans of Figures.Grown.
const (
	lately = iota // 5 seconds
	minute        // 60 seconds
)

// A Level says how serious a trouble is.
type Level string

// The levels. A server with only notes is healthy.
const (
	Bad  Level = "bad"  // clients are refused, wait, or may lose data
	Warn Level = "warn" // it will become bad, or clients are slower
	Note Level = "note" // good to know
)

// A Trouble is something that is wrong now.
type Trouble struct {
	ID      string `json:"id"` // its rule, and its subject
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	SinceMs int64  `json:"since"` // Unix ms
	Panel   string `json:"panel"` // of the page
}

// The thresholds of the rules.
const (
	heldLong      = time.Second // a turn
	lentLong      = time.Second // a script that has lent the turn
	stallShown    = time.Minute // how long after its end a stall is shown
	syncLong      = 2 * time.Second
	replicaSilent = 3        // seconds since a replica has last reported
	replicaBehind = 16 << 20 // bytes
	memoryNear    = 0.95     // of the limit
	clientsNear   = 0.9      // of maxclients
	burstLeast    = 100      // connects a second
	burstTimes    = 4        // as many as in the minute before
	errorsLeast   = 50       // error replies a second
	certificates  = 30 * 24 * time.Hour
	hotShare      = 25 // percent of all accesses
	hotLeast      = 500
	bigBytes      = 16 << 20
	bigElements   = 200_000
	diskNear      = 0.02 // free part of the disk
)

// An account collects the troubles.
type account struct {
	*Figures
	found []Trouble
	panel string
	id    string
}

// add adds a trouble of the present rule. about distinguishes several troubles of one rule. sinceMs is 0 if the figures
// do not tell it.
func (a *account) add(level Level, about string, sinceMs int64, format string, args ...any) {
	id := a.id
	if about != "" {
		id += " " + about
	}
	a.found = append(a.found, Trouble{id, level, fmt.Sprintf(format, args...), sinceMs, a.panel})
}

func (a *account) text(field string) string { return a.Info[field] }

func (a *account) number(field string) float64 {
	n, _ := strconv.ParseFloat(a.Info[field], 64)
	return n
}

// ago returns the Unix ms of the moment that is d ago.
func (a *account) ago(d time.Duration) int64 { return a.AtMs - d.Milliseconds() }

// Judge returns the troubles, the worst first. SinceMs is 0 where the figures do not tell since when. Judge is a pure
// function.
func Judge(f *Figures) []Trouble {
	a := &account{Figures: f}
	for _, r := range rules {
		a.id, a.panel = r.id, r.panel
		r.judge(a)
	}
	sorted := make([]Trouble, 0, len(a.found))
	for _, level := range []Level{Bad, Warn, Note} {
		for _, t := range a.found {
			if t.Level == level {
				sorted = append(sorted, t)
			}
		}
	}
	return sorted
}

// rules are in the order in which troubles of equal level are shown.
var rules = []struct {
	id, panel string
	judge     func(a *account)
}{
	{"turn", "turns", judgeTurn},
	{"script", "turns", judgeScript},
	{"memory", "memory", judgeMemory},
	{"save", "persistence", judgeSave},
	{"log", "persistence", judgeLog},
	{"fsync", "persistence", judgeSync},
	{"cluster", "cluster", judgeCluster},
	{"link", "replication", judgeLink},
	{"replica", "replication", judgeReplicas},
	{"clients", "clients", judgeClients},
	{"certificate", "server", judgeCertificates},
	{"hotkey", "keys", judgeHotKey},
	{"bigkey", "keys", judgeBigKeys},
	{"stall", "turns", judgeStalls},
	{"errors", "throughput", judgeErrors},
	{"loading", "persistence", judgeLoading},
	{"paused", "clients", judgePause},
	{"failover", "replication", judgeFailover},
}

func judgeTurn(a *account) {
	if a.Held < heldLong || a.Lent > 0 {
		return
	}
	by := "a duty of the server or a command that should be short"
	switch command := a.Holder.Command; {
	case strings.HasPrefix(command, "eval") || strings.HasPrefix(command, "fcall"):
		by = "a slow script, " + a.Holder.String()
	case command != "":
		by = a.Holder.String()
	}
	a.add(Bad, "", a.ago(a.Held), "The turn is held for %s by %s. All other clients wait.", span(a.Held), by)
}

func judgeScript(a *account) {
	if a.Lent >= lentLong {
		a.add(Bad, "", a.ago(a.Lent), "A slow script: %s has run for %s. Other clients hear BUSY or wait. SCRIPT KILL ends "+
			"it if it has not written.", a.Holder, span(a.Lent))
	}
}

func judgeMemory(a *account) {
	limit := a.number("maxmemory")
	if limit == 0 {
		return
	}
	used := a.number("used_memory") - a.number("mem_not_counted_for_evict")
	policy := a.text("maxmemory_policy")
	is := fmt.Sprintf("%s of %s", size(used), size(limit))
	near := used >= memoryNear*limit
	switch exceeded := a.number("current_eviction_exceeded_time"); {
	case policy == "noeviction" && (used >= limit || near && a.Grown[minute].OOM > 0):
		a.add(Bad, "", 0, "Memory is at its limit: %s. Writes are refused (OOM), because the policy is noeviction.", is)
	case a.Grown[lately].OOM > 0 || exceeded >= 1000:
		a.add(Bad, "", a.AtMs-int64(exceeded), "Memory is over its limit: %s. %s finds too little to evict.", is, policy)
	case policy == "noeviction" && near:
		a.add(Warn, "", 0, "Memory is near its limit: %s. Writes are refused at the limit.", is)
	case a.Grown[minute].EvictedKeys > 0:
		a.add(Note, "", 0, "Memory is at its limit: %s. %s keys were evicted in the last %s (%s).", is,
			grouped(a.Grown[minute].EvictedKeys), span(a.Grown[minute].Span), policy)
	}
}

// refused describes whether writes are refused after a failed save or write.
func (a *account) refused() string {
	if a.Grown[minute].MISCONF > 0 {
		return " Writes are refused (MISCONF)."
	}
	return ""
}

// disk describes a disk that is nearly full.
func (a *account) disk() string {
	if a.DiskSize == 0 || float64(a.DiskFree) > diskNear*float64(a.DiskSize) {
		return ""
	}
	return fmt.Sprintf(" The disk is full: %s of %s are free.", size(float64(a.DiskFree)), size(float64(a.DiskSize)))
}

func judgeSave(a *account) {
	if a.text("rdb_last_bgsave_status") == "err" {
		a.add(Bad, "", 0, "The last save failed%s.%s%s", because(a.SaveFailure), a.disk(), a.refused())
	}
}

func judgeLog(a *account) {
	if a.text("aof_last_write_status") == "err" {
		a.add(Bad, "", 0, "The append-only file cannot be written%s.%s Writes are refused (MISCONF).", because(a.LogFailure),
			a.disk())
	}
	if a.text("aof_last_bgrewrite_status") == "err" {
		a.add(Warn, "rewrite", 0, "The last rewrite of the append-only file failed.%s", a.disk())
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func judgeSync(a *account) {
	if a.Fsync >= syncLong {
		a.add(Bad, "", a.ago(a.Fsync), "fsync is stuck: the disk has not confirmed the append-only file for %s.",
			span(a.Fsync))
	} else if n := a.Grown[minute].DelayedSyncs; n > 0 {
		a.add(Warn, "slow", 0, "fsync is slow: it held up writes %s times in the last %s.", grouped(n),
			span(a.Grown[minute].Span))
	}
}

func judgeCluster(a *account) {
	const all = 16384
	if a.text("cluster_state") == "" {
		return
	}
	if missing := all - a.number("cluster_slots_assigned"); missing > 0 {
		a.add(Bad, "slots", 0, "%s of 16,384 slots are uncovered: no node owns them.", grouped(int64(missing)))
	}
	if failed := a.number("cluster_slots_fail"); failed > 0 {
		a.add(Bad, "failed", 0, "%s slots are uncovered: their node has failed.", grouped(int64(failed)))
	}
	if maybe := a.number("cluster_slots_pfail"); maybe > 0 {
		a.add(Warn, "maybe", 0, "%s slots belong to a node that does not answer.", grouped(int64(maybe)))
	}
	if len(a.found) == 0 && a.text("cluster_state") != "ok" {
		a.add(Bad, "state", 0, "The cluster's state is %s: this node refuses commands.", a.text("cluster_state"))
	}
}

func judgeLink(a *account) {
	if a.text("role") != "slave" {
		return
	}
	primary := a.text("master_host") + ":" + a.text("master_port")
	switch down := a.number("master_link_down_since_seconds"); {
	case a.text("master_sync_in_progress") == "1":
		a.add(Warn, "sync", 0, "This replica copies the data of its primary %s: %.0f %%.", primary,
			a.number("master_sync_perc"))
	case a.text("master_link_status") == "down":
		since := int64(0)
		if down > 0 {
			since = a.AtMs - int64(down)*1000
		}
		a.add(Bad, "", since, "The link to the primary %s is down%s.", primary, because(a.text("master_link_down_reason")))
	case a.number("master_last_io_seconds_ago") > 12:
		since := a.AtMs - int64(a.number("master_last_io_seconds_ago"))*1000
		a.add(Warn, "", since, "The primary %s says nothing.", primary)
	}
}

func judgeReplicas(a *account) {
	end := a.number("master_repl_offset")
	for i := range int(a.number("connected_slaves")) {
		row := pairs(a.text("slave" + strconv.Itoa(i)))
		name := row["ip"] + ":" + row["port"]
		lag, _ := strconv.ParseFloat(row["lag"], 64)
		offset, _ := strconv.ParseFloat(row["offset"], 64)
		switch {
		case row["state"] != "online":
			a.add(Warn, name, 0, "Replica %s gets a full copy (%s).", name, row["state"])
		case lag >= replicaSilent:
			a.add(Bad, name, a.AtMs-int64(lag)*1000, "Replica %s lags: it has not answered for %s, and lacks %s.", name,
				span(time.Duration(lag)*time.Second), size(max(0, end-offset)))
		case end-offset >= replicaBehind:
			a.add(Warn, name, 0, "Replica %s lags: it lacks %s.", name, size(end-offset))
		}
	}
}

func judgeClients(a *account) {
	most, now := a.number("maxclients"), a.number("connected_clients")
	full := most > 0 && now >= clientsNear*most
	if n := a.Grown[minute].Rejected; n > 0 {
		a.add(Bad, "rejected", 0, "%s clients were rejected in the last %s: %.0f of at most %.0f are connected.", grouped(n),
			span(a.Grown[minute].Span), now, most)
	} else if full {
		a.add(Warn, "full", 0, "%.0f of at most %.0f clients are connected.", now, most)
	}
	per := func(g counters) float64 { return float64(g.Connections) / max(g.Span.Seconds(), 1) }
	before := a.Grown[minute]
	before.Connections -= a.Grown[lately].Connections
	before.Span -= a.Grown[lately].Span
	if rate := per(a.Grown[lately]); rate >= burstLeast && rate >= burstTimes*per(before) {
		a.add(Warn, "burst", 0, "A burst of connects: %s a second, and %s before.", grouped(int64(rate)),
			grouped(int64(per(before))))
	}
	if n := a.Grown[minute].EvictedClients; n > 0 {
		a.add(Warn, "evicted", 0, "%s clients were closed in the last %s: together they passed maxmemory-clients.",
			grouped(n), span(a.Grown[minute].Span))
	}
	if n := a.Grown[minute].OutputLimit; n > 0 {
		a.add(Warn, "output", 0, "%s clients were closed in the last %s: they do not read their replies.", grouped(n),
			span(a.Grown[minute].Span))
	}
}

func judgeCertificates(a *account) {
	names := map[string]string{"server": "server's", "client": "client", "ca": "authority's"}
	for _, c := range a.Certificates {
		name := names[c.Name]
		switch left := time.Duration(c.Left) * time.Second; {
		case left <= 0:
			a.add(Bad, c.Name, 0, "The %s TLS certificate has ended: clients that check it cannot connect.", name)
		case left < certificates:
			a.add(Warn, c.Name, 0, "The %s TLS certificate ends in %s.", name, span(left))
		}
	}
}

func judgeHotKey(a *account) {
	if a.Hot.Share >= hotShare && a.Hot.PerSecond >= hotLeast {
		a.add(Warn, a.Hot.Key, 0, "A hot key: %s (db %d) gets %.0f %% of all accesses, %s a second.", short(a.Hot.Key),
			a.Hot.DB, a.Hot.Share, grouped(int64(a.Hot.PerSecond)))
	}
}

func judgeBigKeys(a *account) {
	for _, k := range a.Big {
		if k.Bytes >= bigBytes || k.Elements >= bigElements {
			elements := ""
			if k.Elements > 1 {
				elements = fmt.Sprintf(", %s elements", grouped(k.Elements))
			}
			a.add(Warn, k.Type+" "+k.Key, 0, "A big key: the %s %s (db %d) has %s%s.", k.Type, short(k.Key), k.DB,
				size(float64(k.Bytes)), elements)
		}
	}
}

func judgeStalls(a *account) {
	for _, s := range a.Stalls {
		if s.Took < heldLong || a.AtMs-s.EndMs > stallShown.Milliseconds() {
			continue
		}
		from := ""
		if s.Addr != "" {
			from = " of the client at " + s.Addr
		}
		a.add(Warn, strconv.FormatInt(s.ID, 10), s.EndMs-s.Took.Milliseconds(), "The turn was held for %s by “%s”%s.",
			span(s.Took), short(s.What), from)
		return // the newest tells enough
	}
}

func judgeErrors(a *account) {
	g := a.Grown[lately]
	rate := float64(g.Errors) / max(g.Span.Seconds(), 1)
	if commands := a.number("instantaneous_ops_per_sec"); rate >= errorsLeast && rate >= commands/10 {
		a.add(Warn, "", 0, "%s error replies a second, of %s commands.", grouped(int64(rate)), grouped(int64(commands)))
	}
}

func judgeLoading(a *account) {
	if a.text("loading") == "1" {
		a.add(Warn, "", int64(a.number("loading_start_time"))*1000, "The server loads its data set: %.0f %%.",
			a.number("loading_loaded_perc"))
	}
}

func judgePause(a *account) {
	if a.number("paused_timeout_milliseconds") > 0 {
		a.add(Warn, "", 0, "Clients are paused (%s, %s) for another %s.", a.text("paused_reason"), a.text("paused_actions"),
			span(time.Duration(a.number("paused_timeout_milliseconds"))*time.Millisecond))
	}
}

func judgeFailover(a *account) {
	if s := a.text("master_failover_state"); s != "" && s != "no-failover" {
		a.add(Note, "", 0, "A failover is under way: %s.", s)
	}
}

// pairs returns the pairs of a value such as "ip=127.0.0.1,port=6379".
func pairs(value string) map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq(value, ",") {
		name, v, _ := strings.Cut(part, "=")
		all[name] = v
	}
	return all
}

// short returns a name of at most 48 characters. It leaves out the middle of a longer name.
func short(name string) string {
	const most = 48
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2+1:])
}

// size formats bytes: "1.5 GB".
func size(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	for n >= 1024 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[0])
}

// span formats a duration in its largest unit: "1.5 s", "2 min", "9 days".
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// grouped formats a whole number: 5,002.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
