// Package live is the page for operators: what is wrong now, the server's figures, its last 24 hours, and a console for
// commands that read.
//
// Owner: the HTTP server's goroutines and one watch. They reach the core only through [Source].
// Never: changes data, loads anything from outside the program, or keeps more than History's fixed memory.
// Start at live.go; judge.go finds what is wrong, watch.go looks each second. guard.go decides which requests are
// served, console.go which commands the console runs.
package live

import (
	"embed"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/internal/histogram"
)

// A Source is the server as the page sees it. Any goroutine may call its functions.
type Source struct {
	// Observe runs a command for the page itself, which is left out of all statistics. The reply is RESP3.
	Observe func(args ...string) ([]byte, error)
	// Consult runs a command as an ACL user on a database, for a browser at the address from. It counts like a client's
	// command.
	Consult func(user, from string, db int, args [][]byte) ([]byte, error)
	// Clients returns the first n clients by id, as in CLIENT LIST.
	Clients func(n int) []string
	// Sample returns present figures that INFO does not have.
	Sample func() Sample
	// Held returns how long ago the core last did its duties. A long time means that something holds the turn.
	Held func() time.Duration
	// Holder returns the call that holds the turn now.
	Holder func() Holder
	// Latency yields the times of all replies since the start, by command.
	Latency func(yield func(command string, h *histogram.H) bool)
	// Certificates calls f for each TLS certificate in use, with its name and the seconds until it expires.
	Certificates func(f func(name string, left int64))
	// Changed returns the settings that CONFIG SET has changed since the last call.
	Changed func() []Change
}

// A Sample has figures of a moment that INFO does not have. Figures explains them.
type Sample struct {
	CPUPercent              float64 // of one core, since the last sample
	Lent, Fsync             time.Duration
	Lender                  Holder
	SaveFailure, LogFailure string
	DiskFree, DiskSize      int64
}

// A Change is a setting that CONFIG SET has changed.
type Change struct {
	AtMs int64 // Unix ms
	Name string
}

// Options has the rules of access. Token and Host hold for the page; see guard.go.
type Options struct {
	Source
	Token   string // "" is none
	Host    string // another name under which the page is reached; "": none
	Console string // the ACL user whose rights the console has; "" is no console
}

//go:embed page
var files embed.FS

// A Page serves /, /live/… and keeps the history.
type Page struct {
	Guard
	o       Options
	history *History
	watch   watch
	cache   cache
	asking  chan struct{} // has an element for each command of the console that runs or waits
	stop    chan struct{}
	stopped sync.WaitGroup
}

// New starts the watch. Close ends it.
func New(o Options) *Page {
	p := &Page{
		o: o, stop: make(chan struct{}), asking: make(chan struct{}, mostAsking), Guard: Guard{Token: o.Token, Host: o.Host},
		history: newHistory(),
	}
	p.watch = watch{source: &p.o.Source, history: p.history}
	p.cache.collect = p.collect
	p.stopped.Go(p.run)
	return p
}

// Close ends the watch. It waits for a running look, because the core must live until then.
func (p *Page) Close() {
	close(p.stop)
	p.stopped.Wait()
	p.watch.looks.Wait()
}

// Handle registers the page's paths.
func (p *Page) Handle(mux *http.ServeMux) {
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
		".LICENSE": "text/plain"}
	entries, err := files.ReadDir("page")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		kind := kinds[path.Ext(e.Name())]
		body, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			panic(err) // it is embedded
		}
		at := "GET /live/" + e.Name()
		if e.Name() == "index.html" {
			at = "GET /{$}"
		}
		mux.Handle(at, p.Known(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Write(body)
		}))
	}
	mux.Handle("GET /live/state", p.Private(p.serveState))
	mux.Handle("GET /live/history", p.Private(p.serveHistory))
	mux.Handle("GET /live/command", p.Private(p.serveCommand))
	mux.Handle("POST /live/console", p.Private(p.serveConsole))
}

// run looks at the server each second until Close. While a command holds the turn, the look waits for it, and the
// history has a gap.
func (p *Page) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	p.watch.tick(time.Now())
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			p.watch.tick(now)
		}
	}
}

