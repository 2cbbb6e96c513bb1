package proxy

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"spindle/internal/setting"
)

// Settings are those of the proxy itself.
type Settings struct {
	Cluster      setting.Value[[]string] // addresses of nodes of the cluster that is served
	Sentinels    setting.Value[[]string] // addresses of Sentinels that watch the shards
	Masters      setting.Value[[]string] // the shards by the names that the Sentinels have for them
	Product      setting.String          // a product of the store
	ProxyID      setting.String          // the name of this proxy in the store; "": host, address and port
	Announce     setting.String          // the address for clients that the store shows; "": that of the listener
	User         setting.String          // under which the proxy asks for the topology
	Password     setting.String
	TLS          setting.Bool // connections to shards are under TLS
	CrossSlot    setting.Enum[crossSlot]
	Connections  setting.Int // to each server, from each loop and for each user
	Timeout      setting.Int // for a reply, ms
	ConnectLimit setting.Int // for a connection, ms
	Refresh      setting.Int // how often the topology is read, ms
	ReadReplicas setting.Bool
	ReplicaLag   setting.Int // ms that a replica may be late
	Rules        setting.Value[[]*rule]
	SlowerThan   setting.Int // µs of a request that SLOWLOG has; negative: it has none
	SlowLen      setting.Int // requests that SLOWLOG keeps

	LatencyThreshold setting.Int  // ms of a request that LATENCY has; 0: it has none
	Pose             setting.Bool // CLUSTER answers as a cluster of one node

	CacheSize   setting.Int // bytes of hot keys; 0: no cache
	CacheMaxAge setting.Int // ms that a value may serve without being read again

	MirrorCluster  setting.Value[[]string] // addresses of nodes of the cluster that gets the writes too
	MirrorUser     setting.String
	MirrorPassword setting.String
	MirrorQueue    setting.Int // bytes of writes that may wait
	MirrorCompare  setting.Bool

	Admin setting.String // address of metrics and health; "": none
}

// crossSlot is what happens to MGET, MSET, DEL, UNLINK, EXISTS and TOUCH of several slots.
type crossSlot int

const (
	splitKeys crossSlot = iota
	refuseKeys
)

// Rows are the settings as proxy.conf has them. Calling it gives each its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewValue("proxy-cluster", &s.Cluster, nil, setting.Codec[[]string]{
			Parse: parseSeeds, Format: func(a []string) string { return strings.Join(a, " ") },
		}, setting.MultiArg, setting.Immutable),
		setting.NewValue("proxy-sentinel", &s.Sentinels, nil, setting.Codec[[]string]{
			Parse: parseSeeds, Format: func(a []string) string { return strings.Join(a, " ") },
		}, setting.MultiArg, setting.Immutable),
		setting.NewValue("proxy-masters", &s.Masters, nil, setting.Codec[[]string]{
			Parse:  func(args []string, _ []string, _ setting.How) ([]string, error) { return words(args), nil },
			Format: func(a []string) string { return strings.Join(a, " ") },
		}, setting.MultiArg, setting.Immutable),
		setting.NewString("proxy-product", &s.Product, "", setting.Immutable),
		setting.NewString("proxy-id", &s.ProxyID, "", setting.Immutable),
		setting.NewString("proxy-announce", &s.Announce, "", setting.Immutable),
		setting.NewString("proxy-user", &s.User, "", setting.Immutable),
		setting.NewString("proxy-password", &s.Password, "", setting.Immutable, setting.Sensitive),
		setting.NewBool("proxy-shard-tls", &s.TLS, false, setting.Immutable),
		setting.NewEnum("proxy-cross-slot", &s.CrossSlot, splitKeys, []setting.Choice[crossSlot]{
			{Name: "split", Value: splitKeys}, {Name: "refuse", Value: refuseKeys},
		}),
		setting.NewInt("proxy-shard-connections", &s.Connections, 1, setting.Between(1, 64), setting.Immutable),
		setting.NewInt("proxy-timeout", &s.Timeout, 5000, setting.Between(10, math.MaxInt32)),
		setting.NewInt("proxy-connect-timeout", &s.ConnectLimit, 2000, setting.Between(10, math.MaxInt32)),
		setting.NewInt("proxy-refresh-interval", &s.Refresh, 10000, setting.Between(100, math.MaxInt32)),
		setting.NewBool("proxy-read-replicas", &s.ReadReplicas, false, setting.Immutable),
		setting.NewValue("proxy-rule", &s.Rules, nil, setting.Codec[[]*rule]{Parse: parseRules, Format: formatRules,
			Lines: ruleLines}, setting.MultiArg),
		setting.NewInt("slowlog-log-slower-than", &s.SlowerThan, 10000, setting.Between(-1, math.MaxInt64/1000)),
		setting.NewInt("slowlog-max-len", &s.SlowLen, 128, setting.Between(0, 1<<20)),
		setting.NewInt("latency-monitor-threshold", &s.LatencyThreshold, 0, setting.Between(0, math.MaxInt32)),
		setting.NewBool("proxy-pose-cluster", &s.Pose, false),
		setting.NewMemory("proxy-cache-size", &s.CacheSize, 0, setting.Between(0, math.MaxInt64)),
		setting.NewInt("proxy-cache-max-age", &s.CacheMaxAge, 1000, setting.Between(1, math.MaxInt32)),
		setting.NewValue("proxy-mirror-cluster", &s.MirrorCluster, nil, setting.Codec[[]string]{
			Parse: parseSeeds, Format: func(a []string) string { return strings.Join(a, " ") },
		}, setting.MultiArg, setting.Immutable),
		setting.NewString("proxy-mirror-user", &s.MirrorUser, "", setting.Immutable),
		setting.NewString("proxy-mirror-password", &s.MirrorPassword, "", setting.Immutable, setting.Sensitive),
		setting.NewMemory("proxy-mirror-queue", &s.MirrorQueue, 64<<20, setting.Between(1<<20, math.MaxInt64)),
		setting.NewBool("proxy-mirror-compare", &s.MirrorCompare, false),
		setting.NewString("admin-address", &s.Admin, "", setting.Immutable),
		setting.NewInt("proxy-replica-lag", &s.ReplicaLag, 1000, setting.Between(0, math.MaxInt32)),
	}
}

var errNoSeeds = errors.New("a list of host:port is needed")

func parseSeeds(args []string, _ []string, _ setting.How) ([]string, error) {
	if len(args) == 0 {
		return nil, errNoSeeds
	}
	if args = words(args); args == nil {
		return nil, nil
	}
	for _, a := range args {
		if _, _, ok := cutAddress(a); !ok {
			return nil, fmt.Errorf("'%s' is no host:port", a)
		}
	}
	return args, nil
}

// words returns args, or nil for the one word "".
func words(args []string) []string {
	if len(args) == 1 && args[0] == "" {
		return nil
	}
	return args
}
