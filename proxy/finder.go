package proxy

import (
	"time"

	"spindle/proxy/route"
	"spindle/proxy/topology"
)

// A finder knows the shards, and learns of changes.
type finder interface {
	Current() *topology.Map
	// OnChange calls f with the current map and with each later one. f must be short, and must not call the finder.
	OnChange(f func(*topology.Map))
	// Moved tells that a server has named another owner of a slot.
	Moved(slot int, at string)
	// Refresh has the shards looked up soon.
	Refresh()
	Close()
}

// watched is a finder by Sentinels. Plain servers redirect nothing.
type watched struct{ *topology.SentinelFinder }

func (watched) Moved(int, string) {}

// handed is a finder whose maps come from the store.
type handed struct{ *topology.Static }

func (handed) Moved(int, string) {}
func (handed) Refresh()          {}
func (handed) Close()            {}

// readCommands reads what a shard's commands are, and begins to read them again at intervals. It waits until one
// answers.
func (p *Proxy) readCommands() {
	for p.readTable() != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// readTable reads the commands of the first shard that answers.
func (p *Proxy) readTable() (err error) {
	err = errNoShard
	for _, shard := range p.finder.Current().Shards {
		if shard.Primary == "" {
			continue
		}
		var table *route.Table
		if table, err = p.tableOf(shard.Primary); err == nil {
			p.commands.Store(table)
			return nil
		}
		p.log.Warning("Reading the commands of %s: %v", shard.Primary, err)
	}
	return err
}

func (p *Proxy) tableOf(at string) (*route.Table, error) {
	c, err := p.access.Dial(at)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := c.Do("COMMAND")
	if err != nil {
		return nil, err
	}
	return route.Read(v, p.hasher)
}
