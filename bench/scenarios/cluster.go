package scenarios

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spindle/bench/process"
	"spindle/bench/report"
	"spindle/internal/slots"
	"spindle/protocol/respclient"
)

// These are the sizes of the measured cluster.
const (
	clusterSize      = 30
	clusterPrimaries = 10
	clusterTimeout   = 5000 // ms, cluster-node-timeout
	clusterKilled    = 3
	reshardSlots     = 4096
	reshardRate      = 20_000 // writes a second
	clusterPatience  = 2 * time.Minute
)

// gathered has the figures of one kind of cluster. Times are in ns; rates are per node.
type gathered struct {
	met, well, recovered, reshard report.Sample
	cpu, sent, memory             report.Sample // share of a core, bytes/s, bytes
	moved, errors                 report.Sample // writes a second during the reshard, and how many of them failed
	known                         report.Line   // how many nodes were known to all others, by seconds since the first MEET
}

// clusterNodes measures a cluster of 30 nodes, and a reshard in a cluster of three nodes.
func clusterNodes(e *Env) (*report.Section, error) {
	free := *e
	free.ServerCPUs, free.LoadCPUs, free.ports = nil, nil, 120
	contenders := free.Pair()
	s := free.section("cluster-nodes", contenders,
		fmt.Sprintf("%d nodes of one kind on all cores, cluster-node-timeout %d ms. %d primaries with slots meet one of "+
			"them, and so do %d nodes that become their replicas.", clusterSize, clusterTimeout, clusterPrimaries,
			clusterSize-clusterPrimaries),
		"Met: from the first MEET until every node knows all and calls the cluster ok. Well: from the first REPLICATE "+
			"until every replica's link is up and every node knows every role.",
		fmt.Sprintf("At rest, for 10 s: CPU and resident memory of a node, and what it sends on the bus, by the kernel's "+
			"counts of its connections (ss). Then %d primaries are killed at once. Recovered: all other nodes call the "+
			"cluster ok, with all slots served.", clusterKilled),
		fmt.Sprintf("Reshard: redis-cli --cluster reshard moves %s slots of three primaries with %s keys of 16 bytes, "+
			"values of 32, under %s writes a second.", report.Thousands(reshardSlots), report.Thousands(float64(e.ManyKeys)),
			report.Thousands(reshardRate)))
	seen := map[string]*gathered{}
	for _, c := range contenders {
		seen[c.Name] = &gathered{known: report.Line{Name: c.Name}}
	}
	err := free.alternate(contenders, func(c Contender, _ int) error {
		if err := free.thirtyNodes(c, seen[c.Name]); err != nil {
			return err
		}
		return free.reshardOnce(c, seen[c.Name])
	})
	if err != nil {
		return nil, err
	}
	nodes := report.Table{Title: "30 nodes", Columns: []string{"server", "met", "well", "recovered",
		"CPU of a node at rest", "bus, bytes/s of a node", "memory of a node", "verdict"}}
	moves := report.Table{Title: "Reshard", Columns: []string{"server", "time", "× redis", "writes/s beside",
		"failed", "verdict"}}
	base := seen[e.Reference.Name]
	var curves []report.Line
	for i, c := range contenders {
		x, lost, slow := seen[c.Name], "", ""
		took := x.reshard.Ratio(base.reshard)
		if i > 0 && c.Kind == Spindle {
			if x.cpu.Median() > base.cpu.Median() || x.met.Median() > base.met.Median() ||
				x.recovered.Median() > base.recovered.Median() || x.memory.Median() > base.memory.Median() {
				lost = string(report.Lost)
			}
			if took > 1 {
				slow = string(report.Lost)
			}
		}
		nodes.Rows = append(nodes.Rows, []string{c.Name, x.met.Text(report.Duration), x.well.Text(report.Duration),
			x.recovered.Text(report.Duration),
			x.cpu.Text(report.Percent), x.sent.Text(report.Thousands), x.memory.Text(report.Megabytes), lost})
		moves.Rows = append(moves.Rows, []string{c.Name, x.reshard.Text(report.Duration), report.Number(took),
			x.moved.Text(report.Thousands), x.errors.Text(report.Number), slow})
		curves = append(curves, x.known)
	}
	s.Tables = append(s.Tables, nodes, moves)
	ours := seen["spindle"]
	ratio := ours.reshard.Ratio(base.reshard)
	s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("reshard of %s slots under writes",
		report.Thousands(reshardSlots)), Target: "≤ 1.0 × redis's time",
		Reference: base.reshard.Text(report.Duration), Ours: ours.reshard.Text(report.Duration) + ", " + report.Times(ratio),
		Verdict: report.Judge(ratio, 1, 1)})
	return s, free.plot(s, "cluster-converge",
		"How many of 30 nodes every node knows, after the first MEET. The last run.", func(file string) error {
			return report.Lines(file, "30 nodes meet", "seconds", "nodes known to all", false, curves)
		})
}

