package acl

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"spindle/internal/glob"
)

// permits are the permitted uses of a key: read, write.
type permits uint8

const (
	read permits = 1 << iota
	write
)

// A pattern is one rule of a selector for keys or channels. A channel's permits are read | write.
type pattern struct {
	text    string
	permits permits
}

func (p pattern) keyRule() string {
	switch p.permits {
	case read:
		return "%R~" + p.text
	case write:
		return "%W~" + p.text
	}
	return "~" + p.text
}

func (p pattern) channelRule() string { return "&" + p.text }

// patterns finds the patterns of a selector that match a text, without trying all of them.
//
//	exact   texts without wildcards, each with its grants
//	nodes   the literal prefixes of the others, in byte order; parent is the longest other prefix of this one
//
//	"user:*" "user:7?" "*:x"  ─▶  nodes  ""  globs "*:x"
//	                                     "user:"   parent ""       open: all that begins with it matches
//	                                     "user:7"  parent "user:"  globs "user:7?"
//
// acl.I1. nodes is sorted, and no prefix is in it twice.
// acl.I2. Let n be the last node that is not greater than a text. Every prefix of the text in nodes is n or an ancestor
// of n.
// acl.I3. A node's open includes its parents' open.
// acl.I4. common is the length of the bytes with which all prefixes begin. heads[i] is the head of nodes[i].prefix
// after these bytes.
type patterns struct {
	exact  map[string]grants
	nodes  []node
	heads  []uint64
	common int
}

type node struct {
	prefix string
	parent int // -1 for none
	open   grants
	globs  []globbed
}

// globbed is a pattern in the form that package glob takes.
type globbed struct {
	text    []byte
	permits permits
}

// grants is a set of permits values: bit w is set if one pattern permits all of w. A pattern with R and another with W
// do not grant RW.
type grants uint8

func (p permits) grants() (g grants) {
	for w := permits(0); w <= read|write; w++ {
		if p&w == w {
			g |= 1 << w
		}
	}
	return g
}

func (g grants) has(want permits) bool { return g&(1<<want) != 0 }

func newPatterns(all []pattern) patterns {
	var p patterns
	byPrefix := map[string]*node{}
	for _, each := range all {
		end := strings.IndexAny(each.text, `*?[\`)
		if end < 0 {
			if p.exact == nil {
				p.exact = map[string]grants{}
			}
			p.exact[each.text] |= each.permits.grants()
			continue
		}
		prefix := each.text[:end]
		n := byPrefix[prefix]
		if n == nil {
			n = &node{prefix: prefix, parent: -1}
			byPrefix[prefix] = n
		}
		if strings.Trim(each.text[end:], "*") == "" {
			n.open |= each.permits.grants()
		} else {
			n.globs = append(n.globs, globbed{[]byte(each.text), each.permits})
		}
	}
	for _, n := range byPrefix {
		p.nodes = append(p.nodes, *n)
	}
	slices.SortFunc(p.nodes, func(a, b node) int { return strings.Compare(a.prefix, b.prefix) })
	if n := len(p.nodes); n > 0 {
		first, last := p.nodes[0].prefix, p.nodes[n-1].prefix // sorted: all share what these share
		for p.common < min(len(first), len(last)) && first[p.common] == last[p.common] {
			p.common++
		}
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		p.heads = append(p.heads, head([]byte(n.prefix[p.common:])))
		for at := i - 1; at >= 0; at = p.nodes[at].parent {
			if strings.HasPrefix(n.prefix, p.nodes[at].prefix) {
				n.parent = at
				n.open |= p.nodes[at].open
				break
			}
		}
	}
	return p
}

// allow reports whether one pattern that matches text permits all of want.
//
// Cost: a binary search, and a test of each pattern whose literal prefix the text has; no allocation.
func (p *patterns) allow(text []byte, want permits) bool {
	if p.exact[string(text)].has(want) {
		return true
	}
	if len(text) == 0 {
		return false // as in glob, the empty text matches only the empty pattern
	}
	for at := p.last(text); at >= 0; at = p.nodes[at].parent {
		n := &p.nodes[at]
		if len(text) < len(n.prefix) || string(text[:len(n.prefix)]) != n.prefix {
			continue
		}
		if n.open.has(want) {
			return true
		}
		for i := range n.globs {
			if n.globs[i].permits&want == want && glob.Match(n.globs[i].text, text) {
				return true
			}
		}
	}
	return false
}

// last returns the last node that is not greater than text (acl.I2). It returns -1 if there is no such node, or if text
// lacks the common bytes.
func (p *patterns) last(text []byte) int {
	if len(p.nodes) == 0 || len(text) < p.common || string(text[:p.common]) != p.nodes[0].prefix[:p.common] {
		return -1
	}
	// Compare heads first. Most differ, so the prefixes need not be read.
	h := head(text[p.common:])
	first, same := slices.BinarySearch(p.heads, h)
	if !same {
		return first - 1
	}
	end := len(p.heads)
	if h != math.MaxUint64 {
		more, _ := slices.BinarySearch(p.heads[first:], h+1)
		end = first + more
	}
	for first < end {
		mid := int(uint(first+end) >> 1)
		if p.nodes[mid].prefix <= string(text) {
			first = mid + 1
		} else {
			end = mid
		}
	}
	return first - 1
}

// head returns the first eight bytes of text as a number, which compares as the bytes do. Missing bytes are zero.
func head(text []byte) uint64 {
	if len(text) >= 8 {
		return binary.BigEndian.Uint64(text)
	}
	var bytes [8]byte
	copy(bytes[:], text)
	return binary.BigEndian.Uint64(bytes[:])
}

// hasText reports whether all contains the pattern text itself, with all of want permitted.
func hasText(all []pattern, text []byte, want permits) bool {
	for _, p := range all {
		if p.text == string(text) && p.permits&want == want {
			return true
		}
	}
	return false
}
