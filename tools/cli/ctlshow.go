package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// These are the parts of the dashboard's replies that ctl prints. openapi.json of proxy/dashboard describes the
// replies.
type (
	stepReply struct {
		From   int    `json:"from"`
		To     int    `json:"to"`
		Source string `json:"source"`
		Target string `json:"target"`
	}
	pairReply struct{ Before, After int64 }
	planReply struct {
		By     string
		Steps  []stepReply
		Moved  int
		Shards []struct {
			ID            string
			Draining      bool
			Slots, Weight pairReply
		}
		Imbalance struct{ Before, After float64 }
	}
	moveReply struct {
		ID, State, By, Problem string
		Created, Ended         time.Time
		Pace, Slots, Done      int
		Keys, Bytes            int64
		KeysRate               float64 `json:"keys_rate"`
		LeftS                  int64   `json:"left_s"`
		Waiting                []string
	}
	serverReply struct {
		Address, Zone, Role, Link, Problem, Server string
		Keys, Memory, Ops                          int64
	}
	groupReply struct {
		ID, Label, Primary, Master string
		Draining                   bool
		Slots                      int
		Servers                    []serverReply
	}
)

// show decodes a reply into v and then calls print.
func show[T any](reply json.RawMessage, print func(v T)) error {
	var v T
	err := json.Unmarshal(reply, &v)
	if err == nil {
		print(v)
	}
	return err
}

// clean makes a text from the dashboard harmless for terminals.
func clean(text string) string { return harmless([]byte(text)) }

// rows prints a table.
func (c *ctl) rows(head string, print func(row func(cells ...any))) {
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(head, " ", "\t"))
	print(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, clean(fmt.Sprint(cell)))
		}
		fmt.Fprintln(t)
	})
	_ = t.Flush() // an error of standard output cannot be reported
}

func (c *ctl) showStatus(reply json.RawMessage) error {
	return show(reply, func(v struct {
		ID, URL, Version, Store, Prefix, Since, Actor, Role string
		Products                                            []string
	}) {
		fmt.Fprintf(c.out,
			"active    %s, spindle %s, since %s\nstore     %s, prefix %s\nproducts  %s\nyou       %s, may %s\n", clean(v.URL),
			clean(v.Version), clean(v.Since), clean(v.Store), clean(v.Prefix), clean(strings.Join(v.Products, ", ")),
			clean(v.Actor), clean(v.Role))
	})
}

func (c *ctl) showNames(reply json.RawMessage) error {
	return show(reply, func(v struct{ Products []string }) {
		for _, name := range v.Products {
			fmt.Fprintln(c.out, clean(name))
		}
	})
}

func (c *ctl) showProduct(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Product struct {
			Name, Kind, Hash, Label string
			Slots                   int
			Seeds                   []string
		}
		Groups            []groupReply
		Assigned, Proxies int
		Move              *moveReply
		Refused           []string
	}) {
		p := v.Product
		fmt.Fprintf(c.out, "product  %s, over %s, %d slots by %s\n", clean(p.Name), clean(p.Kind), p.Slots, clean(p.Hash))
		if p.Label != "" {
			fmt.Fprintf(c.out, "label    %s\n", clean(p.Label))
		}
		if len(p.Seeds) > 0 {
			fmt.Fprintf(c.out, "seeds    %s\n", clean(strings.Join(p.Seeds, ", ")))
		} else {
			fmt.Fprintf(c.out, "groups   %d, with %d of %d slots\n", len(v.Groups), v.Assigned, p.Slots)
		}
		fmt.Fprintf(c.out, "proxies  %d\n", v.Proxies)
		if v.Move != nil {
			fmt.Fprintf(c.out, "move     %s\n", v.Move.line())
		}
		for _, problem := range v.Refused {
			fmt.Fprintf(c.out, "refused  %s\n", clean(problem))
		}
	})
}

func (c *ctl) showGroups(reply json.RawMessage) error {
	return show(reply, func(v struct{ Groups []groupReply }) { c.groups(v.Groups) })
}

func (c *ctl) showGroup(reply json.RawMessage) error {
	return show(reply, func(v groupReply) { c.groups([]groupReply{v}) })
}

func (c *ctl) groups(list []groupReply) {
	c.rows("GROUP SLOTS SERVER ROLE KEYS MEMORY OPS/S STATE", func(row func(cells ...any)) {
		for _, g := range list {
			id, slots := g.ID, fmt.Sprint(g.Slots)
			if g.Label != "" {
				id += " (" + g.Label + ")"
			}
			if g.Draining {
				slots += " draining"
			}
			for _, s := range g.Servers {
				state := s.Server
				switch {
				case s.Problem != "":
					state = s.Problem
				case s.Link != "":
					state += ", link " + s.Link
				}
				row(id, slots, s.Address, s.Role, s.Keys, size(s.Memory), s.Ops, state)
				id, slots = "", ""
			}
		}
	})
}

