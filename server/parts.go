package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/setting"
)

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

// need is the greatest need for threads. It runs in a turn.
func (all parts) need() (need part.Need) {
	for _, p := range all {
		if p.Threads != nil {
			need = max(need, p.Threads())
		}
	}
	return need
}

// ill is the first reason why this server should get no traffic; "" is none. It runs in a turn.
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

// reset has each feature forget what it has counted. It runs in a turn.
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

// loaded tells each feature that the data set is loaded. It runs in a turn.
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
