package dashboard

import (
	"embed"
	"net/http"
	"path"
)

// pageFiles are the page for operators. It shows what the API answers, and changes things by the API alone.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and connect to its own dashboard, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageKinds maps the extensions of the page's files to media types.
var pageKinds = map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript",
	".svg": "image/svg+xml"}

// pages returns handlers of the page's files by path. The files hold nothing of a product and need no token.
func pages() map[string]http.HandlerFunc {
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err) // it is embedded
	}
	served := map[string]http.HandlerFunc{}
	for _, e := range entries {
		at := "/page/" + e.Name()
		if e.Name() == "index.html" {
			at = "/{$}"
		}
		body, err := pageFiles.ReadFile(path.Join("page", e.Name()))
		if err != nil {
			panic(err) // it is embedded
		}
		served[at] = func(w http.ResponseWriter, _ *http.Request) {
			secure(w.Header())
			w.Header().Set("Content-Security-Policy", pagePolicy)
			w.Header().Set("Content-Type", pageKinds[path.Ext(e.Name())]+"; charset=utf-8")
			_, _ = w.Write(body)
		}
	}
	return served
}