// beginNodes starts count nodes. The first of them have all slots.
func (e *Env) beginNodes(c Contender, count, primaries, timeout int) (nodes []*Server, end func(), err error) {
	end = func() {
		for _, n := range nodes {
			n.End()
		}
	}
	for i := range count {
		bus, err := e.port()
		if err != nil {
			return nodes, end, err
		}
		n, err := e.Begin(c, Start{Args: []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(timeout),
			"--cluster-port", strconv.Itoa(bus), "--repl-diskless-sync-delay", "0"}})
		if err != nil {
			return nodes, end, err
		}
		nodes = append(nodes, n)
		if i >= primaries {
			continue
		}
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return nodes, end, err
		}
		if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots.Count/primaries, (i+1)*slots.Count/primaries-1); err != nil {
			return nodes, end, err
		}
	}
	return nodes, end, nil
}

// line returns a node's line about itself in CLUSTER NODES.
func (s *Server) line() ([]string, error) {
	v, err := s.Do("CLUSTER", "NODES")
	for line := range strings.SplitSeq(v.Text, "\n") {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(words[2], "myself") {
			return words, err
		}
	}
	return nil, errors.Join(err, fmt.Errorf("%s does not list itself", s.Name))
}

// meet makes all nodes meet the first.
func meet(nodes []*Server) error {
	words, err := nodes[0].line()
	if err != nil {
		return err
	}
	_, bus, _ := strings.Cut(words[1], "@")
	bus, _, _ = strings.Cut(bus, ",")
	_, port, _ := strings.Cut(nodes[0].Address, ":")
	for _, n := range nodes[1:] {
		if _, err := n.Do("CLUSTER", "MEET", "127.0.0.1", port, bus); err != nil {
			return err
		}
	}
	return nil
}

// leastKnown returns the smallest number of known nodes over all nodes, and whether all nodes report the cluster as ok.
func leastKnown(nodes []*Server) (least int, ok bool, err error) {
	least, ok = 1<<30, true
	for _, n := range nodes {
		v, err := n.Do("CLUSTER", "INFO")
		if err != nil {
			return 0, false, err
		}
		lines := strings.Fields(v.Text)
		ok = ok && slices.Contains(lines, "cluster_state:ok") &&
			slices.Contains(lines, fmt.Sprint("cluster_slots_ok:", slots.Count))
		for _, line := range lines {
			if text, is := strings.CutPrefix(line, "cluster_known_nodes:"); is {
				known, err := strconv.Atoi(text)
				if err != nil {
					return 0, false, err
				}
				least = min(least, known)
			}
		}
	}
	return least, ok, nil
}

// thirtyNodes makes a cluster, measures it without load, and kills primaries.
func (e *Env) thirtyNodes(c Contender, x *gathered) error {
	nodes, end, err := e.beginNodes(c, clusterSize, clusterPrimaries, clusterTimeout)
	defer end()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := meet(nodes); err != nil {
		return err
	}
	x.known.X, x.known.Y = nil, nil
	met, err := nodes[0].until(clusterPatience, 20*time.Millisecond, "a cluster of all nodes", func() (bool, error) {
		least, ok, err := leastKnown(nodes)
		x.known.X, x.known.Y = append(x.known.X, time.Since(began).Seconds()), append(x.known.Y, float64(least))
		return ok && least == len(nodes), err
	})
	if err != nil {
		return err
	}
	x.met = append(x.met, float64(met))
	well, err := replicate(nodes, clusterPrimaries)
	if err != nil {
		return err
	}
	x.well = append(x.well, float64(well))
	if err := e.atRest(nodes, x); err != nil {
		return err
	}
	for _, n := range nodes[:clusterKilled] {
		n.Stop()
	}
	recovered, err := nodes[clusterKilled].until(clusterPatience, 20*time.Millisecond,
		"all slots with other primaries", func() (bool, error) {
			failed := 0
			v, err := nodes[clusterKilled].Do("CLUSTER", "NODES")
			for line := range strings.SplitSeq(v.Text, "\n") {
				if words := strings.Fields(line); len(words) > 8 && strings.Contains(words[2], "fail") {
					failed++ // the node still has slots
				}
			}
			if err != nil {
				return false, err
			}
			killed := 0 // the number of killed nodes that this node marks as failed
			for line := range strings.SplitSeq(v.Text, "\n") {
				if words := strings.Fields(line); len(words) > 2 && slices.Contains(strings.Split(words[2], ","), "fail") {
					killed++
				}
			}
			_, ok, err := leastKnown(nodes[clusterKilled:])
			return ok && failed == 0 && killed == clusterKilled, err
		})
	x.recovered = append(x.recovered, float64(recovered))
	return err
}

