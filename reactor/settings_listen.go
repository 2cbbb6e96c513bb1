package reactor

import (
	"errors"
	"math"
	"strings"

	"spindle/internal/setting"
)

// ListenSettings say where the reactor listens and with how many loops. They are read when the reactor is made. CONFIG
// SET can change Bind and the ports later, through [Reactor.Rebind].
type ListenSettings struct {
	Bind           setting.Value[[]string]
	Port           setting.Int // 0: no TCP
	TLSPort        setting.Int // 0: no TLS
	UnixSocket     setting.String
	UnixSocketPerm setting.Int // a file mode; 0 leaves it to the umask
	UnixGroup      setting.String
	Backlog        setting.Int // tcp-backlog
	MarkID         setting.Int // socket-mark-id
	Loops          setting.Int // io-threads
	loopsGiven     setting.Bool

	unread struct {
		accepts    setting.Int
		threadRead setting.Bool
	}
}

// Rows returns the settings for CONFIG and the configuration file, and gives each its default.
func (s *ListenSettings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("bind", &s.Bind, []string{"*", "-::*"}, Addresses, setting.MultiArg),
		setting.NewInt("port", &s.Port, 6379, setting.Between(0, math.MaxUint16)),
		setting.NewInt("tls-port", &s.TLSPort, 0, setting.Between(0, math.MaxUint16)),
		setting.NewString("unixsocket", &s.UnixSocket, "", setting.Immutable),
		setting.NewString("unixsocketgroup", &s.UnixGroup, "", setting.Immutable),
		setting.NewOctal("unixsocketperm", &s.UnixSocketPerm, 0, setting.Between(0, 0o777), setting.Immutable),
		setting.NewInt("tcp-backlog", &s.Backlog, 511, setting.Between(0, math.MaxInt32), setting.Immutable),
		setting.NewInt("socket-mark-id", &s.MarkID, 0, setting.Between(0, math.MaxUint32), setting.Immutable),
		setting.NewInt("max-new-connections-per-cycle", &s.unread.accepts, 10, setting.Between(1, 1000),
			setting.Nothing("a loop takes the connections that are there, a bounded number a turn")),
		setting.NewInt("io-threads", &s.Loops, 1, setting.Between(1, 128), setting.Immutable,
			setting.ChosenUnless(&s.loopsGiven)),
		setting.NewBool("io-threads-do-reads", &s.unread.threadRead, false, setting.Immutable,
			setting.Nothing("event loops always read")),
	}
}

// Most returns Options.Most: how many loops may be chosen, or 0 if io-threads sets the number.
func (s *ListenSettings) Most() int {
	if s.loopsGiven.Get() {
		return 0
	}
	return MostLoops()
}

// Addresses is the text form of addresses to listen on.
var Addresses = setting.Codec[[]string]{
	Parse: parseAddresses, Format: func(a []string) string { return strings.Join(a, " ") },
}

// maxAddresses bounds the addresses of a bind line.
const maxAddresses = 16

func parseAddresses(args []string, _ []string, _ setting.How) ([]string, error) {
	if len(args) > maxAddresses {
		return nil, errors.New("Too many bind addresses specified.")
	}
	if len(args) == 1 && args[0] == "" {
		return nil, nil
	}
	return append([]string(nil), args...), nil
}
