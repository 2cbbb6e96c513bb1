package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"spindle/internal/clock"
)

// Health is the last state that a turn has published: at each change, or within a tenth of a second. A request waits
// for no turn, so a busy server does not look like a dead one.
type Health struct {
	state  atomic.Pointer[State]
	BeatMs func() int64 // when the core last did its duties, by clock.Steady
}

// A State is the state of a server that /healthz shows.
type State struct {
	Role    string // primary, replica, sentinel
	Reason  string // why it should get no traffic; "": no reason
	Warning string // what an operator should mend although the server serves; "": nothing
	Loading bool
	Busy    bool // a script runs, and others wait for it
	LinkUp  bool // of a replica
	HeardMs int64
}

// Set replaces the state. Turn only.
func (h *Health) Set(s State) {
	if known := h.state.Load(); known == nil || *known != s {
		h.state.Store(&s)
	}
}

// A healthReport is the reply of /healthz?format=json. Times are seconds.
type healthReport struct {
	OK      bool    `json:"ok"`
	Reason  string  `json:"reason"`
	Warning string  `json:"warning"`
	Role    string  `json:"role"`
	Loading bool    `json:"loading"`
	Busy    bool    `json:"busy_script"`
	LinkUp  *bool   `json:"link_up,omitempty"` // link of a replica to its primary; absent for others
	Lag     float64 `json:"lag"`               // since a replica heard of its primary; 0 for others
	Held    float64 `json:"held"`              // since the core did its duties, which it does ten times a second
}

// ServeHTTP replies 200 when the server serves, perhaps with a warning, and otherwise 503 with the reason. The query
// names further conditions:
//
//	alive=yes              only the conditions of the query count, also while it starts, loads or refuses writes
//	role=primary|replica   only a server in this role
//	max-lag=SECONDS        a replica whose link is up and that has heard of its primary within that time
//	max-held=SECONDS       nothing holds the turn for longer
//	busy=no                no script keeps others waiting
//	format=json            all of it, with the same status
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s := h.state.Load()
	if s == nil {
		s = &State{Reason: "starting"}
	}
	report := healthReport{Role: s.Role, Warning: s.Warning, Loading: s.Loading, Busy: s.Busy, Held: sinceMs(h.BeatMs())}
	if s.Role == "replica" {
		report.LinkUp, report.Lag = &s.LinkUp, sinceMs(s.HeardMs)
	}
	wrong := ""
	report.Reason, wrong = report.check(s.Reason, query)
	if wrong != "" {
		http.Error(w, wrong, http.StatusBadRequest)
		return
	}
	report.OK = report.Reason == ""
	status := http.StatusOK
	if !report.OK {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case query.Get("format") == "json":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(report)
	case report.OK && s.Warning != "":
		fmt.Fprintf(w, "ok\nwarning: %s\n", s.Warning)
	case report.OK:
		w.Write([]byte("ok\n"))
	default:
		http.Error(w, report.Reason, status)
	}
}

// check returns why the server does not meet the query's conditions, and what is wrong with the query.
func (h *healthReport) check(reason string, query url.Values) (_, wrong string) {
	if query.Get("alive") == "yes" {
		reason = ""
	}
	for name, values := range query {
		value := values[len(values)-1]
		limit, err := strconv.ParseFloat(value, 64)
		switch {
		case name == "role" && (value == "primary" || value == "replica"):
			if reason == "" && h.Role != value {
				reason = "the role is " + h.Role
			}
		case name == "max-lag" && err == nil:
			if reason == "" && h.Role == "replica" && (!*h.LinkUp || h.Lag > limit) {
				reason = fmt.Sprintf("the link to the primary is up: %t, heard %.1f s ago", *h.LinkUp, h.Lag)
			}
		case name == "max-held" && err == nil:
			if reason == "" && h.Held > limit {
				reason = fmt.Sprintf("something holds the turn: the core did its duties %.1f s ago", h.Held)
			}
		case name == "busy" && value == "no":
			if reason == "" && h.Busy {
				reason = "a script runs"
			}
		case name == "format" && value == "json":
		case name == "alive" && value == "yes":
		default:
			return "",
				fmt.Sprintf("unknown: %s=%s. There are alive=yes, role=primary|replica, max-lag=SECONDS, max-held=SECONDS, "+
					"busy=no, format=json.", name, value)
		}
	}
	return reason, ""
}

// sinceMs returns how many seconds ago a time of clock.Steady was, or 0 if the time is 0.
func sinceMs(ms int64) float64 {
	if ms == 0 {
		return 0
	}
	return (time.Duration(max(0, clock.Steady()-ms)) * time.Millisecond).Seconds()
}