func (c *ctl) showSlots(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Ranges []struct {
			From, To             int
			Group, State, Target string
		}
	}) {
		c.rows("SLOTS GROUP STATE", func(row func(cells ...any)) {
			for _, r := range v.Ranges {
				state := "online"
				if r.State != "" {
					state = r.State + " to " + r.Target
				}
				row(fmt.Sprintf("%d-%d", r.From, r.To), r.Group, state)
			}
		})
	})
}

func (c *ctl) showProxies(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Proxies []struct {
			ID, Address, Version string
			Present, Current     bool
			Confirmed            int64
		}
	}) {
		c.rows("PROXY ADDRESS VERSION STATE", func(row func(cells ...any)) {
			for _, p := range v.Proxies {
				state := "current"
				switch {
				case !p.Present:
					state = "does not reach the store"
				case !p.Current:
					state = fmt.Sprintf("acts on revision %d", p.Confirmed)
				}
				row(p.ID, p.Address, p.Version, state)
			}
		})
	})
}

func (c *ctl) showSentinels(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Quorum    int
		Sentinels []struct {
			Address, Problem string
			Watches          map[string]string
		}
	}) {
		c.rows("SENTINEL GROUPS STATE", func(row func(cells ...any)) {
			for _, s := range v.Sentinels {
				row(s.Address, len(s.Watches), s.Problem)
			}
		})
	})
}

func (c *ctl) showPlan(reply json.RawMessage) error {
	return show(reply, func(p planReply) {
		for _, s := range p.Steps {
			fmt.Fprintf(c.out, "slots %d-%d  %s -> %s\n", s.From, s.To, clean(s.Source), clean(s.Target))
		}
		c.rows("GROUP SLOTS AFTER "+strings.ToUpper(clean(p.By))+" AFTER", func(row func(cells ...any)) {
			for _, s := range p.Shards {
				row(s.ID, s.Slots.Before, s.Slots.After, s.Weight.Before, s.Weight.After)
			}
		})
		fmt.Fprintf(c.out, "%d slots move. The fullest group has %.2f %% more than the mean, and %.2f %% afterwards.\n",
			p.Moved, p.Imbalance.Before, p.Imbalance.After)
	})
}

func (c *ctl) showMove(reply json.RawMessage) error {
	return show(reply, func(m moveReply) { fmt.Fprintln(c.out, m.line()) })
}

// line returns a description of a move in one line.
func (m *moveReply) line() string {
	text := fmt.Sprintf("%s %s: %d of %d slots, %d keys, %s, %.0f keys/s", m.ID, m.State, m.Done, m.Slots, m.Keys,
		size(m.Bytes), m.KeysRate)
	if m.Ended.IsZero() && m.LeftS >= 0 && m.State == "running" {
		text += fmt.Sprintf(", %s left", time.Duration(m.LeftS)*time.Second)
	}
	if m.Problem != "" {
		text += ": " + m.Problem
	}
	return clean(text)
}

// bar returns a move's progress bar.
func (m *moveReply) bar() string {
	full := barWidth
	if m.Slots > 0 {
		full = m.Done * barWidth / m.Slots
	}
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), m.line())
}

func (c *ctl) showTokens(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Tokens []struct {
			Name, Role string
			Created    time.Time
		}
	}) {
		c.rows("TOKEN MAY SINCE", func(row func(cells ...any)) {
			for _, t := range v.Tokens {
				row(t.Name, t.Role, t.Created.Format(time.RFC3339))
			}
		})
	})
}

func (c *ctl) showToken(reply json.RawMessage) error {
	return show(reply, func(v struct{ Secret string }) { fmt.Fprintln(c.out, clean(v.Secret)) })
}

func (c *ctl) showAudit(reply json.RawMessage) error {
	return show(reply, func(v struct {
		Audit []struct {
			Time                                          time.Time
			Actor, From, Action, Product, Detail, Outcome string
		}
	}) {
		for _, a := range v.Audit {
			fmt.Fprintln(c.out,
				clean(strings.Join(strings.Fields(fmt.Sprintf("%s %s (%s) %s %s %s: %s", a.Time.Format(time.RFC3339),
					a.Actor, a.From, a.Action, a.Product, a.Detail, a.Outcome)), " ")))
		}
	})
}
