package dashboard

import (
	"context"
	_ "embed"
	"net/http"
	"net/url"

	"spindle/internal/version"
	"spindle/proxy/store"
)

// A route is one endpoint of the API. openapi.json describes each route, which a test checks.
type route struct {
	method, path string
	action       string                     // the name in the audit log; "" for routes that only read
	body         func() any                 // returns a value to decode the body into; nil if the route has no body
	run          func(c *call) (any, error) // returns the value of the reply
}

// routes returns all routes of the API. Only the active dashboard serves the paths below /v1.
func (d *Dashboard) routes() []route {
	const product, group = "/v1/products/{product}", "/v1/products/{product}/groups/{group}"
	return []route{
		{"GET", "/v1/status", "", nil, d.showStatus},
		{"GET", "/v1/products", "", nil, d.listProducts},
		{"POST", "/v1/products", "product create", empty[newProduct], d.createProduct},
		{"GET", product, "", nil, d.showProduct},
		{"PATCH", product, "product change", empty[productChange], d.changeProduct},
		{"DELETE", product, "product delete", nil, d.deleteProduct},
		{"GET", product + "/overview", "", nil, d.showOverview},
		{"GET", product + "/groups", "", nil, d.listGroups},
		{"POST", product + "/groups", "group create", empty[newGroup], d.createGroup},
		{"GET", group, "", nil, d.showGroup},
		{"PATCH", group, "group change", empty[groupChange], d.changeGroup},
		{"DELETE", group, "group delete", nil, d.deleteGroup},
		{"POST", group + "/servers", "server join", empty[newServer], d.joinServer},
		{"DELETE", group + "/servers/{server}", "server remove", nil, d.removeServer},
		{"POST", group + "/promote", "server promote", empty[serverOrder], d.promote},
		{"POST", group + "/resync", "server resync", empty[serverOrder], d.resync},
		{"GET", product + "/slots", "", nil, d.showSlots},
		{"POST", product + "/slots", "slots assign", empty[assignment], d.assignSlots},
		{"GET", product + "/proxies", "", nil, d.listProxies},
		{"DELETE", product + "/proxies/{proxy}", "proxy forget", nil, d.forgetProxy},
		{"GET", product + "/sentinels", "", nil, d.showSentinels},
		{"PUT", product + "/sentinels", "sentinels set", empty[sentinelsOrder], d.setSentinels},
		{"DELETE", product + "/sentinels", "sentinels remove", nil, d.removeSentinels},
		{"POST", product + "/plan", "", empty[planOrder], d.makePlan},
		{"GET", product + "/move", "", nil, d.showMove},
		{"POST", product + "/move", "move start", empty[moveOrder], d.startMove},
		{"PATCH", product + "/move", "move change", empty[moveChange], d.changeMove},
		{"GET", "/v1/tokens", "", nil, d.listTokens},
		{"POST", "/v1/tokens", "token create", empty[newToken], d.createToken},
		{"DELETE", "/v1/tokens/{token}", "token delete", nil, d.deleteToken},
		{"GET", "/v1/audit", "", nil, d.listAudit},
	}
}

func empty[T any]() any { return new(T) }

// A call is one request of the API.
type call struct {
	ctx     context.Context
	r       *http.Request
	who     actor
	body    any
	product string // for the audit log, as is detail
	detail  string
}

// part returns a named part of the path.
func (c *call) part(name string) string { return c.r.PathValue(name) }

//go:embed openapi.json
var openAPI []byte

// handler returns the handler of all paths.
func (d *Dashboard) handler() http.Handler {
	g := &guard{d: d}
	if u, err := url.Parse(d.s.URL.Get()); err == nil {
		g.host = u.Hostname()
	}
	mux := http.NewServeMux()
	for _, r := range d.routes() {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, request *http.Request) { d.serve(g, &r, w, request) })
	}
	open := func(pattern string, serve http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !g.knows(r.Host) {
				refuse(w, failed(http.StatusForbidden, "unknown_host",
					"this dashboard is not known under that name: see dashboard-host"), "")
				return
			}
			serve(w, r)
		})
	}
	open("GET /healthz", d.serveHealth)
	open("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		secure(w.Header())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI)
	})
	for at, serve := range pages() {
		open("GET "+at, serve)
	}
	return mux
}

