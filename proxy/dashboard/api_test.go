package dashboard

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/proxy/store"
	"spindle/tests/testkit"
)

var limit = testkit.Slowly(60 * time.Second)

// begin starts a dashboard in this process, with a folder as its store.
func begin(t testing.TB, set func(s *settings)) *Dashboard {
	t.Helper()
	s := &settings{}
	if _, err := s.registry(); err != nil {
		t.Fatal(err)
	}
	s.Address.Set("127.0.0.1:0")
	s.store.Address.Set("folder:" + t.TempDir())
	s.WriteToken.Set("writer")
	s.ServerTimeoutMs.Set(200)
	s.LeaseSeconds.Set(600) // a busy host does not end the leadership
	if set != nil {
		set(s)
	}
	d, err := start(s, logging.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stop(5 * time.Second) })
	testkit.Await(t, limit, "the leadership", func() bool {
		held, _, _ := d.lead.now()
		return held != nil
	})
	return d
}

// A query is one request to a dashboard's handler.
type query struct {
	method, path, body, token, host, origin, kind string
}

func (q query) send(d *Dashboard) *httptest.ResponseRecorder {
	r := httptest.NewRequest(q.method, q.path, strings.NewReader(q.body))
	r.Host = "127.0.0.1:6390"
	if q.host != "" {
		r.Host = q.host
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.origin != "" {
		r.Header.Set("Origin", q.origin)
	}
	if q.kind == "" {
		q.kind = "application/json"
	}
	r.Header.Set("Content-Type", q.kind)
	w := httptest.NewRecorder()
	d.http.Handler.ServeHTTP(w, r)
	return w
}

// codeOf returns the code in an error's body, or "ok".
func codeOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Code == http.StatusOK {
		return "ok"
	}
	var body errorBody
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error.Code == "" || body.Error.Message == "" {
		t.Fatalf("status %d with the body %q", w.Code, w.Body)
	}
	return body.Error.Code
}

