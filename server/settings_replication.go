package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// replicationSettings belong to replication: the primary's side first, then the replica's.
type replicationSettings struct {
	BacklogSize      setting.Int
	BacklogTTL       setting.Int
	DisableNoDelay   setting.Bool
	Diskless         setting.Bool
	DisklessDelay    setting.Int
	DisklessReplicas setting.Int
	Propagation      setting.Enum[int] // propagation-error-behavior

	unread struct {
		of                                                                             setting.Value[primaryAddress]
		user, auth, announceIP                                                         setting.String
		staleData, readOnly, lazyFlush, ignoreMemory, announced, ignoreErrors, diskful setting.Bool
		announcePort, priority                                                         setting.Int
		load                                                                           setting.Enum[int]
	}
}

// A primaryAddress is whom to replicate; the zero value is nobody.
type primaryAddress struct {
	Host string
	Port int
}

func (s *replicationSettings) rows() []setting.Row {
	u := &s.unread
	replica := setting.Nothing("this server cannot be a replica yet")
	return []setting.Row{
		setting.NewMemory("repl-backlog-size", &s.BacklogSize, 1<<20, setting.Between(1, maxLong), setting.Clamp(16<<10, maxLong), setting.Nothing(noBacklog)),
		setting.NewInt("repl-backlog-ttl", &s.BacklogTTL, 3600, setting.Between(0, maxLong), setting.Nothing(noBacklog)),
		setting.NewBool("repl-disable-tcp-nodelay", &s.DisableNoDelay, false, setting.Nothing("connections never wait to fill a packet")),
		setting.NewBool("repl-diskless-sync", &s.Diskless, true, setting.Nothing("a full sync is always sent from memory")),
		setting.NewInt("repl-diskless-sync-delay", &s.DisklessDelay, 5, setting.Between(0, maxInt), setting.Nothing("each replica has a full sync of its own, at once")),
		setting.NewInt("repl-diskless-sync-max-replicas", &s.DisklessReplicas, 0, setting.Between(0, maxInt), setting.Nothing("each replica has a full sync of its own, at once")),
		setting.NewEnum("propagation-error-behavior", &s.Propagation, 0, []setting.Choice[int]{
			{Name: "ignore", Value: 0}, {Name: "panic", Value: 1}, {Name: "panic-on-replicas", Value: 2},
		}, setting.Nothing("only a replica meets such errors, and this server cannot be one yet")),

		setting.NewValue("replicaof", &u.of, primaryAddress{}, setting.Codec[primaryAddress]{
			Parse: parsePrimary, Format: formatPrimary, Lines: func(p primaryAddress) []string {
				if p.Host == "" {
					return nil
				}
				return []string{formatPrimary(p)}
			},
		}, setting.Also("slaveof"), setting.Immutable, setting.MultiArg, replica),
		setting.NewString("masteruser", &u.user, "", setting.Sensitive, replica),
		setting.NewString("masterauth", &u.auth, "", setting.Sensitive, replica),
		setting.NewString("replica-announce-ip", &u.announceIP, "", setting.Also("slave-announce-ip"), replica),
		setting.NewInt("replica-announce-port", &u.announcePort, 0, setting.Between(0, maxPort), setting.Also("slave-announce-port"), replica),
		setting.NewBool("replica-announced", &u.announced, true, replica),
		setting.NewInt("replica-priority", &u.priority, 100, setting.Between(0, maxInt), setting.Also("slave-priority"), replica),
		setting.NewBool("replica-serve-stale-data", &u.staleData, true, setting.Also("slave-serve-stale-data"), replica),
		setting.NewBool("replica-read-only", &u.readOnly, true, setting.Also("slave-read-only"), replica),
		setting.NewBool("replica-lazy-flush", &u.lazyFlush, false, setting.Also("slave-lazy-flush"), replica),
		setting.NewBool("replica-ignore-maxmemory", &u.ignoreMemory, true, setting.Also("slave-ignore-maxmemory"), replica),
		setting.NewBool("replica-ignore-disk-write-errors", &u.ignoreErrors, false, replica),
		setting.NewEnum("repl-diskless-load", &u.load, 0, []setting.Choice[int]{
			{Name: "disabled", Value: 0}, {Name: "on-empty-db", Value: 1}, {Name: "swapdb", Value: 2},
		}, setting.DenyLoading, replica),
	}
}

const noBacklog = "partial resynchronization is not there yet"

func parsePrimary(args []string, _ primaryAddress, _ setting.How) (primaryAddress, error) {
	var nobody primaryAddress
	if len(args) != 2 {
		return nobody, setting.ErrArguments
	}
	if strings.EqualFold(args[0], "no") && strings.EqualFold(args[1], "one") {
		return nobody, nil
	}
	port, err := strconv.Atoi(args[1])
	if err != nil || port < 0 || port > maxPort {
		return nobody, errors.New("Invalid master port")
	}
	return primaryAddress{args[0], port}, nil
}

func formatPrimary(p primaryAddress) string {
	if p.Host == "" {
		return ""
	}
	return fmt.Sprintf("%s %d", p.Host, p.Port)
}