// replicate makes each of the other nodes a replica of one of the primaries, and waits until all nodes know it.
func replicate(nodes []*Server, primaries int) (time.Duration, error) {
	began := time.Now()
	for i, n := range nodes[primaries:] {
		id, err := nodes[i%primaries].Do("CLUSTER", "MYID")
		if err != nil {
			return 0, err
		}
		if _, err := n.Do("CLUSTER", "REPLICATE", id.Text); err != nil {
			return 0, err
		}
	}
	_, err := nodes[0].until(clusterPatience, 20*time.Millisecond, "replicas in step", func() (bool, error) {
		for i, n := range nodes {
			v, err := n.Do("CLUSTER", "NODES")
			if err != nil || strings.Count(v.Text, "slave") != len(nodes)-primaries {
				return false, err
			}
			if i < primaries {
				continue
			}
			info, err := n.Info()
			if err != nil || info["master_link_status"] != "up" {
				return false, nil // the node may be loading
			}
		}
		return true, nil
	})
	return time.Since(began), err
}

// atRest measures the costs of the nodes without clients.
func (e *Env) atRest(nodes []*Server, x *gathered) error {
	const rest = 10 * time.Second
	usage := func() (cpu time.Duration, err error) {
		for _, n := range nodes {
			one, err := process.CPUTime(n.PID)
			if err != nil {
				return 0, err
			}
			cpu += one
		}
		return cpu, nil
	}
	before, err := usage()
	if err != nil {
		return err
	}
	sent := busBytes(nodes)
	began := time.Now()
	select {
	case <-e.Context.Done():
		return e.Context.Err()
	case <-time.After(rest):
	}
	after, err := usage()
	if err != nil {
		return err
	}
	took, count := time.Since(began), float64(len(nodes))
	x.cpu = append(x.cpu, float64(after-before)/float64(took)/count)
	x.sent = append(x.sent, (busBytes(nodes)-sent)/took.Seconds()/count)
	memory := int64(0)
	for _, n := range nodes {
		memory += n.RSS()
	}
	x.memory = append(x.memory, float64(memory)/count)
	return nil
}

// busBytes returns the bytes sent on all bus connections, in both directions. It returns NaN if ss is not installed.
func busBytes(nodes []*Server) (total float64) {
	buses := map[string]bool{}
	for _, n := range nodes {
		words, err := n.line()
		if err != nil {
			return nan
		}
		_, bus, _ := strings.Cut(words[1], "@")
		bus, _, _ = strings.Cut(bus, ",")
		buses[":"+bus] = true
	}
	out, err := exec.Command("ss", "-tinH", "state", "established").Output()
	if err != nil {
		return nan
	}
	onBus := false
	for line := range strings.SplitSeq(string(out), "\n") {
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "\t") && len(words) >= 4 { // queues, and both addresses
			onBus = false
			for _, w := range words[2:4] {
				onBus = onBus || buses[w[max(strings.LastIndexByte(w, ':'), 0):]]
			}
			continue
		}
		for _, w := range words {
			if text, is := strings.CutPrefix(w, "bytes_sent:"); is && onBus {
				n, _ := strconv.ParseFloat(text, 64) // 0 if the kernel counts differently
				total += n
			}
		}
	}
	return total
}

// A router writes keys to the nodes of their slots.
type router struct {
	conns map[string]*respclient.Client
	where [slots.Count]string
}

func newRouter(nodes []*Server) *router {
	r := &router{conns: map[string]*respclient.Client{}}
	for slot := range r.where {
		r.where[slot] = nodes[min(slot*len(nodes)/slots.Count, len(nodes)-1)].Address
	}
	return r
}

func (r *router) close() {
	for _, c := range r.conns {
		c.Close()
	}
}