func TestRequests(t *testing.T) {
	d := begin(t, func(s *settings) { s.ReadToken.Set("reader"); s.Host.Set("board.example") })
	create := `{"name":"a","kind":"groups"}`
	for _, c := range []struct {
		name string
		q    query
		want string
	}{
		{"no token", query{method: "GET", path: "/v1/products"}, "no_token"},
		{"a wrong token", query{method: "GET", path: "/v1/products", token: "other"}, "no_token"},
		{"reading", query{method: "GET", path: "/v1/products", token: "reader"}, "ok"},
		{"a writer reads", query{method: "GET", path: "/v1/products", token: "writer"}, "ok"},
		{"a reader writes", query{method: "POST", path: "/v1/products", body: create, token: "reader"}, "read_only"},
		{"a reader plans", query{method: "POST", path: "/v1/products/b/plan", body: `{}`, token: "reader"}, "no_product"},
		{"a foreign host", query{method: "GET", path: "/v1/products", token: "reader", host: "evil.example"}, "unknown_host"},
		{"our own host", query{method: "GET", path: "/v1/products", token: "reader", host: "board.example:80"}, "ok"},
		{"a foreign host's health", query{method: "GET", path: "/healthz", host: "evil.example"}, "unknown_host"},
		{"health", query{method: "GET", path: "/healthz"}, "ok"},
		{"a foreign page", query{method: "POST", path: "/v1/products", body: create, token: "writer",
			origin: "http://evil.example"}, "foreign_page"},
		{"a form", query{method: "POST", path: "/v1/products", body: create, token: "writer", kind: "text/plain"},
			"bad_request"},
		{"no JSON", query{method: "POST", path: "/v1/products", body: `{"name":`, token: "writer"}, "bad_request"},
		{"text after it", query{method: "POST", path: "/v1/products", body: create + "1", token: "writer"}, "bad_request"},
		{"an unknown field", query{method: "POST", path: "/v1/products", body: `{"nome":"a"}`, token: "writer"},
			"bad_request"},
		{"a long body", query{method: "POST", path: "/v1/products", body: strings.Repeat(" ", maxBody+1), token: "writer"},
			"too_large"},
		{"writing", query{method: "POST", path: "/v1/products", body: create, token: "writer"}, "ok"},
		{"twice", query{method: "POST", path: "/v1/products", body: create, token: "writer"}, "exists"},
		{"a bad name", query{method: "POST", path: "/v1/products", body: `{"name":"../a","kind":"groups"}`, token: "writer"},
			"bad_request"},
		{"the dashboard's own name", query{method: "POST", path: "/v1/products",
			body:  `{"name":"_dashboard","kind":"groups"}`,
			token: "writer"}, "bad_request"},
		{"a bad kind", query{method: "POST", path: "/v1/products", body: `{"name":"b","kind":"heap"}`, token: "writer"},
			"bad_request"},
		{"a cluster without seeds", query{method: "POST", path: "/v1/products", body: `{"name":"b","kind":"cluster"}`,
			token: "writer"}, "bad_request"},
		{"Codis's layout", query{method: "POST", path: "/v1/products", body: `{"name":"c","kind":"groups","hash":"crc32"}`,
			token: "writer"}, "ok"},
		{"a dead server", query{method: "POST", path: "/v1/products/a/groups", body: `{"id":"g","primary":"127.0.0.1:1"}`,
			token: "writer"}, "failed"},
		{"slots of no group", query{method: "POST", path: "/v1/products/a/slots",
			body: `{"ranges":[{"from":0,"to":1,"group":"g"}]}`, token: "writer"}, "no_group"},
		{"no plan", query{method: "POST", path: "/v1/products/a/plan", body: `{}`, token: "writer"}, "bad_request"},
		{"a plan without groups", query{method: "POST", path: "/v1/products/a/plan", body: `{"balance":"slots"}`,
			token: "writer"}, "conflict"},
		{"no move", query{method: "GET", path: "/v1/products/a/move", token: "reader"}, "no_move"},
		{"an empty move", query{method: "POST", path: "/v1/products/a/move", body: `{}`, token: "writer"}, "bad_request"},
		{"slots out of bounds", query{method: "POST", path: "/v1/products/a/move", token: "writer",
			body: `{"steps":[{"from":0,"to":16384,"source":"a","target":"b"}]}`}, "bad_request"},
		{"the audit log's limit", query{method: "GET", path: "/v1/audit?limit=x", token: "reader"}, "bad_request"},
		{"deletion", query{method: "DELETE", path: "/v1/products/a", token: "writer"}, "ok"},
		{"a second deletion", query{method: "DELETE", path: "/v1/products/a", token: "writer"}, "no_product"},
	} {
		w := c.q.send(d)
		if got := codeOf(t, w); got != c.want {
			t.Errorf("%s: %s, want %s: %s", c.name, got, c.want, w.Body)
		}
		if h := w.Header(); h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", c.name, h)
		}
	}
}

// TestOpenWithoutTokens: without a read token any client may read, and without a write token no client may write.
func TestOpenWithoutTokens(t *testing.T) {
	d := begin(t, func(s *settings) { s.WriteToken.Set("") })
	if got := codeOf(t, query{method: "GET", path: "/v1/status"}.send(d)); got != "ok" {
		t.Errorf("reading: %s", got)
	}
	for _, token := range []string{"", "guess"} {
		w := query{method: "POST", path: "/v1/products", body: `{"name":"a","kind":"groups"}`, token: token}.send(d)
		if got := codeOf(t, w); got != "read_only" {
			t.Errorf("writing with %q: %s", token, got)
		}
	}
	s := &settings{}
	if _, err := s.registry(); err != nil {
		t.Fatal(err)
	}
	s.Address.Set("0.0.0.0:0")
	if _, err := s.listen(); err != errOpen {
		t.Errorf("an address that others reach, without a token: %v", err)
	}
}

