package part

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/internal/info"
	"spindle/internal/setting"
)

// A List holds the features of a server, in order. Each method is a loop over them.
type List []*Part

// Rows returns the settings of all features.
func (all List) Rows() (rows []setting.Row) {
	for _, p := range all {
		rows = append(rows, p.Rows...)
	}
	return rows
}

// Join builds the features in order, and passes their listeners to subscribe.
func (all List) Join(subscribe func(Listeners)) error {
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

// Families returns the commands of all features.
func (all List) Families() (families []command.Family) {
	for _, p := range all {
		families = append(families, p.Families...)
	}
	return families
}

// Sections returns the INFO sections of all features.
func (all List) Sections() (sections []info.Section) {
	for _, p := range all {
		sections = append(sections, p.Sections...)
	}
	return sections
}

// Barriers returns the barriers of all features, in the order in which a client's command meets them.
func (all List) Barriers() (barriers []*Barrier) {
	for _, p := range all {
		barriers = append(barriers, p.Barriers...)
	}
	return barriers
}

// Follow subscribes each feature to the settings that it follows.
func (all List) Follow(r *setting.Registry) {
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

// Need returns the greatest need of a feature for threads. Turn only.
func (all List) Need() (need Need) {
	for _, p := range all {
		if p.Threads != nil {
			need = max(need, p.Threads())
		}
	}
	return need
}

// Ill returns the first reason why this server should get no traffic, or "". Turn only.
func (all List) Ill() string {
	for _, p := range all {
		if p.Ill != nil {
			if reason := p.Ill(); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// Reset makes each feature clear its counts. Turn only.
func (all List) Reset() {
	for _, p := range all {
		if p.Reset != nil {
			p.Reset()
		}
	}
}

// Collectors returns the metrics of all features. If keys is true, it includes the metrics that name keys.
func (all List) Collectors(keys bool) (list []prometheus.Collector) {
	for _, p := range all {
		list = append(list, p.Metrics...)
		if keys {
			list = append(list, p.Named...)
		}
	}
	return list
}

// Ready tells each feature that the settings have been read. An error refuses the configuration.
func (all List) Ready() error {
	for _, p := range all {
		if p.Ready != nil {
			if err := p.Ready(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check asks each feature whether the server may start. It is called before the server listens.
func (all List) Check() error {
	for _, p := range all {
		if p.Check != nil {
			if err := p.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open opens each feature. It is called when the server already listens.
func (all List) Open() error {
	for _, p := range all {
		if p.Open != nil {
			if err := p.Open(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Loaded tells each feature that the data set is loaded. Turn only.
func (all List) Loaded() {
	for _, p := range all {
		if p.Loaded != nil {
			p.Loaded()
		}
	}
}

// Stop stops the features, from the last to the first. It runs outside the turn.
func (all List) Stop() {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Stop != nil {
			all[i].Stop()
		}
	}
}
