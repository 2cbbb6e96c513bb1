package server

import (
	"errors"
	"strings"

	"spindle/internal/setting"
)

// clusterSettings belong to Redis Cluster, which is still to come.
type clusterSettings struct {
	enabled, coverage, readsDown, pubsubDown, migration, noFailover                     setting.Bool
	file, announceIP, hostname, nodeName                                                setting.String
	port, busPort, announcePort, announceTLS, barrier, validity, nodeTimeout, pingEvery setting.Int
	endpoint                                                                            setting.Enum[int]
	linkLimit                                                                           setting.Uint
}

func (s *clusterSettings) rows() []setting.Row {
	none := setting.Nothing("cluster mode is not there yet")
	port := setting.Between(0, maxPort)
	return []setting.Row{
		setting.NewBool("cluster-enabled", &s.enabled, false, setting.Immutable, none),
		setting.NewString("cluster-config-file", &s.file, "nodes.conf", setting.Immutable, none),
		setting.NewInt("cluster-node-timeout", &s.nodeTimeout, 15000, setting.Between(0, maxLong), none),
		setting.NewInt("cluster-ping-interval", &s.pingEvery, 0, setting.Between(0, maxLong), setting.Hidden, none),
		setting.NewInt("cluster-port", &s.port, 0, port, setting.Immutable, none),
		setting.NewString("cluster-announce-ip", &s.announceIP, "", none),
		setting.NewInt("cluster-announce-port", &s.announcePort, 0, port, none),
		setting.NewInt("cluster-announce-tls-port", &s.announceTLS, 0, port, none),
		setting.NewInt("cluster-announce-bus-port", &s.busPort, 0, port, none),
		setting.NewString("cluster-announce-hostname", &s.hostname, "", setting.CheckString(checkHostname), none),
		setting.NewString("cluster-announce-human-nodename", &s.nodeName, "", setting.CheckString(checkNodeName), none),
		setting.NewEnum("cluster-preferred-endpoint-type", &s.endpoint, 0, []setting.Choice[int]{
			{Name: "ip", Value: 0}, {Name: "hostname", Value: 1}, {Name: "unknown-endpoint", Value: 2},
		}, none),
		setting.NewBool("cluster-require-full-coverage", &s.coverage, true, none),
		setting.NewBool("cluster-allow-reads-when-down", &s.readsDown, false, none),
		setting.NewBool("cluster-allow-pubsubshard-when-down", &s.pubsubDown, true, none),
		setting.NewBool("cluster-allow-replica-migration", &s.migration, true, none),
		setting.NewInt("cluster-migration-barrier", &s.barrier, 1, setting.Between(0, maxInt), none),
		setting.NewBool("cluster-replica-no-failover", &s.noFailover, false, setting.Also("cluster-slave-no-failover"), none),
		setting.NewInt("cluster-replica-validity-factor", &s.validity, 10, setting.Between(0, maxInt), setting.Also("cluster-slave-validity-factor"), none),
		setting.NewMemoryUint("cluster-link-sendbuf-limit", &s.linkLimit, 0, none),
	}
}

// maxHostname counts a terminating zero, as C does.
const maxHostname = 256

func checkHostname(name string) error {
	if len(name) >= maxHostname {
		return errors.New("Hostnames must be less than 256 characters")
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '-' && c != '.' {
			return errors.New("Hostnames may only contain alphanumeric characters, hyphens or dots")
		}
	}
	return nil
}

func checkNodeName(name string) error {
	if strings.ContainsAny(name, "!#$%&()*+:;<>?@[]^{|}~") {
		return errors.New("Announced human node name contained invalid character")
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
