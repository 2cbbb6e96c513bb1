package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/engine/family/observe"
	"spindle/engine/family/sight"
	"spindle/engine/part"
	"spindle/internal/histogram"
	"spindle/internal/info"
	"spindle/internal/setting"
)

// makeParts lists the features, in the order in which they join.
func (in *instance) makeParts() []*part.Part {
	return []*part.Part{
		{Name: "transactions", Join: func(p *part.Part) error {
			p.Families = []command.Family{in.watches.Family()}
			p.Listeners = []part.Listeners{{Order: part.ForgetKeys, Touched: in.watches.Touched,
				Emptying: in.watches.Emptying, Swapping: in.watches.Swapping, Gone: in.watches.Forget,
				ExecRefused: in.watches.Abort}}
			return nil
		}},
		{Name: "pub/sub", Join: func(p *part.Part) error {
			p.Families, p.Sections = []command.Family{in.hub.Family()}, []info.Section{in.hub.Section()}
			p.Listeners = []part.Listeners{{Order: part.ForgetKeys, Gone: in.hub.Forget, Heard: in.hub.Heard,
				Publish: func(channel, payload []byte) { in.hub.Publish(channel, payload) }}}
			return nil
		}},
		{Name: "tracking", Rows: in.tracking.Rows(), Join: func(p *part.Part) error {
			p.Sections = in.tracker.Sections()
			p.Listeners = []part.Listeners{
				{Order: part.ForgetKeys, Touched: in.tracker.Touched, Renewing: in.tracker.Invalidate,
					Gone: in.tracker.Forget, Read: in.tracker.Read},
				{Order: part.Later, Tick: func(int64) { in.tracker.Trim() }},
			}
			p.Follows = []part.Follow{part.On(in.tracker.Trim, "tracking-table-max-keys")}
			return nil
		}},
		{Name: "scripts", Rows: in.scriptSettings.Rows(), Join: func(p *part.Part) error {
			p.Families, p.Sections = []command.Family{in.scripts.Family()}, in.scripts.Sections()
			p.Listeners = []part.Listeners{{Order: part.Later, OtherMemory: func() (used, spared int64) {
				scripts, libraries := in.scripts.Kept()
				return scripts + libraries, 0
			}}}
			p.Reset = in.scripts.ResetStats
			return nil
		}},
		{Name: "data set", Rows: in.storage.Rows(), Join: func(p *part.Part) error {
			in.set.Join(p)
			return nil
		}},
		in.clusterPart(),
		{Name: "migration", Join: func(p *part.Part) error {
			p.Families, p.Sections = []command.Family{in.migrator.Family()}, []info.Section{in.migrator.Section()}
			p.Threads = func() part.Need {
				if in.migrator.InFlight() {
					return part.Laden
				}
				return part.Idle
			}
			return nil
		}},
		{Name: "links of a Sentinel and clients of the admin lane", Join: func(p *part.Part) error {
			p.Threads = func() part.Need {
				if l := in.lane.Load(); in.asSentinel || l != nil && l.Connected() > 0 {
					return part.Laden
				}
				return part.Idle
			}
			return nil
		}},
		{Name: "memory purposes", Join: func(p *part.Part) error {
			p.Metrics = []prometheus.Collector{observe.PurposeFigures{Purposes: func() (list []observe.Purpose) {
				in.core.Do(func() { list = observe.Purposes(in.space) })
				return list
			}}}
			return nil
		}},
		{Name: "insight", Join: func(p *part.Part) error {
			sight.Join(p, sight.Deps{
				Do: in.core.Do, Space: in.space, HotKeys: in.core.HotKeys, Stalls: in.core.Stalls,
				Catalogue: func() *command.Catalogue { return in.catalogue },
				Replies: func(yield func(row int, h *histogram.H) bool) {
					if in.reactor != nil { // it comes later
						in.reactor.Timings(yield)
					}
				},
				HotKeysChanged: in.core.ApplyHotKeys, StallsChanged: in.core.ApplyStallThreshold,
			})
			return nil
		}},
	}
}

// A parts is the features of this server, in order. What is done for each feature is a loop here.
type parts []*part.Part

// rows are the settings of all features.
func (all parts) rows() (rows []setting.Row) {
	for _, p := range all {
		rows = append(rows, p.Rows...)
	}
	return rows
}

// join builds the features, and has the core call them.
func (all parts) join(subscribe func(part.Listeners)) error {
	for _, p := range all {
		if p.Join != nil {
			if err := p.Join(p); err != nil {
				return err
			}
		}
		for _, l := range p.Listeners {
			subscribe(l)
		}
	}
	return nil
}

// families are the commands of all features.
func (all parts) families() (families []command.Family) {
	for _, p := range all {
		families = append(families, p.Families...)
	}
	return families
}

// barriers are those of all features, in the order in which a client meets them.
func (all parts) barriers() (barriers []*part.Barrier) {
	for _, p := range all {
		barriers = append(barriers, p.Barriers...)
	}
	return barriers
}

// follow has each feature hear of the settings that it follows.
func (all parts) follow(r *setting.Registry) {
	for _, p := range all {
		for _, f := range p.Follows {
			if f.Do != nil {
				r.Follow(f.Do, f.Names...)
			} else {
				r.OnChange(f.Try, f.Names...)
			}
		}
	}
}

// need is the greatest need for threads. Turn only.
func (all parts) need() (need part.Need) {
	for _, p := range all {
		if p.Threads != nil {
			need = max(need, p.Threads())
		}
	}
	return need
}

// ill is the first reason why this server should get no traffic; "" is none. Turn only.
func (all parts) ill() string {
	for _, p := range all {
		if p.Ill != nil {
			if reason := p.Ill(); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// reset has each feature forget what it has counted. Turn only.
func (all parts) reset() {
	for _, p := range all {
		if p.Reset != nil {
			p.Reset()
		}
	}
}

// collectors are the figures of all features, with those that name keys or without.
func (all parts) collectors(keys bool) (list []prometheus.Collector) {
	for _, p := range all {
		list = append(list, p.Metrics...)
		if keys {
			list = append(list, p.Named...)
		}
	}
	return list
}

// check asks each feature whether the server may start, before it listens.
func (all parts) check() error {
	for _, p := range all {
		if p.Check != nil {
			if err := p.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens each feature, once the server listens.
func (all parts) open() error {
	for _, p := range all {
		if p.Open != nil {
			if err := p.Open(); err != nil {
				return err
			}
		}
	}
	return nil
}

// loaded tells each feature that the data set is loaded. Turn only.
func (all parts) loaded() {
	for _, p := range all {
		if p.Loaded != nil {
			p.Loaded()
		}
	}
}

// stop ends the features, the last first.
func (all parts) stop() {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Stop != nil {
			all[i].Stop()
		}
	}
}
