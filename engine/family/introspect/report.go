package introspect

import (
	"slices"
	"strings"
	"unsafe"

	"spindle/engine/command"
	"spindle/internal/info"
)

type Report struct{ sections []section }

type section struct {
	name   string
	always bool // shown by INFO without arguments
	fields []info.Field
}

// NewReport orders the fields that packages contribute. A field of the layout that no package contributes has the
// layout's value. Fields that are not in the layout follow the others of their section. Unknown sections come last.
func NewReport(contributed []info.Section) *Report {
	byName := map[string][]info.Field{}
	var extra []string
	for _, s := range contributed {
		if _, seen := byName[s.Name]; !seen && layoutOf(s.Name) == nil {
			extra = append(extra, s.Name)
		}
		byName[s.Name] = append(byName[s.Name], s.Fields...)
	}
	r := &Report{}
	for i := range layout {
		l := &layout[i]
		r.sections = append(r.sections, section{l.name, l.always, l.order(byName[l.name])})
	}
	for _, name := range extra {
		r.sections = append(r.sections, section{name, false, byName[name]})
	}
	return r
}

// keep removes all sections that names does not list. Plain INFO then shows the rest. Without names it removes none.
func (r *Report) keep(names []string) {
	if len(names) == 0 {
		return
	}
	r.sections = slices.DeleteFunc(r.sections, func(s section) bool { return !slices.Contains(names, s.name) })
	for i := range r.sections {
		r.sections[i].always = true
	}
}

func layoutOf(name string) *sectionLayout {
	for i := range layout {
		if layout[i].name == name {
			return &layout[i]
		}
	}
	return nil
}

// order sorts fields into the order of l.
func (l *sectionLayout) order(fields []info.Field) (ordered []info.Field) {
	left := slices.Clone(fields)
	for _, line := range strings.Fields(l.fields) {
		name, absent, has := strings.Cut(line, "=")
		at := slices.IndexFunc(left, func(f info.Field) bool { return f.Name == name })
		switch {
		case at >= 0:
			ordered = append(ordered, left[at])
			left = slices.Delete(left, at, at+1)
		case absent == "bytes":
			ordered = append(ordered, info.Bytes(name, func() int64 { return 0 }))
		case has:
			ordered = append(ordered, info.Constant(name, absent))
		}
	}
	return append(ordered, left...)
}

// Append writes the sections in wanted (names in any case), or those of plain INFO if wanted is empty.
//
// Names include "default", "all" (all but those of modules) and "everything". Debug is shown only by its own name.
func (r *Report) Append(w *info.Writer, wanted [][]byte) {
	byDefault, all := len(wanted) == 0, false
	for _, name := range wanted {
		switch {
		case command.Is(name, "DEFAULT"):
			byDefault = true
		case command.Is(name, "ALL"), command.Is(name, "EVERYTHING"):
			all = true
		}
	}
	for i := range r.sections {
		s := &r.sections[i]
		if !(all && s.name != "Debug") && !(byDefault && s.always) && !slices.ContainsFunc(wanted, func(name []byte) bool {
			return strings.EqualFold(unsafe.String(unsafe.SliceData(name), len(name)), s.name)
		}) {
			continue
		}
		if len(w.B) != 0 {
			w.B = append(w.B, '\r', '\n')
		}
		w.B = append(append(append(w.B, '#', ' '), s.name...), '\r', '\n')
		for j := range s.fields {
			s.fields[j].Append(w)
		}
	}
}

// A SectionText is the text of a section at one moment.
type SectionText struct {
	Name   string
	Always bool // shown by INFO without arguments
	Text   []byte
}

// Texts returns the current texts of all sections, for readers outside the turn.
func (r *Report) Texts() (list []SectionText) {
	for i := range r.sections {
		var w info.Writer
		s := &r.sections[i]
		for j := range s.fields {
			s.fields[j].Append(&w)
		}
		list = append(list, SectionText{s.name, s.always, w.B})
	}
	return list
}

// AppendTexts is Report.Append for stored texts.
func AppendTexts(w *info.Writer, list []SectionText, wanted [][]byte) {
	r := &Report{}
	for _, s := range list {
		r.sections = append(r.sections, section{s.Name, s.Always,
			[]info.Field{info.Lines("", func(w *info.Writer) { w.B = append(w.B, s.Text...) })}})
	}
	r.Append(w, wanted)
}

func (f *family) showInfo(c *command.Context) error {
	if f.report == nil {
		f.report = NewReport(f.Sections())
		f.report.keep(f.Only)
	}
	var w info.Writer
	f.report.Append(&w, c.Args[1:])
	c.Reply.Verbatim("txt", unsafe.String(unsafe.SliceData(w.B), len(w.B)))
	return nil
}
