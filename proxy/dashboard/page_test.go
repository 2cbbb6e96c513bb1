package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestPageFiles: the page's files are served to known hosts without a token. Their policy allows no other sources.
func TestPageFiles(t *testing.T) {
	d := begin(t, func(s *settings) { s.ReadToken.Set("reader") })
	for path, kind := range map[string]string{"/": "text/html", "/page/app.js": "text/javascript",
		"/page/ask.js": "text/javascript", "/page/draw.js": "text/javascript", "/page/actions.js": "text/javascript",
		"/page/style.css": "text/css", "/page/icon.svg": "image/svg+xml"} {
		w := query{method: "GET", path: path}.send(d)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != kind+"; charset=utf-8" || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s, %d bytes", path, w.Code, h.Get("Content-Type"), w.Body.Len())
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s has the policy %q, without %q", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, h)
		}
		if got := codeOf(t, query{method: "GET", path: path, host: "evil.example"}.send(d)); got != "unknown_host" {
			t.Errorf("%s for a foreign host: %s", path, got)
		}
	}
	for _, path := range []string{"/page/", "/page/index.html", "/page/none.js"} {
		if w := (query{method: "GET", path: path}).send(d); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// outside matches code that would load something from elsewhere, make markup of a text, or store a token.
var outside = regexp.MustCompile(`(?:src|href)=["']?(?:https?:)?//|@import|url\(|innerHTML|outerHTML|insertAdjacent|` +
	`document\.write|\beval\b|sessionStorage|cookie`)

// TestPageAsksNothingOutside: no file of the page refers to another address or makes markup of a text.
func TestPageAsksNothingOutside(t *testing.T) {
	entries, err := pageFiles.ReadDir("page")
	if err != nil || len(entries) < 7 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		text, err := pageFiles.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := outside.Find(text); found != nil {
			t.Errorf("%s has %q", e.Name(), found)
		}
	}
}
