package proxy

import (
	"strings"
	"time"

	"spindle/protocol/respclient"
	"spindle/proxy/route"
)

// The proxy offers the commands that all its shards have. It reads them again when a shard is new, or has another
// version or process than before.
//
// proxy.D1. Shards that do not answer do not count, until they do. One that has answered is needed to begin.

// readCommands reads what the shards' commands are. It waits until one answers.
func (p *Proxy) readCommands() {
	for p.readTable(p.marks()) != nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// followCommands reads the commands again when that is needed, until stop is closed. It looks at intervals, and when
// the map has changed.
func (p *Proxy) followCommands(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-p.mapChanged:
		case <-time.After(time.Duration(p.settings.Refresh.Get()) * time.Millisecond):
		}
		marks := p.marks()
		for at, mark := range marks {
			if p.marked[at] == mark {
				continue
			}
			if err := p.readTable(marks); err != nil {
				p.log.Warning("Reading the commands of the shards: %v", err)
			}
			break
		}
	}
}

// marks asks each shard for what changes with its commands: its version and its process, and how many commands it has.
// It is by address. A shard that does not answer has none.
func (p *Proxy) marks() map[string]string {
	marks := map[string]string{}
	for _, shard := range p.finder.Current().Shards {
		if shard.Primary == "" {
			continue
		}
		c, err := p.access.Dial(shard.Primary)
		if err != nil {
			continue
		}
		if replies, err := c.Pipeline([]any{"INFO", "server"}, []any{"COMMAND", "COUNT"}); err == nil {
			marks[shard.Primary] = markOf(replies)
		}
		c.Close()
	}
	return marks
}

// markOf joins the lines of INFO that matter with the number of commands.
func markOf(replies []respclient.Value) string {
	mark := replies[1].String()
	for line := range strings.SplitSeq(replies[0].Text, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		if strings.HasSuffix(name, "_version") || name == "run_id" {
			mark += " " + line
		}
	}
	return mark
}

// readTable reads the commands of the shards with these marks.
func (p *Proxy) readTable(marks map[string]string) (err error) {
	var replies []respclient.Value
	err = errNoShard
	marked := map[string]string{}
	for at, mark := range marks {
		reply, failed := p.commandsOf(at)
		if failed != nil {
			err = failed
			p.log.Warning("Reading the commands of %s: %v", at, failed)
			continue
		}
		replies = append(replies, reply)
		marked[at] = mark
	}
	if len(replies) == 0 {
		return err
	}
	table, err := route.Read(route.Common(replies), p.hasher)
	if err != nil {
		return err
	}
	table.Continue(p.table())
	p.commands.Store(table)
	p.marked = marked
	return nil
}

func (p *Proxy) commandsOf(at string) (respclient.Value, error) {
	c, err := p.access.Dial(at)
	if err != nil {
		return respclient.Value{}, err
	}
	defer c.Close()
	return do(c, "COMMAND")
}
