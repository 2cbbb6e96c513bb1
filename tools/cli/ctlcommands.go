package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// ctlCommands has all commands, in the order of the help.
var ctlCommands = []ctlCommand{
	{"status", "", nil, "the active dashboard and its store",
		func(c *ctl) error { return c.get(apiPath("status"), c.showStatus) }},
	{"products", "", nil, "the names of all products",
		func(c *ctl) error { return c.get(apiPath("products"), c.showNames) }},
	{"product create", "NAME groups|cluster", []string{"hash", "seed", "label"},
		"a product over groups, or over a cluster", productCreate},
	{"product show", "PRODUCT", nil, "a product's entries", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0]), c.showProduct)
	}},
	{"overview", "PRODUCT", nil, "calls, errors and latency of proxies and servers now", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "overview"), c.showOverview)
	}},
	{"product change", "PRODUCT", []string{"label", "seed"}, "another label, or other seeds", productChange},
	{"product delete", "PRODUCT", nil, "without groups and proxies; no server is touched", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("products", c.args[0]), nil, nil)
	}},
	{"groups", "PRODUCT", nil, "groups or shards, and their servers as they are now", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "groups"), c.showGroups)
	}},
	{"group create", "PRODUCT ID PRIMARY [REPLICA ...]", []string{"label", "master", "zone", "wipe"}, "a group of servers",
		groupCreate},
	{"shard create", "PRODUCT PRIMARY [REPLICA ...]", nil, "joins empty nodes to the cluster", shardCreate},
	{"group show", "PRODUCT GROUP", nil, "one group or shard", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "groups", c.args[1]), c.showGroup)
	}},
	{"group change", "PRODUCT GROUP", []string{"label", "master", "draining"}, "its label, name, or mark", groupChange},
	{"group delete", "PRODUCT GROUP", nil, "a group or shard without slots", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("products", c.args[0], "groups", c.args[1]), nil, nil)
	}},
	{"server join", "PRODUCT GROUP ADDRESS", []string{"zone", "wipe"}, "a server becomes a replica of the group",
		serverJoin},
	{"server remove", "PRODUCT GROUP ADDRESS", nil, "a replica leaves the group", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("products", c.args[0], "groups", c.args[1], "servers", c.args[2]), nil,
			c.showGroup)
	}},
	{"server promote", "PRODUCT GROUP ADDRESS", []string{"force"}, "a replica becomes the primary", func(c *ctl) error {
		return c.order("promote")
	}},
	{"server resync", "PRODUCT GROUP ADDRESS", nil, "a replica is pointed at its primary again", func(c *ctl) error {
		return c.order("resync")
	}},
	{"slots", "PRODUCT", nil, "the table of slots", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "slots"), c.showSlots)
	}},
	{"slots assign", "PRODUCT [SLOTS] [GROUP]", []string{"even"}, "slots without a group, as 0-99,200, get one",
		slotsAssign},
	{"slots import", "PRODUCT FILE", nil,
		"the same as Codis's own table in FILE says, whose numbers are the groups' names", slotsImport},
	{"proxies", "PRODUCT", nil, "the registered proxies", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "proxies"), c.showProxies)
	}},
	{"proxy forget", "PRODUCT ID", nil, "moves no longer wait for a proxy that is gone", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("products", c.args[0], "proxies", c.args[1]), nil, nil)
	}},
	{"sentinels", "PRODUCT", nil, "the Sentinels, and what they watch", func(c *ctl) error {
		return c.get(apiPath("products", c.args[0], "sentinels"), c.showSentinels)
	}},
	{"sentinels set", "PRODUCT ADDRESS [ADDRESS ...]", []string{"quorum"}, "Sentinels watch all groups",
		func(c *ctl) error {
			return c.send(http.MethodPut, apiPath("products", c.args[0], "sentinels"),
				object{"addresses": c.args[1:], "quorum": c.flags.quorum}, c.showSentinels)
		}},
	{"sentinels remove", "PRODUCT", nil, "the Sentinels forget the groups", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("products", c.args[0], "sentinels"), nil, nil)
	}},
	{"plan", "PRODUCT", []string{"balance", "drain", "move", "to", "start", "pace", "wait"},
		"which slots would move; --start moves them", makePlan},
	{"move", "PRODUCT", []string{"wait"}, "the last move and what it has done", showMove},
	{"move pause", "PRODUCT", nil, "slots that are under way are completed or returned", moveState("paused")},
	{"move resume", "PRODUCT", []string{"wait"}, "continue a paused move", moveState("running")},
	{"move cancel", "PRODUCT", nil, "slots that have arrived stay where they are", moveState("cancelled")},
	{"move pace", "PRODUCT KEYS", nil, "keys a second, at most; 0: no bound", movePace},
	{"tokens", "", nil, "the tokens of the store", func(c *ctl) error { return c.get(apiPath("tokens"), c.showTokens) }},
	{"token create", "NAME read|write", nil, "a token, whose secret is shown this once", func(c *ctl) error {
		return c.send(http.MethodPost, apiPath("tokens"), object{"name": c.args[0], "role": c.args[1]}, c.showToken)
	}},
	{"token delete", "NAME", nil, "a token opens nothing any more", func(c *ctl) error {
		return c.send(http.MethodDelete, apiPath("tokens", c.args[0]), nil, nil)
	}},
	{"audit", "", []string{"product", "limit"}, "the newest actions first", func(c *ctl) error {
		query := url.Values{"limit": {strconv.Itoa(c.flags.limit)}}
		if c.flags.product != "" {
			query.Set("product", c.flags.product)
		}
		return c.get(apiPath("audit")+"?"+query.Encode(), c.showAudit)
	}},
}