// A State is the result of one look at the server, in the form that the page gets.
type State struct {
	AtMs    int64          `json:"at"`
	Info    string         `json:"info"` // INFO everything
	Console string         `json:"console"`
	Clients []string       `json:"clients"` // the first of them
	Replies map[string]any `json:"replies"` // by the name of the panel; nil where the command failed
}

// A look is the reply of /live/state. State is null while something holds the turn.
type look struct {
	AtMs   int64           `json:"at"`
	Health Condition       `json:"health"` // also known while something holds the turn
	State  json.RawMessage `json:"state"`
}

// observed has the commands for panels that need more than INFO.
var observed = map[string][]string{
	"slowlog": {"SLOWLOG", "GET", "32"},
	"stalls":  {"STALLS", "GET", "32"},
	"hotkeys": {"HOTKEYS", "GET", "COUNT", "20"},
	"bigkeys": {"BIGKEYS", "GET", "COUNT", "10"},
	"latency": {"LATENCY", "LATEST"},
	"nodes":   {"CLUSTER", "NODES"}, // in cluster mode
}

// collect runs the commands of a look. Each command has its own turn, so that no turn gets long.
func (p *Page) collect() []byte {
	s := State{
		AtMs: time.Now().UnixMilli(), Clients: []string{}, Replies: map[string]any{},
	}
	if p.consoleOn() {
		s.Console = p.o.Console
	}
	for _, line := range p.o.Clients(clientsShown) {
		s.Clients = append(s.Clients, printable(line))
	}
	if reply, err := p.o.Observe("INFO", "everything"); err == nil {
		s.Info, _ = readReply(reply).(string)
	}
	for name, args := range observed {
		if name == "nodes" && !strings.Contains(s.Info, "cluster_enabled:1") {
			continue
		}
		if reply, err := p.o.Observe(args...); err == nil {
			s.Replies[name] = readReply(reply)
		}
	}
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // readReply makes nothing that JSON cannot say
	}
	return body
}

// patience is how long a look may wait for turns. After that the page is told that something holds the turn.
const patience = 2 * time.Second

func (p *Page) serveState(w http.ResponseWriter, _ *http.Request) {
	body, ok := p.cache.get(patience)
	now := time.Now()
	seen := look{AtMs: now.UnixMilli(), Health: p.watch.judge(now), State: json.RawMessage("null")}
	if ok {
		seen.State = body
	}
	body, err := json.Marshal(seen)
	if err != nil {
		panic(err) // collect has made it
	}
	writeJSON(w, body)
}

func (p *Page) serveHistory(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.FormValue("since"), 10, 64)
	writeJSON(w, p.history.JSON(r.FormValue("range"), since))
}

// serveCommand replies with the latency of one command over the last hour.
func (p *Page) serveCommand(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.FormValue("since"), 10, 64)
	body := p.history.CommandJSON(r.FormValue("name"), since)
	if body == nil {
		http.Error(w, "no reply of that command has been measured", http.StatusNotFound)
		return
	}
	writeJSON(w, body)
}

// clientsShown is how many clients a look shows. More would make its turn long.
const clientsShown = 100

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

// A cache shares one look among many readers.
type cache struct {
	collect func() []byte
	mu      sync.Mutex
	body    []byte
	at      time.Time
	pending chan struct{} // closed when the running look is done
}

// fresh is how old a shared look may be.
const fresh = 500 * time.Millisecond

// get returns a fresh look. It returns false if there is none within limit.
func (c *cache) get(limit time.Duration) ([]byte, bool) {
	c.mu.Lock()
	if c.body != nil && time.Since(c.at) < fresh {
		defer c.mu.Unlock()
		return c.body, true
	}
	if c.pending == nil {
		c.pending = make(chan struct{})
		go func() {
			body := c.collect()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.body, c.at = body, time.Now()
			close(c.pending)
			c.pending = nil
		}()
	}
	pending := c.pending
	c.mu.Unlock()
	select {
	case <-pending:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.body, true
	case <-time.After(limit):
		return nil, false
	}
}