func TestTokens(t *testing.T) {
	d := begin(t, nil)
	create := func(body string) *httptest.ResponseRecorder {
		return query{method: "POST", path: "/v1/tokens", body: body, token: "writer"}.send(d)
	}
	for _, bad := range []string{`{"name":"a b","role":"read"}`, `{"name":"a","role":"admin"}`, `{"role":"read"}`} {
		if got := codeOf(t, create(bad)); got != "bad_request" {
			t.Errorf("%s: %s", bad, got)
		}
	}
	var made tokenView
	w := create(`{"name":"ci","role":"write"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || len(made.Secret) != 64 {
		t.Fatalf("%s, %v", w.Body, err)
	}
	if got := codeOf(t, create(`{"name":"ci","role":"read"}`)); got != "exists" {
		t.Errorf("a second one of that name: %s", got)
	}
	product := query{method: "POST", path: "/v1/products", body: `{"name":"a","kind":"groups"}`, token: made.Secret}
	if got := codeOf(t, product.send(d)); got != "ok" {
		t.Errorf("writing with the new token: %s", got)
	}
	w = query{method: "GET", path: "/v1/tokens"}.send(d)
	if text := w.Body.String(); !strings.Contains(text, `"ci"`) || strings.Contains(text, made.Secret) ||
		strings.Contains(text, "hash") {
		t.Errorf("the list of tokens: %s", text)
	}
	if got := codeOf(t, query{method: "DELETE", path: "/v1/tokens/ci", token: "writer"}.send(d)); got != "ok" {
		t.Error(got)
	}
	if got := codeOf(t, query{method: "DELETE", path: "/v1/tokens/ci", token: made.Secret}.send(d)); got != "read_only" {
		t.Errorf("a deleted token: %s", got)
	}
	w = query{method: "GET", path: "/v1/audit?product=a"}.send(d)
	if text := w.Body.String(); !strings.Contains(text, `"actor":"ci"`) ||
		!strings.Contains(text, `"action":"product create"`) ||
		strings.Contains(text, "token") {
		t.Errorf("the audit log: %s", text)
	}
}

// TestMarkup: names and labels full of markup are stored unchanged, and every reply escapes them.
func TestMarkup(t *testing.T) {
	d := begin(t, nil)
	const nasty = `<script>alert("x")</script>&'`
	body, err := json.Marshal(map[string]any{"name": "a", "kind": "groups", "label": nasty})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []query{
		{method: "POST", path: "/v1/products", body: string(body), token: "writer"},
		{method: "GET", path: "/v1/products/a"},
		{method: "POST", path: "/v1/products", body: strings.Replace(string(body), `"a"`, `"<b>"`, 1), token: "writer"},
		{method: "GET", path: "/v1/products/%3Cscript%3E"},
		{method: "GET", path: "/v1/products/a/groups/%3Cscript%3E"},
		{method: "POST", path: "/v1/products/a/slots", body: `{"ranges":[{"group":"<script>"}]}`, token: "writer"},
		{method: "POST", path: "/v1/products/a/plan", body: `{"drain":"<script>"}`},
		{method: "DELETE", path: "/v1/products/a/proxies/%3Cscript%3E", token: "writer"},
		{method: "GET", path: "/v1/audit"},
		{method: "PUT", path: "/v1/products/a/sentinels", body: `{"addresses":["<script>:1"]}`, token: "writer"},
	} {
		w := q.send(d)
		if strings.ContainsAny(w.Body.String(), "<>") {
			t.Errorf("%s %s answers with markup: %s", q.method, q.path, w.Body)
		}
		if kind := w.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %s answers with %s", q.method, q.path, kind)
		}
	}
	var view productView
	w := query{method: "GET", path: "/v1/products/a"}.send(d)
	if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || view.Product.Label != nasty {
		t.Errorf("%q, %v", view.Product.Label, err)
	}
}

