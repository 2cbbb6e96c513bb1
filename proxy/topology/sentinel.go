package topology

import (
	"math/rand/v2"
	"slices"
	"time"

	"spindle/internal/logging"
	"spindle/protocol/respclient"
)

// SentinelOptions configure how a SentinelFinder finds the primaries of plain servers.
type SentinelOptions struct {
	Sentinels []string      // host:port
	Masters   []string      // names; each is a shard
	Owners    []uint16      // the index in Masters of each slot's shard; see EqualRanges
	Sentinel  Access        // to Sentinels
	Servers   Access        // to servers, whose replicas' lag is measured
	Every     time.Duration // this and the next two are as in Options
	Soonest   time.Duration
	Lag       time.Duration
	Log       *logging.Logger
}

// A SentinelFinder keeps a Map up to date by asking Sentinels, and by their messages about failovers. Close ends it.
type SentinelFinder struct {
	*keeper
	rounds

	options SentinelOptions
	masters *masters // guarded by mu
	trouble trouble
}

// FindSentinel starts a SentinelFinder. It asks the Sentinels once before it returns.
func FindSentinel(o SentinelOptions) *SentinelFinder {
	f := &SentinelFinder{keeper: newKeeper(len(o.Owners)), options: o, masters: newMasters(o.Masters, o.Owners,
		len(o.Sentinels))}
	f.rounds = newRounds(o.Every, o.Soonest, rand.Int64N)
	f.refresh()
	f.start(f.refresh)
	for _, addr := range o.Sentinels {
		go f.listen(addr)
	}
	if o.Lag > 0 {
		f.measureLag(f.keeper, o.Servers, o.Lag, o.Log)
	}
	return f
}

// Close ends the Finder. The last Map stays current, and OnChange calls no function any more.
func (f *SentinelFinder) Close() {
	f.keeper.close()
	f.stop()
}

// refresh asks the Sentinels one by one, until it has accepted a reply about each name.
func (f *SentinelFinder) refresh() {
	sentinels := slices.Clone(f.options.Sentinels)
	rand.Shuffle(len(sentinels), func(i, j int) { sentinels[i], sentinels[j] = sentinels[j], sentinels[i] })
	missing := make([]bool, len(f.options.Masters))
	for i := range missing {
		missing[i] = true
	}
	for _, addr := range sentinels {
		if f.ended() {
			return
		}
		err := f.ask(addr, missing)
		if f.trouble.note(addr, err) {
			f.options.Log.Warning("proxy: the answer of Sentinel %s does not count: %v", addr, err)
		}
		if !slices.Contains(missing, true) {
			return
		}
	}
	if f.Current().Version == 0 {
		f.Refresh()
	}
}

// ask asks one Sentinel for the missing names. It returns its last error.
func (f *SentinelFinder) ask(addr string, missing []bool) (trouble error) {
	c, err := f.options.Sentinel.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for i, name := range f.options.Masters {
		if !missing[i] {
			continue
		}
		replies, err := c.Pipeline([]any{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}, []any{"SENTINEL", "MASTER", name},
			[]any{"SENTINEL", "REPLICAS", name})
		if err != nil {
			return err
		}
		m, err := readMaster(replies[0], replies[1], replies[2])
		if err == nil {
			f.mu.Lock()
			var next *Map
			if next, err = f.masters.take(i, m, addr); next != nil {
				f.options.Log.Notice("proxy: Sentinel %s says that %s is the primary of %s", addr, m.addr, name)
				f.publish(next)
			}
			f.mu.Unlock()
		}
		if err != nil {
			trouble = err
		} else {
			missing[i] = false
		}
	}
	return trouble
}

// listen reads one Sentinel's messages about failovers, until the Finder ends.
func (f *SentinelFinder) listen(addr string) {
	for {
		if c, err := f.options.Sentinel.Dial(addr); err == nil {
			stop := make(chan struct{})
			go func() { // ends the read below
				select {
				case <-f.end:
				case <-stop:
				}
				c.Close()
			}()
			f.hear(c)
			close(stop)
		}
		if !f.sleep(f.jittered(f.options.Every)) {
			return
		}
	}
}

// hear reads messages until the connection breaks. The kernel detects a dead link; until then refreshes find failovers.
func (f *SentinelFinder) hear(c *respclient.Client) {
	c.Send("SUBSCRIBE", "+switch-master")
	if c.Flush() != nil {
		return
	}
	c.SetTimeout(0)
	for {
		v, err := c.Receive()
		if err != nil {
			return
		}
		if len(v.Elems) == 3 && v.Elems[0].Text == "message" {
			f.heard(v.Elems[2].Text)
		}
	}
}

// heard processes a message of +switch-master.
func (f *SentinelFinder) heard(message string) {
	name, before, after, ok := readSwitch(message)
	if !ok {
		return
	}
	f.mu.Lock()
	if m := f.masters.switched(name, before, after); m != nil {
		f.options.Log.Notice("proxy: %s took over from %s as the primary of %s", after, before, name)
		f.publish(m)
	}
	f.mu.Unlock()
	f.Refresh()
}
