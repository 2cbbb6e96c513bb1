package config

import (
	"errors"
	"math"
	"net/netip"
	"strings"

	"spindle/internal/setting"
)

// Idle has the settings of Redis and Valkey that have no effect here. They are accepted and shown. Each says why it has
// no effect.
type Idle struct {
	Hz setting.Int

	dynamicHz, rehashing, lazyDel, lazyFlush, jemalloc setting.Bool
	expireEffort, defragFields                         setting.Int
	locale, dhParams                                   setting.String

	newer idleNewer
}

// idleNewer has the idle settings that Redis 7.4 does not have.
type idleNewer struct {
	rdbChannel, dualChannel, compatible, mptcp, replMPTCP, importMode setting.Bool
	sampleRatio, syncBuffer                                           setting.Int
	defragCycle, prefetch, clientPort, clientTLSPort                  setting.Int
	rdmaPort, rdmaVector, rdmaSize                                    setting.Int
	seed, clientIPv4, clientIPv6                                      setting.String
	rdmaBind                                                          setting.Value[[]string]
}

// Rows returns the rows of the idle settings. The call gives every value its default.
func (s *Idle) Rows() []setting.Row {
	return append(s.newer.rows(),
		setting.NewInt("hz", &s.Hz, 10, setting.Between(0, math.MaxInt32), setting.Clamp(1, 500),
			setting.Nothing("duties run when they are due, sliced by time")),
		setting.NewBool("dynamic-hz", &s.dynamicHz, true,
			setting.Nothing("duties are sliced by time, not by their number a second")),
		setting.NewInt("active-expire-effort", &s.expireEffort, 1, setting.Between(1, 10),
			setting.Nothing("keys end by their deadline; there is nothing to try harder at")),
		setting.NewBool("lazyfree-lazy-user-del", &s.lazyDel, false,
			setting.Nothing("what is deleted is always let go in the background")),
		setting.NewBool("lazyfree-lazy-user-flush", &s.lazyFlush, false,
			setting.Nothing("FLUSHALL SYNC is as short as ASYNC: both let go in the background")),
		setting.NewBool("activerehashing", &s.rehashing, true,
			setting.Nothing("tables grow a segment at a time; nothing is rehashed")),
		setting.NewString("locale-collate", &s.locale, "", setting.KeepEmpty, setting.CheckString(checkLocale),
			setting.Nothing("SORT ALPHA goes by bytes, as in the locale C")),
		setting.NewString("tls-dh-params-file", &s.dhParams, "",
			setting.Nothing("crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves")),
		setting.NewBool("jemalloc-bg-thread", &s.jemalloc, true,
			setting.Nothing("this allocator gives pages back by itself")),
		setting.NewInt("active-defrag-max-scan-fields", &s.defragFields, 1000, setting.Between(1, math.MaxInt64),
			setting.Nothing("collections are moved in steps of some microseconds, whatever they hold")),
	)
}

func (s *idleNewer) rows() []setting.Row {
	port := setting.Between(0, math.MaxUint16)
	copyOnce := setting.Nothing("a full copy is read from a view, so a second connection saves nothing")
	noMPTCP := setting.Nothing("connections are plain TCP")
	noRDMA := setting.Nothing("clients connect by TCP, TLS or a Unix socket")
	oneAddress := setting.Nothing("a node has one address for clients and nodes: cluster-announce-ip and its kin")
	return []setting.Row{
		setting.NewBool("repl-rdb-channel", &s.rdbChannel, true, setting.Hidden, copyOnce),
		setting.NewBool("dual-channel-replication-enabled", &s.dualChannel, false, copyOnce),
		setting.NewMemory("replica-full-sync-buffer-limit", &s.syncBuffer, 0,
			setting.Nothing("the primary keeps the stream while a replica reads a full copy")),
		setting.NewInt("cluster-compatibility-sample-ratio", &s.sampleRatio, 0, setting.Between(0, 100),
			setting.Nothing("calls that a cluster would refuse are not counted")),
		setting.NewBool("extended-redis-compatibility", &s.compatible, false,
			setting.Nothing("this server always says that it is Redis")),
		setting.NewString("hash-seed", &s.seed, "", setting.Immutable,
			setting.Nothing("the seed is random, so the order of SCAN is another one after each start")),
		setting.NewBool("import-mode", &s.importMode, false,
			setting.Nothing("keys always expire, and are always evicted")),
		setting.NewInt("active-defrag-cycle-us", &s.defragCycle, 500, setting.Between(0, 100000),
			setting.Nothing("blocks are moved in slices whose length depends on the load")),
		setting.NewInt("prefetch-batch-max-size", &s.prefetch, 16, setting.Between(0, 128),
			setting.Nothing("a batch is what one read of a connection holds")),
		setting.NewBool("mptcp", &s.mptcp, false, setting.Immutable, noMPTCP),
		setting.NewBool("repl-mptcp", &s.replMPTCP, false, setting.Immutable, noMPTCP),
		setting.NewValue("rdma-bind", &s.rdmaBind, nil, setting.Codec[[]string]{
			Parse:  func(args, _ []string, _ setting.How) ([]string, error) { return args, nil },
			Format: func(addresses []string) string { return strings.Join(addresses, " ") },
		}, setting.Immutable, setting.MultiArg, noRDMA),
		setting.NewInt("rdma-port", &s.rdmaPort, 0, port, setting.Immutable, noRDMA),
		setting.NewInt("rdma-rx-size", &s.rdmaSize, 1<<20, setting.Between(1<<16, 1<<24), setting.Immutable, noRDMA),
		setting.NewInt("rdma-completion-vector", &s.rdmaVector, -1, setting.Between(-1, 1024), setting.Immutable, noRDMA),
		setting.NewString("cluster-announce-client-ipv4", &s.clientIPv4, "",
			setting.CheckString(checkAddress("IPv4", netip.Addr.Is4)), oneAddress),
		setting.NewString("cluster-announce-client-ipv6", &s.clientIPv6, "",
			setting.CheckString(checkAddress("IPv6", netip.Addr.Is6)), oneAddress),
		setting.NewInt("cluster-announce-client-port", &s.clientPort, 0, port, oneAddress),
		setting.NewInt("cluster-announce-client-tls-port", &s.clientTLSPort, 0, port, oneAddress),
	}
}

// checkAddress refuses a text that is not an address of a version.
func checkAddress(version string, is func(netip.Addr) bool) func(string) error {
	return func(text string) error {
		if a, err := netip.ParseAddr(text); text != "" && (err != nil || !is(a) || a.Zone() != "") {
			return errors.New("Invalid " + version + " address")
		}
		return nil
	}
}

// checkLocale accepts the names of the locale C, which every system has.
func checkLocale(name string) error {
	switch name {
	case "", "C", "POSIX", "C.UTF-8", "C.utf8":
		return nil
	}
	return errors.New("Invalid locale name")
}
