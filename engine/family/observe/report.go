package observe

import (
	"slices"
	"strings"
	"unsafe"

	"spindle/engine/command"
	"spindle/internal/info"
	"spindle/protocol"
)

var errMonitorHere = &protocol.Error{Code: "ERR", Text: "MONITOR isn't allowed for DENY BLOCKING client"}

// A Report is INFO: the fields of every package, in the reference's order.
type Report struct{ sections []section }

type section struct {
	name   string
	always bool // part of INFO without arguments
	fields []info.Field
}

// NewReport orders what the packages contribute. A field of the layout that nobody contributes says what is true as
// long as its feature does not exist; fields the layout does not know follow behind, and unknown sections behind the
// known.
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

// keep leaves only the sections of these names, all of which plain INFO has. Without names all stay.
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

// order sorts fields as l has them.
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

// Append writes the sections that wanted names (in any case), or those of plain INFO if it names none.
//
// Besides names there are "default", "all" (all but what modules add) and "everything". Debug is shown by its name
// alone.
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

// A SectionText is a section as it was at an instant.
type SectionText struct {
	Name   string
	Always bool // part of INFO without arguments
	Text   []byte
}

// Texts is the sections of sections, as they are now: INFO for who is going to show it outside the turn.
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

// AppendTexts is Report.Append of sections as they were.
func AppendTexts(w *info.Writer, list []SectionText, wanted [][]byte) {
	r := &Report{}
	for _, s := range list {
		r.sections = append(r.sections, section{s.Name, s.Always,
			[]info.Field{info.Lines("", func(w *info.Writer) { w.B = append(w.B, s.Text...) })}})
	}
	r.Append(w, wanted)
}

// info is INFO [section …].
func (f *family) info(c *command.Context) error {
	if f.report == nil {
		f.report = NewReport(f.Sections())
		f.report.keep(f.Only)
	}
	var w info.Writer
	f.report.Append(&w, c.Args[1:])
	c.Reply.Verbatim("txt", unsafe.String(unsafe.SliceData(w.B), len(w.B)))
	return nil
}
