package cluster

import (
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"spindle/cluster/state"
	"spindle/engine/data/keyspace"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/slots"
	"spindle/tests/testkit/commandtest"
)

// noKeys is an empty keyspace.
type noKeys struct{}

func (noKeys) Count(uint16) int                  { return 0 }
func (noKeys) Mark(uint16)                       {}
func (noKeys) Marked(uint16) bool                { return false }
func (noKeys) Drop([]uint16, func(uint16) bool)  {}
func (noKeys) Moved(before, now *slots.Map)      {}
func (noKeys) Deliver(channel, m []byte, _ bool) {}
func (noKeys) Follow(string, int, bool)          {}
func (noKeys) Withhold()                         {}
func (noKeys) Lead(int64)                        {}
func (noKeys) Promote()                          {}
func (noKeys) Empty()                            {}
func (noKeys) Pause(untilMs int64) bool          { return true }
func (noKeys) Unpause()                          {}

// alone returns a node without sockets and goroutines. Its nodes.conf is in the working directory.
func alone(t testing.TB) *Cluster {
	settings := &Settings{}
	settings.Rows() // sets the defaults
	zero := func() int64 { return 0 }
	c := New(Parts{
		Settings: settings, Current: &slots.Current{}, Keys: noKeys{}, Messages: noKeys{}, Role: noKeys{}, Disk: disk.OS,
		Log: logging.New(io.Discard), Between: func(f func()) { f() }, Turn: func() uint64 { return 0 }, Offset: zero,
		HeardMs: zero, BeatMs: zero, MinAcks: zero, Confirm: func(bool) {}, Leads: func() {},
		Loaded: func() (int64, bool, bool) { return 0, false, false }, ReplicationPing: zero,
		Ports:          func() (int, int) { return 7000, 0 },
		TLSReplication: func() bool { return false }, TLSCluster: func() bool { return false },
		Zone: func() string { return "" }, Fatal: func(why string) { t.Error(why) },
	})
	c.renew()
	return c
}

// renew gives the node a new state that no other node knows.
func (c *Cluster) renew() {
	c.state = state.New(outside{c}, c.terms(), nowMs(), rand.New(rand.NewPCG(1, 2)))
	c.state.Begin()
	c.outs, c.mapped = nil, nil
}

// FuzzCommands: CLUSTER replies to any arguments, and the resulting nodes.conf can be read.
func FuzzCommands(f *testing.F) {
	const other = "07c37dfeb235213a872192d90877d0cd55635b91"
	for _, lines := range []string{
		"ADDSLOTS 1 2 3\nDELSLOTS 2\nADDSLOTSRANGE 5 9 100 16383\nDELSLOTSRANGE 100 200\nSLOTS\nSHARDS\nNODES\nINFO\nLINKS",
		"MEET 127.0.0.1 7001\nMEET ::1 7001 17001\nNODES\nFORGET " + other + "\nREPLICATE " + other + "\nREPLICAS " + other,
		"SETSLOT 7 IMPORTING " + other + "\nSETSLOT 7 MIGRATING " + other + "\nSETSLOT 7 NODE " + other +
			"\nSETSLOT 7 STABLE",
		"SET-CONFIG-EPOCH 5\nBUMPEPOCH\nFAILOVER FORCE\nFAILOVER TAKEOVER\nRESET HARD\nFLUSHSLOTS\nSAVECONFIG\nRESET SOFT",
		"KEYSLOT {a}b\nCOUNTKEYSINSLOT 7\nGETKEYSINSLOT 7 -1\nCOUNT-FAILURE-REPORTS x\nMYID\nMYSHARDID\nHELP\nSLAVES x",
		"ADDSLOTS -1 16384 99999999999999999999\nADDSLOTSRANGE 9 5 1\nMEET \x00 -1 70000\nSETSLOT\nNOSUCH",
	} {
		f.Add(lines)
	}
	folder, err := os.MkdirTemp("/dev/shm", "spindle-fuzz-") // in memory, where a sync costs nothing
	if err != nil {
		folder = f.TempDir()
	}
	f.Cleanup(func() { _ = os.RemoveAll(folder) }) // the files left there are small
	f.Chdir(folder)
	c := alone(f)
	core := commandtest.StartIn(f, keyspace.Options{Databases: 2, Slots: true}, Family(c))
	f.Fuzz(func(t *testing.T, lines string) {
		c.renew()
		cl := core.Client(2 + len(lines)%2)
		for line := range strings.SplitSeq(lines, "\n") {
			words := append([]string{"CLUSTER"}, strings.Split(line, " ")...)
			if got := core.Do(cl, words...); got == "" || !strings.HasSuffix(got, "\r\n") {
				t.Fatalf("%q answers %q", words, got)
			}
		}
		var text string
		c.with(func(s *state.State) { text = string(s.Describe()) })
		again := state.New(outside{c}, c.terms(), nowMs(), rand.New(rand.NewPCG(3, 4)))
		if err := again.Load(text); err != nil {
			t.Errorf("after %q: %v", lines, err)
		}
	})
}