// An object is the body of a request.
type object = map[string]any

func productCreate(c *ctl) error {
	f := &c.flags
	body := object{"name": c.args[0], "kind": c.args[1], "hash": f.hash, "label": f.label}
	if len(f.seeds) > 0 {
		body["seeds"] = f.seeds
	}
	return c.send(http.MethodPost, apiPath("products"), body, c.showProduct)
}

func productChange(c *ctl) error {
	body := object{}
	if c.flags.given["label"] {
		body["label"] = c.flags.label
	}
	if c.flags.given["seed"] {
		body["seeds"] = c.flags.seeds
	}
	return c.send(http.MethodPatch, apiPath("products", c.args[0]), body, c.showProduct)
}

// servers returns the list of a new group's servers.
func (c *ctl) servers(addresses []string) []object {
	list := []object{}
	for _, a := range addresses {
		list = append(list, object{"address": a, "zone": c.flags.zone})
	}
	return list
}

func groupCreate(c *ctl) error {
	f := &c.flags
	return c.send(http.MethodPost, apiPath("products", c.args[0], "groups"), object{"id": c.args[1], "primary": c.args[2],
		"servers": c.servers(c.args[2:]), "label": f.label, "master": f.master, "wipe": f.wipe}, c.showGroup)
}

func shardCreate(c *ctl) error {
	return c.send(http.MethodPost, apiPath("products", c.args[0], "groups"),
		object{"primary": c.args[1], "servers": c.servers(c.args[1:])}, c.showGroup)
}

func groupChange(c *ctl) error {
	f, body := &c.flags, object{}
	if f.given["label"] {
		body["label"] = f.label
	}
	if f.given["master"] {
		body["master"] = f.master
	}
	if f.given["draining"] {
		if f.draining != "yes" && f.draining != "no" {
			return errors.New("--draining is yes or no")
		}
		body["draining"] = f.draining == "yes"
	}
	return c.send(http.MethodPatch, apiPath("products", c.args[0], "groups", c.args[1]), body, c.showGroup)
}

func serverJoin(c *ctl) error {
	return c.send(http.MethodPost, apiPath("products", c.args[0], "groups", c.args[1], "servers"),
		object{"address": c.args[2], "zone": c.flags.zone, "wipe": c.flags.wipe}, c.showGroup)
}

// order sends the request promote or resync.
func (c *ctl) order(what string) error {
	return c.send(http.MethodPost, apiPath("products", c.args[0], "groups", c.args[1], what),
		object{"server": c.args[2], "force": c.flags.force}, c.showGroup)
}

func slotsAssign(c *ctl) error {
	body := object{"even": c.flags.even}
	switch {
	case c.flags.even && len(c.args) == 1:
	case !c.flags.even && len(c.args) == 3:
		ranges, err := slotRanges(c.args[1])
		if err != nil {
			return err
		}
		list := []object{}
		for _, r := range ranges {
			list = append(list, object{"from": r[0], "to": r[1], "group": c.args[2]})
		}
		body["ranges"] = list
	default:
		return errors.New("slots and a group are needed, or --even")
	}
	return c.send(http.MethodPost, apiPath("products", c.args[0], "slots"), body, c.showSlots)
}

// slotRanges parses ranges of slots such as 0-99,200.
func slotRanges(text string) (ranges [][2]int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from {
			return nil, fmt.Errorf("%q are no slots: they are written as 0-99,200", part)
		}
		ranges = append(ranges, [2]int{from, to})
	}
	return ranges, nil
}

func makePlan(c *ctl) error {
	f, body := &c.flags, object{}
	if f.balance != "" {
		body["balance"] = f.balance
	}
	if f.drain != "" {
		body["drain"] = f.drain
	}
	if f.move != "" {
		ranges, err := slotRanges(f.move)
		if err != nil {
			return err
		}
		body["move"] = object{"ranges": ranges, "target": f.to}
	}
	where := apiPath("products", c.args[0], "plan")
	if !f.start {
		return c.send(http.MethodPost, where, body, c.showPlan)
	}
	reply, err := c.ask(http.MethodPost, where, body)
	if err != nil {
		return err
	}
	var p planReply
	if err := json.Unmarshal(reply, &p); err != nil {
		return err
	}
	if !f.json {
		if err := c.showPlan(reply); err != nil {
			return err
		}
	}
	if len(p.Steps) == 0 {
		return nil
	}
	move := apiPath("products", c.args[0], "move")
	start := object{"steps": p.Steps, "pace": f.pace}
	if !f.wait {
		return c.send(http.MethodPost, move, start, c.showMove)
	}
	if _, err := c.ask(http.MethodPost, move, start); err != nil {
		return err
	}
	return c.watchMove(c.args[0])
}

func showMove(c *ctl) error {
	if c.flags.wait {
		return c.watchMove(c.args[0])
	}
	return c.get(apiPath("products", c.args[0], "move"), c.showMove)
}

func moveState(state string) func(c *ctl) error {
	return func(c *ctl) error {
		where, body := apiPath("products", c.args[0], "move"), object{"state": state}
		if !c.flags.wait {
			return c.send(http.MethodPatch, where, body, c.showMove)
		}
		if _, err := c.ask(http.MethodPatch, where, body); err != nil {
			return err
		}
		return c.watchMove(c.args[0])
	}
}

func movePace(c *ctl) error {
	pace, err := strconv.Atoi(c.args[1])
	if err != nil {
		return fmt.Errorf("%q is no number of keys", c.args[1])
	}
	return c.send(http.MethodPatch, apiPath("products", c.args[0], "move"), object{"pace": pace}, c.showMove)
}
