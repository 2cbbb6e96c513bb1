package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestViewsOfOneCluster: a spindle and a redis-server in one cluster show it alike, in both protocols and field by
// field. IDs, addresses, host names, slots, epochs and flags must be equal. Times, offsets and counts are masked.
func TestViewsOfOneCluster(t *testing.T) {
	t.Parallel()
	for _, name := range []string{testkit.Redis70, testkit.Redis74, testkit.Redis8, testkit.Valkey9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := testkit.Kind(t, name)
			start := func(redis bool, host string) *testkit.Server {
				var spec testkit.Spec
				if redis {
					spec = theirs
				}
				spec.Args = []string{"--cluster-enabled", "yes", "--cluster-announce-hostname", host,
					"--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs), "--cluster-port", strconv.Itoa(testkit.FreePort(t))}
				return testkit.Launch(t, spec)
			}
			v := views{t: t, a: start(false, "a.example"), b: start(true, "b.example")}
			c, d := start(false, ""), start(true, "")
			v.form(c, d)
			v.compare("well")
			if name != testkit.Redis70 { // 7.0 does not have CLUSTER SHARDS
				v.sameShards(c, d)
			}
			for _, kind := range []string{"hostname", "unknown-endpoint"} {
				for _, n := range []*testkit.Server{v.a, v.b} {
					n.Do("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
				}
				v.compare(kind, "SLOTS", "SHARDS")
			}
			d.Kill()
			v.compareOpen()
			for _, n := range []*testkit.Server{v.a, v.b} {
				testkit.Until(t, testkit.Slowly(patience), "the killed replica is called failed", func() error {
					if line := lineOf(n, d); !strings.Contains(line, "slave,fail ") {
						return errors.New(line)
					}
					return nil
				})
			}
			v.compare("a replica has failed")
		})
	}
}

// views has the replies of two primaries, a spindle and a redis-server, about their cluster.
type views struct {
	t        *testing.T
	a, b     *testkit.Server
	idA, idB string
}

// form makes the cluster: c replicates b, and d replicates a.
func (v *views) form(c, d *testkit.Server) {
	t, nodes := v.t, []*testkit.Server{v.a, v.b, c, d}
	t.Helper()
	for i, n := range nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	v.a.Do("CLUSTER", "ADDSLOTSRANGE", 0, 99, 200, 300, 16383, 16383)
	v.b.Do("CLUSTER", "ADDSLOTSRANGE", 100, 199, 301, 16382)
	testkit.Meet(t, v.a, busPortOf(v.a), nodes[1:]...)
	known := func() {
		for _, n := range nodes {
			testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
				func() error { return well(n, len(nodes)) })
		}
	}
	known()
	v.idA, v.idB = v.a.Do("CLUSTER", "MYID").Text, v.b.Do("CLUSTER", "MYID").Text
	for replica, id := range map[*testkit.Server]string{c: v.idB, d: v.idA} {
		if v := replica.Do("CLUSTER", "REPLICATE", id); v.Err() != nil {
			t.Fatal(v)
		}
	}
	v.a.Do("SET", keyOf(t, v.a), "x") // an offset of 0 would hide the replica
	v.b.Do("SET", keyOf(t, v.b), "x")
	synced(t, c, d)
	known()
	for _, n := range []*testkit.Server{v.a, v.b} {
		for _, id := range []string{v.idA, v.idB} {
			testkit.Until(t, testkit.Slowly(patience), "all know of the replicas", func() error {
				reply, err := n.Ask("CLUSTER", "REPLICAS", id)
				return errors.Join(err, testkit.Equal(len(reply.Elems), 1))
			})
		}
	}
}

// compare compares the replies about the cluster, or only those that only names. It retries, because one node may not
// know a change yet.
func (v *views) compare(when string, only ...any) {
	v.t.Helper()
	for _, protocol := range []int{2, 3} {
		ours, theirs := v.a.Dial(), v.b.Dial()
		for _, client := range []*respclient.Client{ours, theirs} {
			client.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
			if _, err := client.Do("HELLO", protocol); err != nil {
				v.t.Fatal(err)
			}
		}
		for _, view := range []struct {
			args []any
			show func(respclient.Value) string
		}{
			{[]any{"NODES"}, showNodes},
			{[]any{"REPLICAS", v.idA}, showNodes},
			{[]any{"REPLICAS", v.idB}, showNodes},
			{[]any{"SLOTS"}, showSlots},
			{[]any{"SHARDS"}, showShards},
			{[]any{"LINKS"}, v.showLinks},
			{[]any{"INFO"}, showInfo},
			{[]any{"COUNT-FAILURE-REPORTS", v.idA}, written},
		} {
			if only != nil && !slices.Contains(only, view.args[0]) {
				continue
			}
			args := append([]any{"CLUSTER"}, view.args...)
			testkit.Until(v.t, testkit.Slowly(patience), fmt.Sprintf("%s: alike are %v in RESP%d", when, args, protocol),
				func() error {
					got, err := ours.Do(args...)
					if err != nil {
						return err
					}
					want, err := theirs.Do(args...)
					return errors.Join(err, testkit.Equal(view.show(got), view.show(want)))
				})
		}
		_, _ = ours.Close(), theirs.Close()
	}
}