// TestDamagedEntries: a reply lists each entry that is damaged, unknown or of an old schema. Only requests that need
// such an entry are refused.
func TestDamagedEntries(t *testing.T) {
	d := begin(t, nil)
	query{method: "POST", path: "/v1/products", body: `{"name":"a","kind":"groups"}`, token: "writer"}.send(d)
	put := func(key, value string) {
		if _, err := d.store.Commit(t.Context(), nil,
			[]store.Write{{Key: "/spindle/a/" + key, Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	put("groups/g", `{"schema":"spindle.group/0","id":"g"}`)
	put("groups/h", `{`)
	put("stranger", `{}`)
	var view productView
	w := query{method: "GET", path: "/v1/products/a"}.send(d)
	if err := json.Unmarshal(w.Body.Bytes(), &view); err != nil || len(view.Refused) != 3 {
		t.Fatalf("%s, %v", w.Body, err)
	}
	text := strings.Join(view.Refused, "\n")
	for _, want := range []string{"/spindle/a/groups/g", "spindle.group/0", "/spindle/a/groups/h", "/spindle/a/stranger"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	put("slots", `{"schema":"spindle.slots/1","slots":16384,"ranges":[{"from":0,"to":1,"group":"g"}]}`)
	w = query{method: "POST", path: "/v1/products/a/plan", body: `{"balance":"slots"}`}.send(d)
	if got := codeOf(t, w); got != "damaged" || !strings.Contains(w.Body.String(), "/spindle/a/groups/g") {
		t.Errorf("a plan over a damaged group: %s", w.Body)
	}
	put("product", `{}`)
	if got := codeOf(t, query{method: "GET", path: "/v1/products/a"}.send(d)); got != "damaged" {
		t.Error(got)
	}
}

// TestOpenAPI: openapi.json lists exactly the routes of the program, and the bodies have the same fields in both.
func TestOpenAPI(t *testing.T) {
	type schema struct {
		Ref        string `json:"$ref"`
		Properties map[string]json.RawMessage
		Required   []string
	}
	var file struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct{ Schema schema }
			}
			Responses map[string]json.RawMessage
			Security  *[]map[string][]string
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(openAPI, &file); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for path, methods := range file.Paths {
		for method := range methods {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	d := begin(t, nil)
	for _, r := range append(d.routes(), route{method: "GET", path: "/healthz"},
		route{method: "GET", path: "/openapi.json"}) {
		name := r.method + " " + r.path
		if !described[name] {
			t.Errorf("openapi.json lacks %s", name)
		}
		delete(described, name)
		operation := file.Paths[r.path][strings.ToLower(r.method)]
		if (operation.RequestBody != nil) != (r.body != nil) {
			t.Errorf("%s: has the file a body: %t", name, operation.RequestBody != nil)
		}
		if operation.RequestBody == nil || r.body == nil {
			continue
		}
		ref := strings.TrimPrefix(operation.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
		var want, got []string
		for field := range file.Components.Schemas[ref].Properties {
			want = append(want, field)
		}
		body := reflect.TypeOf(r.body()).Elem()
		for i := range body.NumField() {
			field, _, _ := strings.Cut(body.Field(i).Tag.Get("json"), ",")
			got = append(got, field)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s takes %v, and openapi.json says %v", name, got, want)
		}
	}
	for name := range described {
		t.Errorf("openapi.json has %s, which is no route", name)
	}
	for _, ref := range strings.Split(string(openAPI), `"$ref": "#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		if _, ok := file.Components.Schemas[name]; !ok {
			t.Errorf("openapi.json refers to %s, which it lacks", name)
		}
	}
	if w := (query{method: "GET", path: "/openapi.json"}).send(d); w.Body.String() != string(openAPI) {
		t.Error("the file is not served")
	}
}

// TestPage: dashboard.conf has every directive that only a dashboard has, with its default.
func TestPage(t *testing.T) {
	s := &settings{}
	registry, err := s.registry()
	if err != nil {
		t.Fatal(err)
	}
	_, chapters, err := config.Chapters(registry, page)
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, c := range chapters {
		for _, directive := range c.Directives {
			stated[directive.Name] = strings.Join(directive.Args, " ")
		}
	}
	for _, row := range append(s.rows(), s.store.Rows()...) {
		args, ok := stated[row.Name]
		words, err := setting.SplitArgs(args)
		if err != nil || !ok || strings.Join(words, " ") != row.Default() {
			t.Errorf("%s is %q by default, and dashboard.conf says %q, %t", row.Name, row.Default(), args, ok)
		}
	}
}

// FuzzRequest: no body makes a route panic, or reply with anything but JSON. With a store that has only one product, no
// body causes a server error either.
func FuzzRequest(f *testing.F) {
	d := begin(f, nil)
	query{method: "POST", path: "/v1/products", body: `{"name":"a","kind":"groups"}`, token: "writer"}.send(d)
	routes := d.routes()
	for i, r := range routes {
		f.Add(i, r.path, `{"name":"b","kind":"groups","steps":[{"from":0,"to":1,"source":"a","target":"b"}]}`)
	}
	f.Add(4, "a", `{"balance":"slots"}`)
	f.Fuzz(func(t *testing.T, which int, name, body string) {
		r := routes[uint(which)%uint(len(routes))]
		if r.path == "/v1/tokens/{token}" || strings.Contains(body, `:`) && strings.Contains(body, "address") {
			return // it would connect to the address in the body
		}
		request := httptest.NewRequest(r.method, "/", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		for _, part := range []string{"product", "group", "server", "proxy"} {
			request.SetPathValue(part, name)
		}
		c := &call{ctx: t.Context(), r: request, who: actor{"fuzz", store.RoleWrite}}
		w := httptest.NewRecorder()
		if r.body != nil {
			c.body = r.body()
			if err := readBody(w, request, c.body); err != nil {
				if status := explain(err).status; status/100 != 4 {
					t.Fatalf("a body is refused with %d: %v", status, err)
				}
				return
			}
			if o, ok := c.body.(*newProduct); ok && (o.Kind == store.KindCluster || len(o.Seeds) > 0) {
				return
			}
			if o, ok := c.body.(*newGroup); ok && o.Primary != "" {
				return
			}
		}
		v, err := r.run(c)
		if err != nil {
			refuse(w, explain(err), "")
		} else {
			answer(w, http.StatusOK, v)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s with %q answers %q", r.method, r.path, body, w.Body)
		}
		if w.Code/100 == 5 && w.Code != http.StatusBadGateway {
			t.Fatalf("%s %s with %q: %d %s", r.method, r.path, body, w.Code, w.Body)
		}
	})
}

// FuzzNodes: no reply of CLUSTER NODES makes parseNodes panic or return a slot number that does not exist.
func FuzzNodes(f *testing.F) {
	f.Add("id 127.0.0.1:1@2,host myself,master - 0 0 1 connected 0-5 7 [8->-other] [9-<-other]\n")
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := parseNodes(text)
		if err != nil {
			return
		}
		for _, n := range nodes {
			for _, r := range n.slots {
				if r[0] < 0 || r[1] < r[0] || r[1] >= clusterSlots {
					t.Fatalf("slots %v", r)
				}
			}
		}
	})
}

// TestIsOwnAddress: isOwnAddress accepts only addresses that lead from here to the proxy.
func TestIsOwnAddress(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address, host string
		want          bool
	}{
		{"10.0.0.1:7000", "other", true}, {"proxy.example:7000", "other", true}, {"127.0.0.1:7000", own, true},
		{"127.0.0.1:7000", "other", false}, {"[::1]:7000", "other", false}, {"localhost:7000", "", false},
		{"0.0.0.0:7000", own, false}, {"[::]:7000", own, false}, {":7000", own, false}, {"/run/proxy.sock", own, false},
		{"", own, false},
	} {
		if got := isOwnAddress(c.address, c.host); got != c.want {
			t.Errorf("%s of %s: %t", c.address, c.host, got)
		}
	}
}
