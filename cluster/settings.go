package cluster

import (
	"errors"
	"math"
	"strings"
	"time"

	"spindle/cluster/state"
	"spindle/internal/setting"
	"spindle/internal/slots"
)

// Settings are the cluster-* parameters.
type Settings struct {
	Enabled, Coverage, ReadsDown, ShardsDown, Migration, NoFailover, SlotStats          setting.Bool
	File, AnnounceIP, Hostname, HumanName                                               setting.String
	Port, BusPort, AnnouncePort, AnnounceTLS, Barrier, Validity, NodeTimeout, PingEvery setting.Int
	Endpoint                                                                            setting.Enum[slots.EndpointType]
	LinkLimit                                                                           setting.Uint
	Databases                                                                           setting.Int
	ForgetFor                                                                           setting.Int // seconds
	ManualTimeout                                                                       setting.Int // ms
	Saves                                                                               setting.Enum[saves]
}

// A saves is what a node does when it cannot write its configuration.
type saves int

const (
	savesOrEnds  saves = iota // it ends: no node may hear of a decision that a restart would forget
	savesIfItCan              // it continues, and writes the next decision
)

// Renewing are the settings whose changes need a call of Renew.
var Renewing = []string{
	"cluster-node-timeout", "cluster-ping-interval", "cluster-announce-ip", "cluster-announce-port",
	"cluster-announce-tls-port", "cluster-announce-bus-port", "cluster-announce-hostname",
	"cluster-announce-human-nodename", "cluster-preferred-endpoint-type", "cluster-require-full-coverage",
	"cluster-allow-reads-when-down", "cluster-allow-pubsubshard-when-down", "cluster-allow-replica-migration",
	"cluster-migration-barrier", "cluster-replica-no-failover", "cluster-replica-validity-factor",
	"cluster-link-sendbuf-limit", "availability-zone", "cluster-blacklist-ttl", "cluster-manual-failover-timeout",
	"min-replicas-to-ack", "port", "tls-port", "tls-cluster", "tls-replication", "repl-ping-replica-period",
}

// Rows returns the rows of the settings, and sets every value to its default.
func (s *Settings) Rows() []setting.Row {
	port := setting.Between(0, maxPort)
	return []setting.Row{
		setting.NewBool("cluster-enabled", &s.Enabled, false, setting.Immutable),
		setting.NewString("cluster-config-file", &s.File, "nodes.conf", setting.Immutable),
		setting.NewInt("cluster-node-timeout", &s.NodeTimeout, 15000, setting.Between(0, math.MaxInt64)),
		setting.NewInt("cluster-ping-interval", &s.PingEvery, 0, setting.Between(0, math.MaxInt64), setting.Hidden),
		setting.NewInt("cluster-port", &s.Port, 0, port, setting.Immutable),
		setting.NewString("cluster-announce-ip", &s.AnnounceIP, "", setting.CheckString(checkIP)),
		setting.NewInt("cluster-announce-port", &s.AnnouncePort, 0, port),
		setting.NewInt("cluster-announce-tls-port", &s.AnnounceTLS, 0, port),
		setting.NewInt("cluster-announce-bus-port", &s.BusPort, 0, port),
		setting.NewString("cluster-announce-hostname", &s.Hostname, "", setting.CheckString(checkHostname)),
		setting.NewString("cluster-announce-human-nodename", &s.HumanName, "", setting.CheckString(checkNodeName)),
		setting.NewEnum("cluster-preferred-endpoint-type", &s.Endpoint, slots.EndpointIP,
			[]setting.Choice[slots.EndpointType]{
				{Name: "ip", Value: slots.EndpointIP}, {Name: "hostname", Value: slots.EndpointHostname},
				{Name: "unknown-endpoint", Value: slots.EndpointUnknown},
			}),
		setting.NewBool("cluster-require-full-coverage", &s.Coverage, true),
		setting.NewBool("cluster-allow-reads-when-down", &s.ReadsDown, false),
		setting.NewBool("cluster-allow-pubsubshard-when-down", &s.ShardsDown, true),
		setting.NewBool("cluster-allow-replica-migration", &s.Migration, true),
		setting.NewInt("cluster-migration-barrier", &s.Barrier, 1, setting.Between(0, math.MaxInt32)),
		setting.NewBool("cluster-replica-no-failover", &s.NoFailover, false, setting.Also("cluster-slave-no-failover")),
		setting.NewInt("cluster-replica-validity-factor", &s.Validity, 10, setting.Between(0, math.MaxInt32),
			setting.Also("cluster-slave-validity-factor")),
		setting.NewBool("cluster-slot-stats-enabled", &s.SlotStats, false),
		setting.NewMemoryUint("cluster-link-sendbuf-limit", &s.LinkLimit, 0),
		setting.NewInt("cluster-databases", &s.Databases, 1, setting.Between(1, math.MaxInt32), setting.Immutable),
		setting.NewInt("cluster-blacklist-ttl", &s.ForgetFor, 60, setting.Between(math.MinInt64, math.MaxInt64)),
		setting.NewInt("cluster-manual-failover-timeout", &s.ManualTimeout, 5000, setting.Between(1, math.MaxInt32)),
		setting.NewEnum("cluster-config-save-behavior", &s.Saves, savesOrEnds, []setting.Choice[saves]{
			{Name: "sync", Value: savesOrEnds}, {Name: "best-effort", Value: savesIfItCan},
		}),
	}
}