// sameShards checks that each replica has its primary's shard ID. Each pair has a node of either kind. Valkey also
// lists the IDs of the shards.
func (v *views) sameShards(c, d *testkit.Server) {
	v.t.Helper()
	shard := func(n *testkit.Server) string { return n.Do("CLUSTER", "MYSHARDID").Text }
	testkit.Until(v.t, testkit.Slowly(patience), "pairs have one shard ID", func() error {
		return testkit.Equal(shard(c)+" "+shard(d), shard(v.b)+" "+shard(v.a))
	})
	ours := v.a.Dial()
	ours.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	ours.Must("CLIENT", "CAPA", "redirect")
	for _, row := range append(v.b.Do("CLUSTER", "SHARDS").Elems, ours.Must("CLUSTER", "SHARDS").Elems...) {
		if id, is := row.Get("id"); is && id.Text != shard(v.a) && id.Text != shard(v.b) {
			v.t.Errorf("shard %s: the nodes call it %s and %s", id.Text, shard(v.a), shard(v.b))
		}
	}
}

// compareOpen starts to move a slot in each direction. Each end shows the open move only in its own line.
func (v *views) compareOpen() {
	for slot, way := range map[int][2]*testkit.Server{5: {v.a, v.b}, 9000: {v.b, v.a}} {
		from, to := way[0], way[1]
		to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID").Text)
		from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID").Text)
	}
	for n, want := range map[*testkit.Server]string{
		v.a: fmt.Sprintf(" [5->-%s] [9000-<-%s]", v.idB, v.idB), v.b: fmt.Sprintf(" [5-<-%s] [9000->-%s]", v.idA, v.idA)} {
		if line := lineOf(n, n); !strings.HasSuffix(line, want) {
			v.t.Errorf("%q does not end with %q", line, want)
		}
		for _, slot := range []int{5, 9000} {
			n.Do("CLUSTER", "SETSLOT", slot, "STABLE")
		}
	}
}

// written returns a reply as text that includes its types.
func written(v respclient.Value) string {
	if v.Elems == nil {
		return fmt.Sprintf("%c%s%q", v.Kind, v.Format, v.Word())
	}
	var elems []string
	for _, e := range v.Elems {
		elems = append(elems, written(e))
	}
	return fmt.Sprintf("%c(%s)", v.Kind, strings.Join(elems, " "))
}

// sorted sorts a list whose order has no meaning.
func sorted(list []respclient.Value) {
	slices.SortFunc(list, func(a, b respclient.Value) int { return strings.Compare(written(a), written(b)) })
}

// mask hides numbers that change with time in some fields of a map. Other values stay.
func mask(m respclient.Value, fields ...string) {
	for i := 0; i+1 < len(m.Elems); i += 2 {
		if value := &m.Elems[i+1]; slices.Contains(fields, m.Elems[i].Word()) && value.Kind == ':' {
			value.Int = -1
		}
	}
}

// showNodes returns the lines of CLUSTER NODES, sorted and without times.
func showNodes(v respclient.Value) string {
	lines := strings.Split(v.Text, "\n")
	if v.Elems != nil {
		lines = nil
		for _, e := range v.Elems {
			lines = append(lines, string(e.Kind)+e.Text)
		}
	}
	times := regexp.MustCompile(`^(\S+ \S+ \S+ \S+) \d+ \d+ `)
	for i := range lines {
		lines[i] = times.ReplaceAllString(strings.Replace(lines[i], "myself,", "", 1), "$1 T T ")
	}
	slices.Sort(lines)
	return fmt.Sprintf("%c%s\n%s", v.Kind, v.Format, strings.Join(lines, "\n"))
}

func showSlots(v respclient.Value) string {
	for _, run := range v.Elems {
		sorted(run.Elems[min(3, len(run.Elems)):]) // the replicas
	}
	return written(v)
}

func showShards(v respclient.Value) string {
	for i := range v.Elems {
		shard := &v.Elems[i]
		if len(shard.Elems) > 4 && shard.Elems[4].Text == "id" { // only Valkey has this field
			shard.Elems = shard.Elems[:4]
		}
		members, _ := shard.Get("nodes")
		for _, member := range members.Elems {
			mask(member, "replication-offset")
		}
		sorted(members.Elems)
	}
	sorted(v.Elems)
	return written(v)
}

// showLinks returns the links to other nodes. Each of the two compared nodes is a peer of the other.
func (v *views) showLinks(reply respclient.Value) string {
	for _, link := range reply.Elems {
		mask(link, "create-time", "send-buffer-allocated", "send-buffer-used")
		for i := range link.Elems {
			if id := &link.Elems[i].Text; *id == v.idA || *id == v.idB {
				*id = "PEER"
			}
		}
	}
	sorted(reply.Elems)
	return written(reply)
}

// showInfo returns the fields in order. It leaves out the counts of messages, each node's own values, and fields that
// only Valkey 9 has. A message type without messages so far has no field.
func showInfo(v respclient.Value) string {
	counts := regexp.MustCompile(`(?m)^cluster_stats_messages_(ping|pong|meet|fail|auth-req|auth-ack|update|mfstart)_.*\n`)
	valkey := regexp.MustCompile(
		`(?m)^cluster_((voting_)?nodes_p?fail|stats_(pubsub_|module_)?bytes_(sent|received)):.*\n`)
	own := regexp.MustCompile(`(?m)^(cluster_my_epoch|cluster_stats_messages_\w+):\d+`)
	return fmt.Sprintf("%c%s\n%s", v.Kind, v.Format, own.ReplaceAllString(
		valkey.ReplaceAllString(counts.ReplaceAllString(v.Text, ""), ""), "$1:N"))
}
