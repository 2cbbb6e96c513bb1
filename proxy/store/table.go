package store

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// A Table is the part of a product that a proxy needs. It does not change once made.
type Table struct {
	// Revision is the revision of the newest entry in the table, and less than that of an entry that was refused. A proxy
	// confirms it.
	Revision  int64
	Product   Product
	Sentinels *Sentinels        // nil if no Sentinels watch the groups
	Groups    map[string]*Group // by ID; empty for a cluster
	Slots     []Slot            // one per slot (Product.Slots); empty for a cluster
}

// A Slot says where requests for a slot are sent.
type Slot struct {
	Group  string // the group whose primary serves the slot; if "", requests are refused
	Source string // while it migrates: a key is moved from this group's primary before its request is sent; else ""
	Held   bool   // requests wait until there is a table with Held false
}

// A view holds the validated entries of a product that proxies need.
//
// store.V1. If an entry is refused, the last valid entry of its key stays in force.
// store.V2. A table is complete: each group that its slots name exists.
// store.V3. While an entry is refused, tables have older revisions than that entry. A proxy that acts on an older entry
// so confirms no move of the newer one.
type view struct {
	root    string // with the last slash
	entries map[string]Checked
	newest  map[string]int64 // revisions of entries, by key
	refused map[string]int64 // revisions of the entries that are refused now, by key
	latest  int64            // the latest revision of the changes, including deletions
}

func newView(root string) *view {
	return &view{root: root, entries: map[string]Checked{}, newest: map[string]int64{},
		refused: map[string]int64{}}
}

// typeOf returns an empty entry of the type that belongs under a key. It returns nil for a key that tables do not need.
func (v *view) typeOf(key string) Checked {
	name := strings.TrimPrefix(key, v.root)
	switch {
	case name == "product":
		return new(Product)
	case name == "slots":
		return new(Slots)
	case name == "sentinels":
		return new(Sentinels)
	case strings.HasPrefix(name, "groups/"):
		return new(Group)
	}
	return nil
}

// take applies a change. relevant means that the table may have changed. problems has one error per refused entry.
func (v *view) take(c Change) (relevant bool, problems []error) {
	there := map[string]bool{}
	for _, e := range c.Entries {
		into := v.typeOf(e.Key)
		if into == nil {
			continue
		}
		delete(v.refused, e.Key)
		if e.Value == nil {
			relevant = v.forget(e.Key, e.Revision) || relevant
			continue
		}
		there[e.Key] = true
		if v.newest[e.Key] == e.Revision {
			continue
		}
		if err := v.decode(e, into); err != nil {
			problems = append(problems, err)
			v.refused[e.Key] = e.Revision
			continue
		}
		v.entries[e.Key], v.newest[e.Key] = into, e.Revision
		v.latest, relevant = max(v.latest, e.Revision), true
	}
	if c.Reset {
		maps.DeleteFunc(v.refused, func(key string, _ int64) bool { return !there[key] })
		for key := range v.entries {
			if !there[key] {
				relevant = v.forget(key, c.Revision) || relevant
			}
		}
	}
	return relevant, problems
}

// decode decodes an entry, and checks that its name is that of its key.
func (v *view) decode(e Entry, into Checked) error {
	if err := Decode(e, into); err != nil {
		return err
	}
	switch into := into.(type) {
	case *Group:
		if into.ID != nameIn(e.Key) {
			return &EntryError{e.Key, fmt.Sprintf("it is about group %q", into.ID)}
		}
	case *Product:
		if v.root != "" && !strings.HasSuffix(v.root, "/"+into.Name+"/") {
			return &EntryError{e.Key, fmt.Sprintf("it is about product %q", into.Name)}
		}
	}
	return nil
}

func (v *view) forget(key string, revision int64) bool {
	if v.entries[key] == nil {
		return false
	}
	delete(v.entries, key)
	delete(v.newest, key)
	v.latest = max(v.latest, revision)
	return true
}

// errNoProduct is the error while the product does not exist.
var errNoProduct = errors.New("the store has no such product")

// table makes a table from the entries. Errors: the reason why the entries make no table.
func (v *view) table() (*Table, error) {
	product, _ := v.entries[v.root+"product"].(*Product)
	if product == nil {
		return nil, errNoProduct
	}
	t := &Table{Revision: v.latest, Product: *product, Groups: map[string]*Group{}}
	for _, revision := range v.refused {
		t.Revision = min(t.Revision, revision-1)
	}
	t.Sentinels, _ = v.entries[v.root+"sentinels"].(*Sentinels)
	for _, e := range v.entries {
		if g, ok := e.(*Group); ok {
			t.Groups[g.ID] = g
		}
	}
	if product.Kind == KindCluster {
		return t, nil
	}
	slots, _ := v.entries[v.root+"slots"].(*Slots)
	if slots == nil {
		return nil, &EntryError{v.root + "slots", "it is missing"}
	}
	if slots.Slots != product.Slots {
		return nil, &EntryError{v.root + "slots",
			fmt.Sprintf("it has %d slots, and the product %d", slots.Slots, product.Slots)}
	}
	t.Slots = make([]Slot, slots.Slots)
	for _, r := range slots.Ranges {
		for _, group := range []string{r.Group, r.Target} {
			if group != "" && t.Groups[group] == nil {
				return nil, &EntryError{v.root + "slots",
					fmt.Sprintf("slots %d to %d name group %q, which does not exist", r.From, r.To, group)}
			}
		}
		s := Slot{Group: r.Group}
		switch r.State {
		case Prepare:
			s.Held = true
		case Migrating:
			s.Group, s.Source = r.Target, r.Group
		}
		for slot := r.From; slot <= r.To; slot++ {
			t.Slots[slot] = s
		}
	}
	return t, nil
}
