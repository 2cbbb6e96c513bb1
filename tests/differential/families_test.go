package differential

import (
	"testing"

	"spindle/engine/catalogue"
	"spindle/engine/family/bloom"
)

// untabled lists the commands on data that no table has, each with the reason.
var untabled = map[string]string{
	"object|help": "one text, whatever the data",
	"xgroup|help": "one text, whatever the data",
	"xinfo|help":  "one text, whatever the data",
	"pfselftest":  "one answer, whatever the data",
	"pfdebug":     "turns sparse sketches dense, and the later rounds would see only those",

	"delex":       noReference,
	"digest":      noReference,
	"increx":      noReference,
	"sdiffcard":   noReference,
	"sunioncard":  noReference,
	"blmovem":     noReference,
	"lmovem":      noReference,
	"xackdel":     noReference,
	"xdelex":      noReference,
	"xcfgset":     noReference,
	"xidmprecord": noReference,
	"xnack":       noReference,
}

const noReference = "neither Redis 8.0 nor Valkey 9.1 has it; a transcript holds it"

// TestEveryRowHasATemplate: every command on data in the catalogue is compared with redis-server.
func TestEveryRowHasATemplate(t *testing.T) {
	tabled := map[string]bool{}
	for _, f := range families {
		for _, template := range f.templates {
			tabled[template.name] = true
		}
	}
	s := &catalogue.Settings{}
	s.Rows()
	for _, f := range catalogue.Data(s) {
		if f.Name == bloom.Name {
			continue // a command of a module, which redis-server does not have
		}
		for _, row := range f.Rows {
			if len(row.Subs) == 0 && !tabled[row.Name] && untabled[row.Name] == "" {
				t.Errorf("%s: no table has it", row.Name)
			}
			for _, sub := range row.Subs {
				if name := row.Name + "|" + sub.Name; !tabled[name] && untabled[name] == "" {
					t.Errorf("%s: no table has it", name)
				}
			}
		}
	}
	for name, reason := range untabled {
		if tabled[name] {
			t.Errorf("%s has a table by now, and a reason not to: %s", name, reason)
		}
	}
}
