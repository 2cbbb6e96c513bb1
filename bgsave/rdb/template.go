package rdb

import "spindle/engine/data/listpack"

// Redis 8.10 can write hashes with equal field names by a template, which holds the names. A file has each template
// once, and the hashes refer to it by number. A payload has the names itself. Both become plain hashes here.
//
//	F2                 | id | n | name × n            a template of the file
//	packed, in a file  | listpack of id, value × n |
//	packed, a payload  | names | listpack of a number, value × n |
//	one by one, a file | id | value × n |
//	… , a payload      | names | value × n |
//	names              | 0 | listpack of name × n |   or   | 1 | n | name × n |
//
// Sources: the description of Redis's change (#15364) and one independent reader, which its author checked with Redis
// 8.10. librdb's notes (#107) have the same parts, but put the number of a packed hash before the listpack. A file of
// librdb's form is refused.
type template struct {
	n     int
	names []byte // strings as in a file
}

// templates are the templates of a file, by number.
type templates map[uint64]template

const (
	errTemplate    = Corrupt("a hash refers to a template that the file does not have")
	errTemplateLen = Corrupt("a hash has not as many values as its template has names")
	errNames       = Corrupt("the names of a hash template are not valid")
)

// skipNames skips the names of a payload's template and returns their number.
func skipNames(c *cursor) (n uint64, err error) {
	form, err := c.length()
	switch {
	case err != nil:
		return 0, err
	case form == 0:
		t, err := c.text()
		if err != nil {
			return 0, err
		}
		names, err := unpackNames(&t)
		return uint64(names.n), err
	case form == 1:
		if n, err = c.length(); err != nil {
			return 0, err
		}
		return n, c.repeat(n, func() error { return skipText(c) })
	}
	return 0, errNames
}

func skipTemplatePacked(c *cursor) error {
	if _, err := skipNames(c); err != nil {
		return err
	}
	return skipText(c)
}

func skipTemplate(c *cursor) error {
	n, err := skipNames(c)
	if err != nil {
		return err
	}
	return c.repeat(n, func() error { return skipText(c) })
}

func skipTemplateRef(c *cursor) error {
	id, err := c.length()
	if err != nil {
		return err
	}
	t, ok := c.templates[id]
	if !ok {
		return errTemplate
	}
	return c.repeat(uint64(t.n), func() error { return skipText(c) })
}

// readTemplate reads a template of the file after its opcode, and stores it.
func (d *Decoder) readTemplate(c *cursor) (n uint64, err error) {
	id, err := c.length()
	if err != nil {
		return 0, err
	}
	if n, err = c.length(); err != nil {
		return 0, err
	}
	from := c.i
	if err := c.repeat(n, func() error { return skipText(c) }); err != nil {
		return 0, err
	}
	if _, twice := d.templates[id]; twice || n == 0 {
		return 0, errNames
	}
	if d.templates == nil {
		d.templates = templates{}
		c.templates = d.templates
	}
	d.templates[id] = template{int(n), append([]byte(nil), c.p[from:c.i]...)}
	return n, nil
}

// unpackNames returns the names in a listpack.
func unpackNames(t *Text) (names template, err error) {
	lp, err := t.Append(nil)
	if err != nil {
		return names, err
	}
	names.names, names.n, err = appendElements(nil, lp, 0)
	return names, err
}

// appendElements appends the elements of a listpack, after the first skip ones, as strings of a file.
func appendElements(dst, lp []byte, skip int) (_ []byte, n int, err error) {
	var e Encoder
	var scratch []byte
	err = listpack.Validate(lp, true, func(_ int, el listpack.Element) bool {
		if n++; n > skip {
			scratch = el.Append(scratch[:0])
			dst = e.AppendText(dst, scratch)
		}
		return true
	})
	return dst, n - skip, err
}

// plainHash appends a hash with a template to dst, in the form of KindHash. raw must have been skipped without an
// error.
func plainHash(dst []byte, kind Kind, raw []byte, known templates) ([]byte, error) {
	c := cursor{p: raw, templates: known}
	var t template
	var values []byte // strings of a file
	var err error
	switch kind {
	case KindTmplPacked, KindTmpl:
		t, err = c.names()
	case KindTmplRef:
		var id uint64
		if id, err = c.length(); err == nil {
			t = known[id]
		}
	}
	if err != nil {
		return nil, whole(err)
	}
	switch kind {
	case KindTmplPacked, KindTmplPackedRef:
		packed, err := c.text()
		if err != nil {
			return nil, whole(err)
		}
		lp, err := packed.Append(nil)
		if err != nil {
			return nil, err
		}
		var n int
		if values, n, err = appendElements(nil, lp, 1); err != nil {
			return nil, err
		}
		if kind == KindTmplPackedRef {
			if n < 0 {
				return nil, errTemplate
			}
			id, isInt := listpack.Get(lp, listpack.First(lp)).Integer()
			if !isInt || id < 0 {
				return nil, errTemplate
			}
			t = known[uint64(id)]
		}
		if t.n > 0 && n != t.n {
			return nil, errTemplateLen
		}
		if c.i != len(raw) {
			return nil, Corrupt("bytes follow the value")
		}
	default:
		values = raw[c.i:]
	}
	if t.n == 0 {
		return nil, errTemplate
	}
	return t.join(dst, values)
}

// names reads the names of a payload's template.
func (c *cursor) names() (t template, err error) {
	form, err := c.length()
	if err != nil {
		return t, err
	}
	if form == 0 {
		packed, err := c.text()
		if err != nil {
			return t, err
		}
		return unpackNames(&packed)
	}
	n, err := c.length()
	if err != nil {
		return t, err
	}
	if n > uint64(len(c.p)) {
		return t, errShort
	}
	from := c.i
	err = c.loop(n, func() error { return skipText(c) })
	return template{int(n), c.p[from:c.i]}, err
}

// join appends the fields one by one: their number, then the name and value of each.
func (t template) join(dst, values []byte) ([]byte, error) {
	names, texts := cursor{p: t.names}, cursor{p: values}
	dst = AppendLength(dst, uint64(t.n))
	for range t.n {
		for _, c := range []*cursor{&names, &texts} {
			from := c.i
			if err := skipText(c); err != nil {
				return nil, whole(err)
			}
			dst = append(dst, c.p[from:c.i]...)
		}
	}
	return append(dst, values[texts.i:]...), nil // bytes after the value are refused like those of any hash
}
