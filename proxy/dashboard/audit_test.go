package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/proxy/store"
)

// TestAuditInOneLine: no text of a request begins a line of the log, where it would look like another action.
func TestAuditInOneLine(t *testing.T) {
	d, file := begin(t, nil), filepath.Join(t.TempDir(), "log")
	d.log.ToFile(file)
	query{method: "POST", path: "/v1/tokens", body: `{"name":"a\n1:D forged","role":"read"}`, token: "writer"}.send(d)
	query{method: "DELETE", path: "/v1/products/a%0A1:D%20forged", token: "writer"}.send(d)
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "Audit: ") != 2 || strings.Contains(string(text), "\n1:D forged") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestAuditWithoutLead: an action of a dashboard that has lost its lead meanwhile is in the audit log. Servers have
// carried out a part of it.
func TestAuditWithoutLead(t *testing.T) {
	d := begin(t, patient)
	next := fake(t, func(_ *fakeServer, words []string) string {
		if words[0] == "REPLICAOF" {
			loseLead(d)
		}
		return ""
	})
	groupsAt(t, d, next)
	put(t, d, "groups/g0", &store.Group{ID: "g0", Primary: "127.0.0.1:1",
		Servers: []store.Server{{Address: "127.0.0.1:1"}, {Address: next.address}}})
	code, text := post(t, d, "POST", "/groups/g0/promote", `{"server":"`+next.address+`","force":true}`)
	if code != "not_active" {
		t.Errorf("%s", text)
	}
	if got := auditOf(t, d); len(got) != 1 || got[0].Action != "server promote" {
		t.Errorf("the audit log has %+v", got)
	}
}

// auditOf returns the entries of the audit log in the store.
func auditOf(t testing.TB, d *Dashboard) (list []store.Audit) {
	t.Helper()
	entries, _, err := d.store.List(t.Context(), d.key("audit", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var a store.Audit
		if err := store.Decode(e, &a); err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// TestAuditIsBounded: dashboards that end after a few actions each do not let the audit log grow without bound.
func TestAuditIsBounded(t *testing.T) {
	d := begin(t, nil)
	value, err := store.Encode(&store.Audit{Actor: "ci", Action: "token create", Outcome: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	var writes []store.Write
	for i := range auditKept + 2*auditSlack {
		writes = append(writes, store.Write{Key: d.key("audit", fmt.Sprintf("%020d-0001", i)), Value: value})
	}
	if _, err := d.store.Commit(t.Context(), nil, writes); err != nil {
		t.Fatal(err)
	}
	post(t, d, "POST", "/slots", `{}`)
	if got := auditOf(t, d); len(got) > auditKept+auditSlack || got[len(got)-1].Action != "slots assign" {
		t.Errorf("the audit log has %d entries", len(got))
	}
	var reply struct{ Audit []store.Audit }
	w := query{method: "GET", path: "/v1/audit?limit=1"}.send(d)
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || len(reply.Audit) != 1 ||
		reply.Audit[0].Action != "slots assign" {
		t.Errorf("%s, %v", w.Body, err)
	}
}
