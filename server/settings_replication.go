package server

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// replicationSettings belong to a replica, which this server cannot be yet. The primary's side is in package
// replication.
type replicationSettings struct {
	unread struct {
		of                                                                             setting.Value[primaryAddress]
		user, auth, announceIP, source                                                 setting.String
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
		setting.NewValue("replicaof", &u.of, primaryAddress{}, setting.Codec[primaryAddress]{
			Parse: parsePrimary, Format: formatPrimary, Lines: func(p primaryAddress) []string {
				if p.Host == "" {
					return nil
				}
				return []string{formatPrimary(p)}
			},
		}, setting.Also("slaveof"), setting.Immutable, setting.MultiArg, replica),
		setting.NewString("bind-source-addr", &u.source, "", setting.Nothing("this version opens no connections of its own")),
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
