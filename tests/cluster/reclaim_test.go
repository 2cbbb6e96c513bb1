package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// The tests in this file are about the source of a move that asks the other primaries whether it may keep the slots.

// A keeper is the source of a move whose target says nothing after the grant. The other voters stand still, so that
// the source asks them until answered is called.
type keeper struct {
	t      *testing.T
	from   *testkit.Server
	others []*testkit.Server
	stays  string // a key in a slot that does not move
	epoch  int    // of from, before it raises it
}

// newKeeper makes the cluster, and a key {1}kept that moves. strike is called before the grant. The source has begun to
// ask when asks returns.
func newKeeper(t *testing.T, args []string, strike func(k *keeper)) *keeper {
	t.Helper()
	var nodes []*testkit.Server
	for range 3 {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "conf"), 0o755); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, testkit.Launch(t, testkit.Spec{Dir: dir, Args: append([]string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs), "--cluster-port", strconv.Itoa(testkit.FreePort(t)),
			"--cluster-allow-replica-migration", "no", "--cluster-config-file", "conf/nodes.conf",
			"--cluster-manual-failover-timeout", "1000"}, args...)}))
	}
	join(t, nodes)
	spread(t, nodes)
	k := &keeper{t: t, from: nodes[0], others: nodes[1:], epoch: ownEpoch(t, nodes[0])}
	for i := 0; slots.Of([]byte(k.stays)) != lastMoving+1; i++ {
		k.stays = "stays" + strconv.Itoa(i)
	}
	k.from.Do("SET", "{1}kept", "v")
	s := take(t, k.from, nodes[1])
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "cluster-node-timeout", 60_000) // nodes that stand still do not fail
	}
	for _, n := range k.others {
		n.Signal(syscall.SIGSTOP)
	}
	strike(k)
	s.granted()
	return k
}

// asks waits until the source asks the others.
func (k *keeper) asks() {
	k.t.Helper()
	k.from.AwaitLog(testkit.Slowly(patience), "Asking the other primaries")
}

// answered has the others answer.
func (k *keeper) answered() {
	k.t.Helper()
	for _, n := range k.others {
		n.Signal(syscall.SIGCONT)
	}
}

// send sends a request on a new connection.
func (k *keeper) send(args ...any) *respclient.Client {
	k.t.Helper()
	link := k.from.Dial()
	link.SetTimeout(testkit.Slowly(patience))
	link.Send(args...)
	if err := link.Flush(); err != nil {
		k.t.Fatal(err)
	}
	return link
}

// held returns a client that waits with a write to a slot of the move.
func (k *keeper) held() *respclient.Client {
	k.t.Helper()
	link := k.send("SET", "{1}held", "v")
	k.from.AwaitInfo(testkit.Slowly(patience), "clients", "blocked_clients", "1")
	return link
}

// kept waits until the source serves the slots, and checks how the move has ended.
func (k *keeper) kept() {
	k.t.Helper()
	testkit.Until(k.t, testkit.Slowly(patience), "the source serves the slots", func() error {
		v, err := k.from.Ask("SET", "{1}later", "v")
		return errors.Join(err, v.Err())
	})
	if state, now := moveState(k.from, "state"), ownEpoch(k.t, k.from); state != "failed" || now <= k.epoch+1 {
		k.t.Errorf("the move is %s, and the epoch is %d", state, now)
	}
	if v := k.from.Do("GET", "{1}kept"); v.Text != "v" {
		k.t.Errorf("the key is %+v", v)
	}
}

const continues = "This node continues with a greater epoch"

// TestScriptWhileSourceReclaims: a long script runs at the source while it asks the other primaries. They answer, but
// the move does not end before the script does. The script cannot change a key of the slots, and a client that waits
// for them hears BUSY. Clients are served when the script is over.
func TestScriptWhileSourceReclaims(t *testing.T) {
	t.Parallel()
	const untilRaised = `redis.call('SET', KEYS[1], 'v')
		local function epoch() return redis.call('CLUSTER', 'INFO'):match('cluster_my_epoch:(%d+)') end
		local was = epoch()
		repeat until epoch() ~= was
		local reply = redis.pcall('SET', '{1}kept', 'changed')
		return reply.err or 'it has changed a key'`
	for _, c := range []struct {
		name, script, want string
		kill               bool
	}{
		{"it is killed", "repeat until false", "ERR ", true},
		{"it ends", untilRaised, "TRYAGAIN ", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, nil, func(k *keeper) { k.from.Do("CONFIG", "SET", "busy-reply-threshold", 100) })
			held := k.held()
			k.asks()
			long := k.send("EVAL", c.script, 1, k.stays)
			testkit.Until(t, testkit.Slowly(patience), "the script has run for long", func() error {
				v, err := k.from.Ask("PING")
				return errors.Join(err, testkit.Equal(strings.HasPrefix(v.Text, "BUSY "), true))
			})
			k.answered()
			k.from.AwaitLog(testkit.Slowly(patience), "New configEpoch set to")
			if c.kill {
				for range 100 { // an end that does not wait for the script has turns now
					if v, err := k.from.Ask("PING"); err != nil || !strings.HasPrefix(v.Text, "BUSY ") {
						t.Fatalf("PING: %+v, %v", v, err)
					}
				}
				if strings.Contains(k.from.Log(), continues) {
					t.Error("the move ends while the script runs")
				}
				k.from.Do("SCRIPT", "KILL")
			}
			if v, err := long.Receive(); err != nil || !strings.HasPrefix(v.Text, c.want) {
				t.Errorf("the script returns %+v, %v", v, err)
			}
			if v, err := held.Receive(); err != nil || !strings.HasPrefix(v.Text, "BUSY ") {
				t.Errorf("the client that has waited gets %+v, %v", v, err)
			}
			k.kept()
			if v := k.from.Do("GET", "{1}held"); v.Text != "" {
				t.Errorf("a write that was refused is there: %+v", v)
			}
			if v := k.from.Do("GET", k.stays); !c.kill && v.Text != "v" {
				t.Errorf("the key that the script has written is %+v", v)
			}
			if !strings.Contains(k.from.Log(), continues) {
				t.Error("the log does not say that the source continues")
			}
		})
	}
}

