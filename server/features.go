package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/catalogue"
	"spindle/engine/command"
	"spindle/engine/diagnose"
	"spindle/engine/family/conn"
	"spindle/engine/family/introspect"
	"spindle/engine/part"
	"spindle/internal/histogram"
	"spindle/internal/info"
)

// makeParts lists the features, in the order in which they join. COMMAND lists their commands in this order.
func (in *instance) makeParts() part.List {
	return part.List{
		{Name: "data", Rows: append(in.common.Rows(), in.data.Rows()...), Join: func(p *part.Part) error {
			p.Families = catalogue.Data(&in.data)
			return nil
		}},
		{Name: "connections", Join: func(p *part.Part) error {
			p.Families = []command.Family{conn.Family(in.connDeps(), append(in.tracker.Rows(), in.notices.Rows()...)...)}
			return nil
		}},
		in.introspectionPart(),
		in.configPart(),
		in.usersPart(),
		{Name: "modules", Join: func(p *part.Part) error {
			p.Families, p.Sections = []command.Family{in.modules.Family()}, []info.Section{in.modules.Section()}
			return nil
		}},
		in.corePart(),
		in.processPart(),
		in.networkPart(),
		in.tlsPart(),
		in.sentinelPart(),
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
		{Name: "maintenance", Join: func(p *part.Part) error {
			p.Listeners = []part.Listeners{{Order: part.Later, Gone: in.notices.Forget}}
			return nil
		}},
		{Name: "scripts", Rows: in.scriptSettings.Rows(), Join: func(p *part.Part) error {
			p.Families, p.Sections = []command.Family{in.scripts.Family()}, in.scripts.Sections()
			p.Listeners = []part.Listeners{{Order: part.Later, OtherMemory: func() (used, spared int64) {
				scripts, libraries := in.scripts.StoredBytes()
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
		{Name: "admin lane", Join: func(p *part.Part) error {
			p.Threads = func() part.Need {
				if l := in.lane.Load(); l != nil && l.Reactor.Stats().Open > 0 {
					return part.Laden
				}
				return part.Idle
			}
			return nil
		}},
		{Name: "memory purposes", Join: func(p *part.Part) error {
			p.Metrics = []prometheus.Collector{introspect.PurposeFigures{Purposes: func() (list []introspect.Purpose) {
				in.core.Do(func() { list = introspect.Purposes(in.space) })
				return list
			}}}
			return nil
		}},
		{Name: "diagnosis", Join: func(p *part.Part) error {
			diagnose.Join(p, diagnose.Deps{
				Do: in.core.Do, Space: in.space, HotKeys: in.core.HotKeys, Stalls: in.core.Stalls,
				Catalogue: func() *command.Catalogue { return in.catalogue },
				Replies: func(yield func(row int, h *histogram.H) bool) {
					if in.listening.reactor != nil { // it is made later
						in.listening.reactor.Timings(yield)
					}
				},
				Sampling: in.engine.HotKeys.Get, Clustered: in.clustering.Enabled.Get, Nanos: in.core.Nanos,
				HotKeysChanged: in.core.ApplyHotKeys, StallsChanged: in.core.ApplyStallThreshold,
			})
			return nil
		}},
	}
}
