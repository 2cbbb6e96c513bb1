package server

import (
	"errors"
	"slices"
	"strings"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/reactor"
)

var (
	errNoPort    = errors.New("Unable to listen on this port. Check server logs.")
	errNoAddress = errors.New("Failed to bind to specified addresses.")
)

// A listening has the addresses for clients.
type listening struct {
	settings *reactor.ListenSettings
	reactor  *reactor.Reactor
	log      *logging.Logger
	moved    func() // called when the addresses have changed
}

// kinds returns the kinds of listeners, as the log names them.
func (l *listening) kinds() (kinds []string) {
	n := l.settings
	if n.Port.Get() != 0 && len(n.Bind.Get()) > 0 {
		kinds = append(kinds, "tcp")
	}
	if n.UnixSocket.Get() != "" {
		kinds = append(kinds, "unix")
	}
	if n.TLSPort.Get() != 0 && len(n.Bind.Get()) > 0 {
		kinds = append(kinds, "tls")
	}
	return kinds
}

// port returns the TCP port, or the TLS port if there is no other.
func (l *listening) port() int64 {
	if port := l.settings.Port.Get(); port != 0 {
		return port
	}
	return l.settings.TLSPort.Get()
}

// replicaPort returns the port that this server reports to its primary.
func (l *listening) replicaPort(secure bool) int {
	if port := l.settings.TLSPort.Get(); port != 0 && secure {
		return int(port)
	}
	return int(l.settings.Port.Get())
}

// rebind applies CONFIG SET bind, port and tls-port. The client gets refusal; the log has the cause.
func (l *listening) rebind(refusal error) error {
	n := l.settings
	if err := l.reactor.Rebind(n.Bind.Get(), int(n.Port.Get()), int(n.TLSPort.Get())); err != nil {
		if err != reactor.ErrListen {
			l.log.Warning("%s", err)
		}
		return refusal
	}
	l.moved()
	return nil
}

// await resolves the host names in pairs and in the present bind list, outside the turn. A CONFIG SET that fails
// returns to that list. If there are names, await returns true, and calls done later on another goroutine.
func (l *listening) await(pairs []setting.Pair, done func()) bool {
	bind, rebinds := slices.Clone(l.settings.Bind.Get()), false
	for _, p := range pairs {
		switch strings.ToLower(p.Name) {
		case "bind":
			bind, rebinds = append(bind, strings.Fields(p.Value)...), true
		case "port", "tls-port":
			rebinds = true
		}
	}
	hosts := reactor.Unresolved(bind)
	if !rebinds || len(hosts) == 0 {
		return false
	}
	go func() {
		l.reactor.Resolve(hosts)
		done()
	}()
	return true
}