// serve answers a request of the API.
func (d *Dashboard) serve(g *guard, r *route, w http.ResponseWriter, request *http.Request) {
	role := store.RoleRead
	if r.action != "" {
		role = store.RoleWrite
	}
	held, active, problem := d.lead.now()
	if held == nil {
		d.pass(w, request, active, problem)
		return
	}
	who, refused := g.admit(request, role)
	if refused != nil {
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		refuse(w, refused, "")
		return
	}
	c := &call{ctx: request.Context(), r: request, who: who, product: request.PathValue("product")}
	if r.body != nil {
		c.body = r.body()
		if err := readBody(w, request, c.body); err != nil {
			refuse(w, explain(err), "")
			return
		}
	}
	v, err := r.run(c)
	if r.action != "" {
		d.audit(c, r.action, err)
	}
	if err != nil {
		f := explain(err)
		if f.status >= http.StatusInternalServerError {
			d.log.Warning("%s %s failed: %s", r.method, describe(request.URL.Path), describe(f.text))
		}
		refuse(w, f, "")
		return
	}
	answer(w, http.StatusOK, v)
}

// pass redirects a client to the active dashboard. A client that follows the redirect repeats its request there.
func (d *Dashboard) pass(w http.ResponseWriter, r *http.Request, active store.Leader, problem error) {
	switch {
	case active.URL != "" && active.ID != d.self.ID:
		w.Header().Set("Location", active.URL+r.URL.RequestURI())
		refuse(w, failed(http.StatusTemporaryRedirect, "not_active", "the active dashboard is %s", active.URL), active.URL)
	case problem != nil:
		refuse(w, failed(http.StatusServiceUnavailable, "store", "the store does not answer: %s", problem), "")
	default:
		refuse(w, failed(http.StatusServiceUnavailable, "no_active", "no dashboard is active yet"), "")
	}
}

// A health is the reply of /healthz. Status is "active", "ready" while another dashboard is active, or "waiting"
// without a store.
type health struct {
	Status string `json:"status"`
	Active string `json:"active,omitempty"` // the active dashboard's URL
	Store  string `json:"store,omitempty"`  // why the store does not answer
}

func (d *Dashboard) serveHealth(w http.ResponseWriter, _ *http.Request) {
	held, active, problem := d.lead.now()
	h, status := health{Status: "ready", Active: active.URL}, http.StatusOK
	switch {
	case held != nil:
		h.Status, h.Active = "active", d.self.URL
	case problem != nil:
		h.Status, h.Store, status = "waiting", problem.Error(), http.StatusServiceUnavailable
	}
	answer(w, status, h)
}

// A statusView describes this dashboard and its store.
type statusView struct {
	ID       string   `json:"id"`
	URL      string   `json:"url"`
	Version  string   `json:"version"`
	Store    string   `json:"store"`
	Prefix   string   `json:"prefix"`
	Since    string   `json:"since"` // since when this dashboard is active
	Products []string `json:"products"`
	Actor    string   `json:"actor"` // the name of the request's token
	Role     string   `json:"role"`
}

func (d *Dashboard) showStatus(c *call) (any, error) {
	_, active, _ := d.lead.now()
	names, err := d.products(c.ctx)
	return statusView{ID: d.self.ID, URL: d.self.URL, Version: version.Spindle, Store: d.store.String(), Prefix: d.prefix,
		Since: active.Since.Format("2006-01-02T15:04:05.000Z"), Products: names, Actor: c.who.name, Role: c.who.role}, err
}
