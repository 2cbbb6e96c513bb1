package server

import (
	"errors"
	"strings"

	"spindle/internal/setting"
)

// networkSettings are what the reactor is started with, and what it does not read yet.
type networkSettings struct {
	Bind               setting.Value[[]string]
	BindSource         setting.String
	Port               setting.Int
	UnixSocket         setting.String
	UnixSocketPerm     setting.Int
	Backlog            setting.Int
	MarkID             setting.Int
	AcceptsPerCycle    setting.Int
	TLSAcceptsPerCycle setting.Int
	IOThreads          setting.Int
	unread             struct{ threadsRead setting.Bool }
}

func (s *networkSettings) rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("bind", &s.Bind, []string{"*", "-::*"}, setting.Codec[[]string]{
			Parse: parseAddresses, Format: func(a []string) string { return strings.Join(a, " ") },
		}, setting.MultiArg),
		setting.NewString("bind-source-addr", &s.BindSource, "", setting.Nothing("this version opens no connections of its own")),
		setting.NewInt("port", &s.Port, 6379, setting.Between(0, maxPort)),
		setting.NewString("unixsocket", &s.UnixSocket, "", setting.Immutable),
		setting.NewOctal("unixsocketperm", &s.UnixSocketPerm, 0, setting.Between(0, 0o777), setting.Immutable),
		setting.NewInt("tcp-backlog", &s.Backlog, 511, setting.Between(0, maxInt), setting.Immutable),
		setting.NewInt("socket-mark-id", &s.MarkID, 0, setting.Between(0, maxUint), setting.Immutable),
		setting.NewInt("max-new-connections-per-cycle", &s.AcceptsPerCycle, 10, setting.Between(1, 1000), setting.Nothing("a loop takes the connections that are there, a bounded number a turn")),
		setting.NewInt("max-new-tls-connections-per-cycle", &s.TLSAcceptsPerCycle, 1, setting.Between(1, 1000), setting.Nothing(noTLS)),
		setting.NewInt("io-threads", &s.IOThreads, 1, setting.Between(1, 128), setting.Immutable),
		setting.NewBool("io-threads-do-reads", &s.unread.threadsRead, false, setting.Immutable, setting.Nothing("event loops always read")),
	}
}

// maxAddresses is how many a bind line may name.
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
