package live

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// A Guard decides which requests are served.
//
//	path                     host known   token, if one is set
//	page's own files         yes          no: they hold nothing of the server
//	/live/…                  yes          yes, and the request's Origin is this page
//	/debug/pprof             unless (a)   yes
//	/metrics                 no (b)       yes
//	/healthz                 no           no
//
// (a) With a token no host check is needed, because no foreign page knows the token.
//
// (b) Without a token, a request for an unknown host gets no names of keys.
//
// A foreign page may make a browser send a request. The request then has that page's Origin. If a foreign host name
// points to this address, the request has that name as its Host.
type Guard struct {
	Token string // "": none is required
	Host  string // another name of this machine; "": none
}

// policy lets the page load its own three files and talk to its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Known serves requests whose Host names this machine.
func (g *Guard) Known(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if g.admits(w, r) {
			next(w, r)
		}
	})
}

// admits refuses a request whose Host does not name this machine.
func (g *Guard) admits(w http.ResponseWriter, r *http.Request) bool {
	known := g.knows(r.Host)
	if !known {
		http.Error(w, "this address is not known under that name: see admin-host", http.StatusForbidden)
	}
	return known
}

// Profiled serves profiles. Their pages have inline styles, which Known would forbid.
func (g *Guard) Profiled(next http.HandlerFunc) http.Handler {
	return g.Locked(func(w http.ResponseWriter, r *http.Request) {
		if g.Token != "" || g.admits(w, r) {
			next(w, r)
		}
	})
}

// Trusts reports whether the reply may name keys. It is false for a page that reaches this address by DNS rebinding.
func (g *Guard) Trusts(r *http.Request) bool { return g.Token != "" || g.knows(r.Host) }

// Private serves this page's own requests. They need the token if one is set.
func (g *Guard) Private(next http.HandlerFunc) http.Handler {
	return g.Known(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r) {
			http.Error(w, "asked by a foreign page", http.StatusForbidden)
			return
		}
		g.Locked(next).ServeHTTP(w, r)
	})
}

// ReplyTime is how long the turn and the reply of an admitted request may take.
const ReplyTime = 2 * time.Minute

// Locked serves a client that shows the token: as a bearer token, or as the password of basic authentication. The
// latter is for tools that accept only an address. The reply may take ReplyTime.
func (g *Guard) Locked(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		if !g.Opens(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is needed", http.StatusUnauthorized)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ReplyTime))
		next(w, r)
	})
}

// Opens reports whether the request shows the token, or no token is set.
func (g *Guard) Opens(r *http.Request) bool {
	if g.Token == "" {
		return true
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, shown, _ = r.BasicAuth()
	}
	got, want := sha256.Sum256([]byte(shown)), sha256.Sum256([]byte(g.Token)) // equal lengths, whatever was shown
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// knows reports whether a Host header names this machine: by an address, localhost, the machine's name or the
// configured name.
func (g *Guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if net.ParseIP(strings.Trim(host, "[]")) != nil || host == "localhost" {
		return true
	}
	own, err := os.Hostname()
	return err == nil && host == strings.ToLower(own) || g.Host != "" && host == strings.ToLower(g.Host)
}

// sameOrigin reports whether the page that sends the request came from this server.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}
