package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
)

// handler serves all paths.
func (d *Dashboard) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", d.serveHealth)
	mux.HandleFunc("GET /{$}", serveFront)
	return mux
}

// serveFront says what this address is.
func serveFront(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte("This is a dashboard of spindle. Ask it with: spindle ctl\n"))
}

// A health is what /healthz tells: "active", "ready" while another dashboard is active, or "waiting" without a store.
type health struct {
	Status string `json:"status"`
	Active string `json:"active,omitempty"` // the active dashboard's URL
	Store  string `json:"store,omitempty"`  // why it does not answer
}

func (d *Dashboard) serveHealth(w http.ResponseWriter, _ *http.Request) {
	held, active, problem := d.lead.now()
	h, code := health{Status: "ready", Active: active.URL}, http.StatusOK
	switch {
	case held != nil:
		h.Status = "active"
	case problem != nil:
		h.Status, h.Store, code = "waiting", problem.Error(), http.StatusServiceUnavailable
	}
	answer(w, code, h)
}

// answer writes a reply as JSON.
func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}

// work is what the active dashboard does beside requests, until ctx ends.
func (d *Dashboard) work(ctx context.Context) { <-ctx.Done() }
