package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callCtl runs ctl against a server, and returns its output.
func callCtl(at string, args ...string) (code int, out, errors string) {
	var o, e bytes.Buffer
	code = ctlTool(process{args: append([]string{"--url", at}, args...), out: &o, err: &e})
	return code, o.String(), e.String()
}

// arguments has examples of the arguments in usages.
var arguments = map[string]string{"groups|cluster": "groups", "read|write": "read", "SLOTS": "0-9", "KEYS": "5",
	"PRIMARY": "h:1", "ADDRESS": "h:1", "REPLICA": "h:2", "FILE": "testdata/codis.json"}

// example returns an example of a call of a command.
func (c *ctlCommand) example() []string {
	words := strings.Fields(c.name)
	for word := range strings.FieldsSeq(c.args) {
		if word == "...]" {
			break
		}
		word = strings.Trim(word, "[]")
		if value := arguments[word]; value != "" {
			word = value
		}
		words = append(words, word)
	}
	switch c.name {
	case "plan":
		words = append(words, "--balance", "slots", "--start")
	}
	return words
}

// TestCtlReachesEveryRoute: ctl has a command for every route of the dashboard's API.
func TestCtlReachesEveryRoute(t *testing.T) {
	text, err := os.ReadFile("../../proxy/dashboard/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		_, _ = w.Write([]byte(`{"steps":[{"from":0,"to":1,"source":"a","target":"b"}]}`))
	}))
	defer server.Close()
	for i := range ctlCommands {
		words := ctlCommands[i].example()
		if code, _, complaint := callCtl(server.URL, words...); code != 0 {
			t.Errorf("%v: %d %s", words, code, complaint)
		}
	}
	for path, methods := range file.Paths {
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		like := regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path),
			"[^/]+") + "$")
		for method := range methods {
			if !slices.ContainsFunc(asked, func(request string) bool {
				m, p, _ := strings.Cut(request, " ")
				return strings.EqualFold(m, method) && like.MatchString(p)
			}) {
				t.Errorf("no command of ctl asks for %s %s", strings.ToUpper(method), path)
			}
		}
	}
}

func TestCtlRequests(t *testing.T) {
	var got string
	reply := `{}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + " " +
			body.String())
		_, _ = w.Write([]byte(reply))
	}))
	defer server.Close()
	for _, c := range []struct{ args, want string }{
		{"products", "GET /v1/products"},
		{"--token x products", "GET /v1/products Bearer x"},
		{"product change p --label", ""},
		{"product change p --label=", `PATCH /v1/products/p  {"label":""}`},
		{"group change --draining yes p g", `PATCH /v1/products/p/groups/g  {"draining":true}`},
		{"group change p g --draining maybe", ""},
		{"group show a/b ../c", "GET /v1/products/a%2Fb/groups/..%2Fc"},
		{"slots assign p 0-9,12 g", `POST /v1/products/p/slots  {"even":false,"ranges":[{"from":0,"group":"g","to":9},` +
			`{"from":12,"group":"g","to":12}]}`},
		{"slots assign p --even", `POST /v1/products/p/slots  {"even":true}`},
		{"slots assign p 9-0 g", ""},
		{"slots assign p", ""},
		{"plan p --move 3 --to g", `POST /v1/products/p/plan  {"move":{"ranges":[[3,3]],"target":"g"}}`},
		{"move pace p 7", `PATCH /v1/products/p/move  {"pace":7}`},
		{"move pace p x", ""},
		{"audit --limit 3 --product p", "GET /v1/audit?limit=3&product=p"},
		{"products --pace 3", ""},
		{"products extra", ""},
		{"nonsense", ""},
		{"", ""},
	} {
		got = ""
		code, _, _ := callCtl(server.URL, strings.Fields(c.args)...)
		if got != c.want || (code == 0) != (c.want != "") {
			t.Errorf("%s: exit code %d, asks %q, want %q", c.args, code, got, c.want)
		}
	}
	reply = `{"products":["a","` + "\\u001b[31m" + `"]}`
	if _, out, _ := callCtl(server.URL, "products"); out != "a\n\\x1b[31m\n" {
		t.Errorf("names for a terminal: %q", out)
	}
	if _, out, _ := callCtl(server.URL, "products", "--json"); out != reply {
		t.Errorf("--json: %q", out)
	}
	if code, out, _ := callCtl(server.URL, "--help"); code != 0 || !strings.Contains(out, "move pause PRODUCT") {
		t.Errorf("--help: %d %s", code, out)
	}
}

func TestReadCodis(t *testing.T) {
	for text, want := range map[string]string{
		`[{"id":0,"group_id":1,"action":{}},{"id":1,"group_id":2},{"id":2,"group_id":0}]`: "1 2 0",
		`{"/codis3/a/slots/slot-0001":{"id":1,"group_id":7,"action":{}}}`:                 "0 7 0",
		`[{"id":2,"backend_addr":"h:1","backend_addr_group_id":3,"locked":false}]`:        "0 0 3",
		`[{"id":1024,"group_id":1}]`:                                           "",
		`[{"id":-1,"group_id":1}]`:                                             "",
		`[{"id":1,"group_id":1},{"id":1,"group_id":1}]`:                        "",
		`[{"id":1,"group_id":1,"action":{"state":"migrating","target_id":2}}]`: "",
		`[{"id":1,"backend_addr_group_id":1,"migrate_from":"h:1"}]`:            "",
		`[{"id":1,"group_id":-1}]`:                                             "",
		`[{"group_id":1}]`:                                                     "",
		`[`:                                                                    "",
		`{"a":1}`:                                                              "",
	} {
		groups, err := readCodis([]byte(text))
		got := ""
		if err == nil {
			got = fmt.Sprint(groups[0], groups[1], groups[2])
		}
		if got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestCtlErrors: a dashboard's errors are printed unchanged. The redirection of a ready dashboard is followed, with the
// token.
func TestCtlErrors(t *testing.T) {
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"no_token","message":"a token is needed"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"products":["a"]}`))
	}))
	defer active.Close()
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, active.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer ready.Close()
	if code, out, complaint := callCtl(ready.URL, "--token", "x", "products"); code != 0 || out != "a\n" {
		t.Errorf("%d %q %q", code, out, complaint)
	}
	if code, _, complaint := callCtl(ready.URL, "products"); code != 1 || complaint != "a token is needed\n" {
		t.Errorf("%d %q", code, complaint)
	}
	active.Close()
	if code, _, complaint := callCtl(active.URL, "products"); code != 1 || !strings.Contains(complaint,
		"does not answer") {
		t.Errorf("%d %q", code, complaint)
	}
}

// TestCtlKeepsItsToken: a dashboard that was asked over https does not send the token on over http.
func TestCtlKeepsItsToken(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token is sent in the clear: %s", r.Header.Get("Authorization"))
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/v1/products", http.StatusTemporaryRedirect))
	defer secure.Close()
	code, _, complaint := callCtl(secure.URL, "--insecure", "--token", "secret", "products")
	if code != 1 || !strings.Contains(complaint, "no https") {
		t.Errorf("%d %s", code, complaint)
	}
}
