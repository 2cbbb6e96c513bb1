package server

import (
	"os"

	"spindle/cluster"
	"spindle/cluster/slotmove"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/disk"
	"spindle/internal/info"
	"spindle/internal/logging"
	"spindle/replication"
)

// This file makes this server a node of a cluster.

// modeOf returns the word of INFO, HELLO and the log for the mode of this server.
func modeOf(sentinel, cluster bool) string {
	switch {
	case sentinel:
		return "sentinel"
	case cluster:
		return "cluster"
	}
	return "standalone"
}

// clusterPart is the node of a cluster. Outside cluster mode it only has commands and INFO.
func (in *instance) clusterPart() *part.Part {
	return &part.Part{Name: "cluster", Rows: append(in.clustering.Rows(), in.moving.Rows()...),
		Join: func(p *part.Part) error {
			p.Sections = []info.Section{
				{Name: "Cluster", Fields: []info.Field{info.Bool("cluster_enabled", in.clustering.Enabled.Get)}}}
			if in.clustering.Enabled.Get() {
				in.joinCluster(p)
			}
			p.Families = []command.Family{cluster.Family(in.cluster, slotmove.Subcommands(in.mover)...)}
			return nil
		}}
}

// joinCluster makes the node.
func (in *instance) joinCluster(p *part.Part) {
	in.storage.Follow.Unwritten = true
	local := cluster.Local{Core: in.core, Space: in.space, Hub: in.hub, Current: &in.slots,
		Moved: func() { in.mover.Moved() }}
	in.cluster = cluster.New(cluster.Parts{
		Settings: &in.clustering, Current: &in.slots, Keys: local.Keys(), Messages: local.Messages(),
		Disk: disk.OS, Log: in.log,
		Between: in.core.Between, DoBetween: in.core.DoBetween, AtUnitEnd: in.core.AtUnitEnd, Turn: in.core.TurnNumber,
		Gate: in.gate, SlotStat: in.core.SlotStat,
		Wake:          func(cl *client.Client) { in.core.Do(func() { in.core.Wake(cl) }) },
		SlotMigrating: in.notices.SlotMigrating, SlotMigrated: in.notices.SlotMigrated,
		Role:   in.set.ClusterRole(func() bool { return in.mover.HandsOver() }, func() []byte { return in.mover.Ends() }),
		Leads:  func() { in.mover.Moved() },
		Offset: in.set.Feed.Offset, HeardMs: in.set.Follower.HeardMs, BeatMs: in.beatMs.Load,
		Confirm: in.set.Follower.Confirm, Loaded: in.set.Feed.Loaded, MinAcks: in.storage.Feed.MinAck.Get,
		Ports: func() (int, int) { return int(in.sockets.Port.Get()), int(in.sockets.TLSPort.Get()) },
		Bind:  in.sockets.Bind.Get, Source: in.storage.Follow.Source.Get, Zone: in.settings.Process.Zone.Get,
		ReplicationPing: func() int64 { return in.storage.Feed.PingPeriod.Get() * 1000 },
		TLSReplication:  in.tls.Replication.Get, TLSCluster: in.tls.Cluster.Get,
		TLS: in.certificates.Bus,
		Fatal: func(why string) {
			in.log.Warning("%s", why)
			os.Exit(1)
		},
	})
	in.mover = slotmove.New(slotmove.Parts{Core: in.core, Space: in.space, Cluster: in.cluster, Settings: &in.moving,
		Log: in.log, Dial: in.dialPrimary, Source: in.storage.Follow.Source.Get, Login: in.storage.Follow.Login,
		Patience: in.storage.Feed.Patience, Hold: in.clustering.ManualPatience, Output: in.storage.Feed.OutputMost,
		Newest: in.storage.Save.Version.Get, Busy: in.threads.Count, Sync: in.set.AOF.Sync,
		Lacks: in.set.AOF.Lacks, Acked: in.set.Feed.AwaitAcks})
	in.figures.Links, in.set.Feed.Peers = in.cluster.LinkBytes, in.cluster.Replicas
	in.core.RouteBy(&in.slots, in.set.Feed.Replicas)
	in.hub.Bus, in.hub.Sent = in.cluster, in.core.CountShardMessage
	c := in.cluster
	p.Sections = append(p.Sections,
		info.Section{Name: "Clients", Fields: []info.Field{info.Int("cluster_connections", c.Connections)}},
		info.Section{Name: "Memory", Fields: []info.Field{info.Int("mem_cluster_links", c.LinkBytes),
			info.Int("mem_cluster_slot_export", in.mover.ExportBytes),
			info.Int("mem_cluster_slot_import", in.mover.ImportBytes)}},
		info.Section{Name: "Stats", Fields: []info.Field{
			info.Int("total_net_cluster_slot_export_bytes", in.mover.Exported),
			info.Int("total_net_cluster_slot_import_bytes", in.mover.Imported)}})
	p.Follows = []part.Follow{part.On(c.Renew, cluster.Renewing...),
		part.On(func() { in.core.CountSlots(in.clustering.SlotStats.Get()) }, "cluster-slot-stats-enabled")}
	p.Reset = in.core.ResetSlotStats
	p.Check = func() error { return logged(in.log, c.CheckPort()) }
	p.Open = func() error {
		if err := c.Open(); err != nil {
			return logged(in.log, err)
		}
		if host, port := c.Primary(); host != "" {
			in.storage.Follow.Of.Set(replication.Address{Host: host, Port: port}) // Follower.Start goes by it
		}
		return nil
	}
	p.Listeners, p.Threads = []part.Listeners{in.mover.Listeners()}, in.mover.Need
	p.Loaded, p.Stop = func() { in.mover.Loaded(); c.Start() }, func() { in.mover.Stop(); c.Stop() }
}

// logged logs err and returns config.ErrLogged. It returns nil if err is nil.
func logged(log *logging.Logger, err error) error {
	if err == nil {
		return nil
	}
	log.Warning("%s", err)
	return config.ErrLogged
}
