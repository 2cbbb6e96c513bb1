package server

import (
	"crypto/tls"
	"os"

	"spindle/cluster"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/config"
	"spindle/internal/disk"
	"spindle/internal/info"
	"spindle/replication"
)

// This server as a node of a cluster.

// mode is what INFO, HELLO and the log call the way this server runs.
func (in *instance) mode() string {
	switch {
	case in.asSentinel:
		return "sentinel"
	case in.clustering.Enabled.Get():
		return "cluster"
	}
	return "standalone"
}

// titleMode is what ps shows of it.
func (in *instance) titleMode() string {
	if mode := in.mode(); mode != "standalone" {
		return "[" + mode + "]"
	}
	return ""
}

// joinCluster makes the node, in cluster mode.
func (in *instance) joinCluster() {
	if !in.clustering.Enabled.Get() {
		return
	}
	in.storage.Follow.Unwritten = true
	in.cluster = cluster.New(cluster.Parts{
		Settings: &in.clustering, Current: &in.slots, Keys: &divided{in: in}, Messages: &deliveries{in: in},
		Disk: disk.OS, Log: in.log,
		Between: in.core.Between, DoBetween: in.core.DoBetween, AtUnitEnd: in.core.AtUnitEnd, Turn: in.core.TurnNumber,
		Gate: in.gate,
		Wake: func(cl *client.Client) { in.core.Do(func() { in.core.Wake(cl) }) },
		Role: clusterRole{in}, Offset: in.set.Feed.Offset, HeardMs: in.set.Follower.HeardMs, BeatMs: in.beatMs.Load,
		Ports: func() (int, int) { return int(in.sockets.Port.Get()), int(in.sockets.TLSPort.Get()) },
		Bind:  in.sockets.Bind.Get, Source: in.storage.Follow.Source.Get,
		ReplicationPing: func() int64 { return in.storage.Feed.PingPeriod.Get() * 1000 },
		TLSReplication:  in.tls.Replication.Get, TLSCluster: in.tls.Cluster.Get,
		TLS: func() (server, client *tls.Config) {
			if c := in.busTLS.Load(); c != nil {
				return c.Server, c.Client
			}
			return nil, nil
		},
		Fatal: func(why string) {
			in.log.Warning("%s", why)
			os.Exit(1)
		},
	})
	in.core.RouteBy(&in.slots)
	in.hub.Bus = in.cluster
	in.registry.Follow(in.cluster.Renew, "cluster-node-timeout", "cluster-ping-interval", "cluster-announce-ip",
		"cluster-announce-port", "cluster-announce-tls-port", "cluster-announce-bus-port", "cluster-announce-hostname",
		"cluster-announce-human-nodename", "cluster-preferred-endpoint-type", "cluster-require-full-coverage",
		"cluster-allow-reads-when-down", "cluster-allow-pubsubshard-when-down", "cluster-allow-replica-migration",
		"cluster-migration-barrier", "cluster-replica-no-failover", "cluster-replica-validity-factor",
		"cluster-link-sendbuf-limit", "port", "tls-port", "tls-cluster", "tls-replication", "repl-ping-replica-period")
}

// checkBusPort refuses a port above which the bus has none, before anybody can connect.
func (in *instance) checkBusPort() error {
	if in.cluster == nil {
		return nil
	}
	if err := in.cluster.CheckPort(); err != nil {
		in.log.Warning("%s", err)
		return config.ErrLogged
	}
	return nil
}

// openCluster reads nodes.conf and opens the bus.
func (in *instance) openCluster() error {
	if in.cluster == nil {
		return nil
	}
	if err := in.cluster.Open(); err != nil {
		in.log.Warning("%s", err)
		return config.ErrLogged
	}
	if host, port := in.cluster.Primary(); host != "" {
		in.storage.Follow.Of.Set(replication.Address{Host: host, Port: port}) // Follower.Start goes by it
	}
	return nil
}

// clusterRole is replication as the cluster drives it.
type clusterRole struct{ in *instance }

// Follow implements cluster.Role.
func (r clusterRole) Follow(host string, port int) {
	r.in.core.AssertWhole("the cluster makes this server a replica")
	r.in.set.Follower.Follow(replication.Address{Host: host, Port: port})
	r.in.log.Notice("Connecting to MASTER %s:%d", host, port)
}

// Promote implements cluster.Role.
func (r clusterRole) Promote() { r.in.set.Follower.Promote() }

// Empty implements cluster.Role.
func (r clusterRole) Empty() {
	r.in.core.AssertWhole("the cluster empties the data set")
	r.in.whole.EmptyAll(r.in.space)
}

// Pause implements cluster.Role. The core's pauses go by the wall clock, the cluster's time is clock.Steady's.
func (r clusterRole) Pause(untilMs int64) {
	r.in.core.AssertWhole("an offset is announced to the cluster")
	r.in.core.Pause(engine.PauseFailover, false, r.in.core.Now()+untilMs-r.in.core.SteadyMs())
	r.in.set.Feed.HoldStill(true)
}

// Unpause implements cluster.Role.
func (r clusterRole) Unpause() {
	r.in.set.Feed.HoldStill(false)
	r.in.core.Unpause(engine.PauseFailover)
}

// clusterSections are INFO's parts of the cluster.
func (in *instance) clusterSections() []info.Section {
	all := []info.Section{{Name: "Cluster", Fields: []info.Field{info.Bool("cluster_enabled", in.clustering.Enabled.Get)}}}
	if in.cluster != nil {
		all = append(all,
			info.Section{Name: "Clients", Fields: []info.Field{info.Int("cluster_connections", in.cluster.Connections)}},
			info.Section{Name: "Memory", Fields: []info.Field{info.Int("mem_cluster_links", in.cluster.LinkBytes)}})
	}
	return all
}

// linkBytes is what the links of the bus cost.
func (in *instance) linkBytes() int64 {
	if in.cluster == nil {
		return 0
	}
	return in.cluster.LinkBytes()
}