// TestFullDiskWhileSourceReclaims: the disk of the source takes no nodes.conf, or no more of the log, while the source
// asks the other primaries. It ends or continues as its settings say, and its log says why. Once the disk has room, it
// serves the slots, and has all that it has confirmed.
func TestFullDiskWhileSourceReclaims(t *testing.T) {
	t.Parallel()
	move := func(k *keeper, from, to string) {
		if err := os.Rename(k.from.File(from), k.from.File(to)); err != nil {
			k.t.Fatal(err)
		}
	}
	noFolder := func(k *keeper) {
		k.from.Do("CLUSTER", "SAVECONFIG") // no other save waits then
		move(k, "conf", "away")
	}
	hasFolder := func(k *keeper) { move(k, "away", "conf") }
	limit := func(k *keeper, size uint64) {
		files := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(k.from.PID, unix.RLIMIT_FSIZE, &files, nil); err != nil {
			k.t.Fatal(err)
		}
	}
	full := func(k *keeper) {
		k.from.Do("SET", k.stays, strings.Repeat("x", 2*moreThanNodesConf))
		limit(k, moreThanNodesConf)
	}
	foundFull := func(k *keeper) {
		full(k)
		k.from.Do("APPEND", k.stays, "x")
		k.from.AwaitInfo(testkit.Slowly(patience), "persistence", "aof_last_write_status", "err")
	}
	const noConf, noLog = "Could not write the cluster config file", "Error writing to the AOF file"
	for _, c := range []struct {
		name, policy, behaviour string
		strike                  func(k *keeper)
		reply                   string   // of a write that waits; "": the server ends instead
		log                     []string // lines of the server's log
		heal                    func(k *keeper)
	}{
		{"no nodes.conf, sync", "always", "sync", noFolder, "", []string{noConf, "Fatal: can't update cluster config file."},
			hasFolder},
		{"no nodes.conf, best-effort", "always", "best-effort", noFolder, "OK", []string{noConf, continues}, hasFolder},
		{"no log, everysec", "everysec", "sync", foundFull, "MISCONF ", []string{noLog, continues},
			func(k *keeper) { limit(k, unix.RLIM_INFINITY) }},
		{"no log, always", "always", "sync", full, "", []string{continues, noLog, "Exiting..."}, func(*keeper) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var held *respclient.Client
			k := newKeeper(t, []string{"--appendonly", "yes", "--appendfsync", c.policy, "--cluster-config-save-behavior",
				c.behaviour}, func(k *keeper) {
				c.strike(k)
				held = k.from.Dial()
				held.SetTimeout(testkit.Slowly(patience))
			})
			held.Send("SET", "{1}held", "v")
			v, err := respclient.Value{}, held.Flush() // it may fail if the server has ended
			if k.answered(); err == nil {
				v, err = held.Receive()
			}
			switch {
			case c.reply != "" && (err != nil || !strings.HasPrefix(v.Text, c.reply)):
				t.Errorf("the client that waits gets %+v, %v", v, err)
			case c.reply == "" && err == nil:
				t.Errorf("the client that waits gets %+v", v)
			case c.reply == "":
				k.from.Wait(testkit.Slowly(patience))
			}
			for _, line := range c.log {
				k.from.AwaitLog(testkit.Slowly(patience), line)
			}
			if c.heal(k); c.reply == "" {
				k.from.Restart()
			} else {
				k.kept()
			}
			writes := func(key string) {
				t.Helper()
				testkit.Until(t, testkit.Slowly(patience), "the source serves the slots", func() error {
					v, err := k.from.Ask("SET", key, "v")
					return errors.Join(err, v.Err())
				})
			}
			writes("{1}last")
			k.from.Crashes()
			k.from.Kill()
			k.from.Restart()
			writes("{1}alive")
			keys := []string{"{1}kept", "{1}last"}
			if c.reply == "OK" {
				keys = append(keys, "{1}held")
			}
			for _, key := range keys {
				if v := k.from.Do("GET", key); v.Text != "v" {
					t.Errorf("after a crash %s is %+v", key, v)
				}
			}
		})
	}
}
