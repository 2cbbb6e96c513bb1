package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A newThing is one line of newer.txt: a feature of Redis 8 or Valkey that Redis 7.4 does not have.
type newThing struct {
	kind, name, since string
	state             string // here, refused or later
	why               string // the condition of here, the reason of refused
}

// newKinds are the kinds of new things in the order of the page, with the heading of each.
var newKinds = []struct{ kind, heading string }{
	{"command", "Commands"}, {"option", "Options of commands"}, {"directive", "Directives"}, {"info", "INFO fields"},
	{"event", "Events and pushes"}, {"file", "File forms"}, {"link", "Replication links"},
}

// readNewer reads newer.txt. Errors: a malformed line, an unknown kind or state, a name that occurs twice.
func readNewer(file string) (things []newThing, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	seen := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		t, err := parseNewer(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", filepath.Base(file), line, err)
		}
		if key := t.kind + " " + strings.ToLower(t.name); seen[key] {
			return nil, fmt.Errorf("%s: %s %s occurs twice", filepath.Base(file), t.kind, t.name)
		} else {
			seen[key] = true
		}
		things = append(things, t)
	}
	return things, nil
}

func parseNewer(line string) (newThing, error) {
	columns := strings.Split(line, " | ")
	if len(columns) != 4 {
		return newThing{}, fmt.Errorf("%d columns, want 4", len(columns))
	}
	t := newThing{kind: columns[0], name: columns[1], since: columns[2]}
	t.state, t.why, _ = strings.Cut(columns[3], ": ")
	if slices.IndexFunc(newKinds, func(k struct{ kind, heading string }) bool { return k.kind == t.kind }) < 0 {
		return t, fmt.Errorf("unknown kind %q", t.kind)
	}
	switch {
	case t.state == "refused" && t.why == "":
		return t, fmt.Errorf("refused needs a reason")
	case t.state == "later" && t.why != "":
		return t, fmt.Errorf("later takes no reason")
	case t.state != "here" && t.state != "refused" && t.state != "later":
		return t, fmt.Errorf("unknown state %q", t.state)
	}
	return t, nil
}

// writeNewer writes the page's section about newer features: a table for each kind. Features with equal versions and
// state share a row.
func writeNewer(b *strings.Builder, things []newThing) {
	b.WriteString("## What is newer than 7.4\n\n")
	count := map[string]int{}
	for _, t := range things {
		count[t.state]++
	}
	fmt.Fprintf(b,
		"Redis 8.0 to 8.10 and Valkey 8.0 to 9.2 have these, and Redis 7.4 does not. *Here*: spindle has it (%d). "+
			"*Refused*: not by design, with the reason (%d). *Later*: not yet (%d).\n\n", count["here"], count["refused"],
		count["later"])
	for _, k := range newKinds {
		fmt.Fprintf(b, "### %s\n\n| since | what | state |\n|---|---|---|\n", k.heading)
		var rows []newThing
		for _, t := range things {
			if t.kind != k.kind {
				continue
			}
			t.name = "`" + t.name + "`"
			same := func(r newThing) bool { return r.since == t.since && r.state == t.state && r.why == t.why }
			if at := slices.IndexFunc(rows, same); at >= 0 {
				rows[at].name += ", " + t.name
			} else {
				rows = append(rows, t)
			}
		}
		for _, r := range rows {
			state := r.state
			if r.why != "" {
				state += ": " + r.why
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", r.since, r.name, state)
		}
		b.WriteString("\n")
	}
}
