package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"spindle/proxy/store"
)

// A guard decides what a request may do.
//
//	the page, /healthz and /openapi.json   for a known host; they hold nothing of a product
//	reading                                for a known host, with any token; with none if none is set
//	writing                                for a known host, with a token for writing, from no foreign page
//
// A foreign page may make a browser send a request. The request's Origin is then that page's. If an attacker's host
// name resolves to this address, the request has that name as its Host.
type guard struct {
	d    *Dashboard
	host string // the host of dashboard-url
}

// An actor is the holder of a token.
type actor struct {
	name string // the name of the token
	role string // "" means no rights
}

// These names stand for the tokens in the configuration, and for no token.
const (
	readToken  = "dashboard-read-token"
	writeToken = "dashboard-write-token"
	noToken    = "anonymous"
)

// admit returns the actor of a request, or the reason why the request is refused.
func (g *guard) admit(r *http.Request, role string) (actor, *failure) {
	if !g.knows(r.Host) {
		return actor{}, failed(http.StatusForbidden, "unknown_host",
			"this dashboard is not known under that name: see dashboard-host")
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r) {
		return actor{}, failed(http.StatusForbidden, "foreign_page", "asked by a foreign page")
	}
	who, problem := g.identify(r.Context(), shown(r))
	switch {
	case who.role == store.RoleWrite, who.role == store.RoleRead && role == store.RoleRead:
		return who, nil
	case problem != nil:
		return actor{}, failed(http.StatusServiceUnavailable, "store",
			"the store does not answer, so that its tokens are unknown: %s", problem)
	case who.role == store.RoleRead:
		return actor{}, failed(http.StatusForbidden, "read_only", "a token for writing is needed")
	}
	return actor{}, failed(http.StatusUnauthorized, "no_token", "a token is needed")
}

// shown returns the token of a request: a bearer token, or the password of basic authentication.
func shown(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, token, _ = r.BasicAuth()
	}
	return token
}

// identify finds the actor of a token. Each comparison takes the same time for every token. A problem means that the
// tokens in the store could not be read.
func (g *guard) identify(ctx context.Context, shown string) (found actor, problem error) {
	sum := sha256.Sum256([]byte(shown))
	if g.d.s.ReadToken.Get() == "" {
		found = actor{noToken, store.RoleRead}
	}
	if shown == "" {
		return found, nil
	}
	for _, own := range []struct{ name, token, role string }{
		{readToken, g.d.s.ReadToken.Get(), store.RoleRead}, {writeToken, g.d.s.WriteToken.Get(), store.RoleWrite}} {
		want := sha256.Sum256([]byte(own.token))
		if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && own.token != "" {
			found = actor{own.name, own.role}
		}
	}
	if found.role == store.RoleWrite {
		return found, nil
	}
	entries, _, err := g.d.store.List(ctx, g.d.key("tokens", ""))
	for _, e := range entries {
		var t store.Token
		if store.Decode(e, &t) != nil {
			continue // a damaged token gives no rights
		}
		want, err := hex.DecodeString(t.Hash)
		if err == nil && subtle.ConstantTimeCompare(sum[:], want) == 1 && found.role != store.RoleWrite {
			found = actor{t.Name, t.Role}
		}
	}
	return found, err
}

// knows reports whether a Host header names this machine: by an address, as localhost, by the machine's name, or by a
// configured name.
func (g *guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if net.ParseIP(strings.Trim(host, "[]")) != nil || host == "localhost" {
		return true
	}
	own, err := os.Hostname()
	return err == nil && host == strings.ToLower(own) ||
		host != "" && (host == strings.ToLower(g.d.s.Host.Get()) || host == strings.ToLower(g.host))
}

// sameOrigin reports whether the page that sent the request came from this dashboard.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}