func (r *router) conn(address string) (*respclient.Client, error) {
	if c := r.conns[address]; c != nil {
		return c, nil
	}
	c, err := respclient.DialTimeout(address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c.SetTimeout(time.Minute)
	r.conns[address] = c
	return c, nil
}

// write sends one SET for each key, all at once, and follows redirections. It returns the number of keys whose SET
// failed.
func (r *router) write(keys []string) (failed int, err error) {
	const value = "a value of thirty-two bytes here"
	byNode := map[string][]string{}
	for _, key := range keys {
		at := r.where[slots.Of([]byte(key))]
		byNode[at] = append(byNode[at], key)
	}
	for at, list := range byNode {
		c, err := r.conn(at)
		if err != nil {
			return 0, err
		}
		for _, key := range list {
			c.Send("SET", key, value)
		}
		if err := c.Flush(); err != nil {
			return 0, err
		}
	}
	for at, list := range byNode {
		for _, key := range list {
			v, err := r.conns[at].Receive()
			if err != nil {
				return 0, err
			}
			for tries := 0; v.Err() != nil && tries < 10; tries++ {
				words := strings.Fields(v.Text)
				if words[0] != "MOVED" && words[0] != "ASK" {
					break
				}
				c, err := respclient.DialTimeout(words[2], 5*time.Second) // the others still await replies
				if err != nil {
					return 0, err
				}
				if words[0] == "MOVED" {
					r.where[slots.Of([]byte(key))] = words[2]
				} else {
					c.Send("ASKING")
				}
				c.Send("SET", key, value)
				err = c.Flush()
				if words[0] == "ASK" && err == nil {
					_, err = c.Receive()
				}
				if err == nil {
					v, err = c.Receive()
				}
				c.Close()
				if err != nil {
					return 0, err
				}
			}
			if v.Err() != nil {
				failed++
			}
		}
	}
	return failed, nil
}

func clusterKey(n uint64) string { return fmt.Sprintf("key:%012d", n) }

// reshardOnce moves slots of one primary to another while clients write.
func (e *Env) reshardOnce(c Contender, x *gathered) error {
	const primaries = 3
	nodes, end, err := e.beginNodes(c, primaries, primaries, clusterTimeout)
	defer end()
	if err != nil {
		return err
	}
	if err := meet(nodes); err != nil {
		return err
	}
	if _, err := nodes[0].until(clusterPatience, 20*time.Millisecond, "a cluster", func() (bool, error) {
		least, ok, err := leastKnown(nodes)
		return ok && least == primaries, err
	}); err != nil {
		return err
	}
	r := newRouter(nodes)
	defer r.close()
	const atOnce = 1000
	batch := make([]string, 0, atOnce)
	for n := range e.ManyKeys {
		if batch = append(batch, clusterKey(n)); len(batch) == atOnce || n == e.ManyKeys-1 {
			if failed, err := r.write(batch); err != nil || failed > 0 {
				return fmt.Errorf("%s: %d keys were not written: %w", c.Name, failed, err)
			}
			batch = batch[:0]
		}
	}
	var ids []string
	for _, n := range nodes {
		id, err := n.Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids = append(ids, id.Text)
	}
	var stop atomic.Bool
	var writing sync.WaitGroup
	var writes, failed int
	var broken error
	began := time.Now()
	writing.Go(func() {
		for rng := rand.New(rand.NewPCG(1, 2)); !stop.Load() && broken == nil; {
			due := int(time.Since(began).Seconds()*reshardRate) - writes
			if due <= 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			list := make([]string, min(due, atOnce))
			for i := range list {
				list[i] = clusterKey(rng.Uint64N(e.ManyKeys))
			}
			var refused int
			refused, broken = r.write(list)
			writes, failed = writes+len(list), failed+refused
		}
	})
	out, err := exec.CommandContext(e.Context, "redis-cli", "--cluster", "reshard", nodes[0].Address,
		"--cluster-from", ids[0],
		"--cluster-to", ids[1], "--cluster-slots", strconv.Itoa(reshardSlots), "--cluster-yes").CombinedOutput()
	took := time.Since(began)
	stop.Store(true)
	writing.Wait()
	if err = errors.Join(err, broken); err != nil {
		return fmt.Errorf("%s: reshard: %w: %s", c.Name, err, out[max(0, len(out)-400):])
	}
	x.reshard = append(x.reshard, float64(took))
	x.moved = append(x.moved, float64(writes)/took.Seconds())
	x.errors = append(x.errors, float64(failed))
	return nil
}
