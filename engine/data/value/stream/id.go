package stream

import "spindle/internal/number"

// An ID names an entry. IDs are ordered by milliseconds, then by sequence.
type ID struct{ Ms, Seq uint64 }

// MaxID is the greatest ID. The zero ID is the least ID, and no entry has it.
var MaxID = ID{1<<64 - 1, 1<<64 - 1}

// MaxIDLen is the length of the longest ID as text.
const MaxIDLen = 2*20 + 1

// Compare returns a negative number if id is before o, 0 if they are equal, and a positive number if id is after o.
func (id ID) Compare(o ID) int {
	switch {
	case id.Ms < o.Ms, id.Ms == o.Ms && id.Seq < o.Seq:
		return -1
	case id == o:
		return 0
	}
	return 1
}

// Less reports whether id is before o.
func (id ID) Less(o ID) bool { return id.Ms < o.Ms || id.Ms == o.Ms && id.Seq < o.Seq }

// Next returns the least ID after id. For the greatest ID it returns the zero ID and false.
func (id ID) Next() (ID, bool) {
	switch {
	case id.Seq != 1<<64-1:
		return ID{id.Ms, id.Seq + 1}, true
	case id.Ms != 1<<64-1:
		return ID{id.Ms + 1, 0}, true
	}
	return ID{}, false
}

// Prev returns the greatest ID before id. For the zero ID it returns MaxID and false.
func (id ID) Prev() (ID, bool) {
	switch {
	case id.Seq != 0:
		return ID{id.Ms, id.Seq - 1}, true
	case id.Ms != 0:
		return ID{id.Ms - 1, 1<<64 - 1}, true
	}
	return MaxID, false
}

// Append appends the ID's text, milliseconds-sequence.
func (id ID) Append(dst []byte) []byte {
	return number.AppendUint(append(number.AppendUint(dst, id.Ms), '-'), id.Seq)
}

// TextLen returns the length of the text that Append appends.
func (id ID) TextLen() int { return number.UintLen(id.Ms) + 1 + number.UintLen(id.Seq) }