// ManualPatience returns cluster-manual-failover-timeout.
func (s *Settings) ManualPatience() time.Duration {
	return time.Duration(s.ManualTimeout.Get()) * time.Millisecond
}

const maxPort = 65535

// maxHostname includes a terminating zero, as in C.
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
	if strings.ContainsAny(name, "!#$%&()*+:;<>?@[]^{|}~, \t\r\n\"'\\=") {
		return errors.New("Announced human node name contained invalid character")
	}
	return nil
}

// checkIP refuses text that would break nodes.conf and messages.
func checkIP(ip string) error {
	if len(ip) >= 46 || strings.ContainsAny(ip, ", \t\r\n\"'\\@") {
		return errors.New("cluster-announce-ip is no address")
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// portDistance is the distance from the client port to the bus port, unless cluster-port is set.
const portDistance = 10000

// listenPort returns the bus's port. By default it is relative to the client port that the cluster uses (TLS or plain).
func (c *Cluster) listenPort() int {
	if p := c.settings.Port.Get(); p != 0 {
		return int(p)
	}
	port, tls := c.parts.Ports()
	if c.parts.TLSCluster() {
		port = tls
	}
	return port + portDistance
}

// terms returns the current settings for the state.
func (c *Cluster) terms() state.Terms {
	s := c.settings
	port, tls := c.parts.Ports()
	if p := s.AnnouncePort.Get(); p != 0 {
		port = int(p)
	}
	if p := s.AnnounceTLS.Get(); p != 0 {
		tls = int(p)
	}
	bus := c.listenPort()
	if p := s.BusPort.Get(); p != 0 {
		bus = int(p)
	}
	return state.Terms{
		NodeTimeout: s.NodeTimeout.Get(), PingInterval: s.PingEvery.Get(), ReplicationPing: c.parts.ReplicationPing(),
		ValidityFactor: s.Validity.Get(), MigrationBarrier: s.Barrier.Get(), AllowMigration: s.Migration.Get(),
		ForgetSeconds: min(max(s.ForgetFor.Get(), 0), math.MaxInt32), ManualTimeout: s.ManualTimeout.Get(),
		NoFailover: s.NoFailover.Get(), FullCoverage: s.Coverage.Get(), ReadsWhenDown: s.ReadsDown.Get(),
		ShardsWhenDown: s.ShardsDown.Get(), Endpoints: s.Endpoint.Get(), LinkLimit: s.LinkLimit.Get(),
		AnnounceIP: s.AnnounceIP.Get(), Hostname: s.Hostname.Get(), HumanName: s.HumanName.Get(),
		Zone: c.parts.Zone(), MinAcks: c.parts.MinAcks(),
		Port: port, TLSPort: tls, BusPort: bus, TLS: c.parts.TLSCluster(), TLSReplication: c.parts.TLSReplication(),
	}
}
