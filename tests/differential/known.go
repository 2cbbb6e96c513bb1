package differential

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spindle/protocol/respclient"
)

// A known difference is an intended one: a reply of some version of Redis that differs from spindle's, which follows
// 7.4.
type known struct {
	reference string // the versions to which it applies: their beginnings, separated by spaces
	commands  string // separated by spaces
	reason    string
	applies   func(args []string, want, got respclient.Value) bool
	used      int
	sorted    bool // only after redis-server has run a SORT
	rare      bool // a long run may not need it
	parts     bool // the data differs after it, so the round ends
}

// An oracle decides which differences are known.
type oracle struct {
	version string // "7.4.1", "valkey-9.1.2"
	sorted  bool   // redis-server has run a SORT in this round
	parted  *bool  // set when the data may differ after a known difference; may be nil
}

// knownDifferences is the complete list. A long run reports unused entries, which should be removed.
var knownDifferences = []known{
	{reference: "7.0", commands: "scan sscan hscan zscan",
		reason: "7.4 reads cursors otherwise: it takes blanks before them and refuses a minus and none at all; 7.0 did the " +
			"opposite",
		applies: func(args []string, want, got respclient.Value) bool {
			const refused = "ERR invalid cursor"
			at := cursorAt(args)
			return at < len(args) && !digits(args[at]) && (want.Text == refused) != (got.Text == refused)
		}},
	{reference: "7.0", commands: "bitcount bitpos",
		reason: "7.0 looked at the key before it looked at the range; 7.4 reads all arguments first",
		applies: func(_ []string, want, got respclient.Value) bool {
			return (want.Kind == ':' && want.Int <= 0 || wrongType(want)) &&
				(got.Text == "ERR syntax error" || got.Text == "ERR value is not an integer or out of range")
		}},
	{reference: "7.0", commands: "object",
		reason: "7.0 knows no listpack of a set or of a list",
		applies: func(args []string, want, got respclient.Value) bool {
			return len(args) == 3 && strings.EqualFold(args[1], "encoding") && got.Text == "listpack" &&
				(want.Text == "hashtable" || want.Text == "quicklist")
		}},
	{reference: "7.0", commands: "object",
		reason: "7.4 makes a hash a table for a call that names more fields than a listpack may have, " +
			"also if they are the same",
		applies: func(args []string, want, got respclient.Value) bool {
			return len(args) == 3 && strings.EqualFold(args[1], "encoding") && want.Text == "listpack" && got.Text == "hashtable"
		}},
	{reference: "7.0", commands: "hscan sscan zscan",
		reason: "7.0 knows no NOVALUES",
		applies: func(args []string, want, got respclient.Value) bool {
			return containsFold(args, "NOVALUES") && want.Text == "ERR syntax error"
		}},
	{reference: "7.0", commands: "lpos",
		reason: "7.0 takes a rank of -2^63",
		applies: func(args []string, _, got respclient.Value) bool {
			return slices.Contains(args, "-9223372036854775808") &&
				strings.HasPrefix(got.Text, "ERR value is out of range, value must between -9223372036854775807 and ")
		}},
	{reference: "7.0", commands: "blpop brpop blmove brpoplpush blmpop bzpopmin bzpopmax bzmpop",
		reason: "7.0 let large timeouts overflow, and refused them as negative",
		applies: func(_ []string, want, got respclient.Value) bool {
			return want.Text == "ERR timeout is negative" && got.Text == "ERR timeout is out of range"
		}},
	{reference: "7.0", commands: "zadd zincrby zscore zmscore zrank zrevrank zrange zrevrange zrangebyscore " +
		"zrevrangebyscore zpopmin zpopmax zmpop bzpopmin bzpopmax bzmpop zunion zinter zdiff",
		reason:  "7.0 prints 17 digits of a score, 7.4 as many as it takes to read the same",
		applies: func(_ []string, want, got respclient.Value) bool { return equalNumbers(want, got) }},
	{reference: "7.0", commands: "zscan",
		reason: "as for the other commands that tell scores; and what 7.4 makes a skiplist for the number of members a " +
			"call names may be a listpack",
		applies: func(args []string, want, got respclient.Value) bool {
			return want.Kind == '*' && got.Kind == '*' && sameWalk(args, inSeventeen(want), inSeventeen(got))
		}},
	{reference: "7.0", commands: "object",
		reason: "7.4 makes a sorted set a skiplist for a call that names more members than a listpack may have, also if " +
			"they are the same",
		applies: func(args []string, want, got respclient.Value) bool {
			return len(args) == 3 && strings.EqualFold(args[1], "encoding") && want.Text == "listpack" && got.Text == "skiplist"
		}},
	{reference: "7 8 valkey", commands: "sort sort_ro",
		reason: "the reference takes a weight for bad if any number it read before was out of range: " +
			"errno is as that left it",
		applies: func(args []string, want, got respclient.Value) bool {
			return want.Text == notDouble && got.Kind == '*' &&
				(containsFold(args, "BY") || containsFold(args, "GET") || !slices.ContainsFunc(got.Elems, isNoNumber))
		}, sorted: true, rare: true},
	{reference: "7 8 valkey", commands: "object",
		reason: "the reference makes a skiplist of a sorted set that it sorts; here SORT only reads",
		applies: func(args []string, want, got respclient.Value) bool {
			return len(args) == 3 && strings.EqualFold(args[1], "encoding") && want.Text == "skiplist" && got.Text == "listpack"
		}, sorted: true},
	{reference: "7 8 valkey", commands: "zscan",
		reason: "of a skiplist the reference prints some scores otherwise than of a listpack, and it has made one by sorting",
		applies: func(args []string, want, got respclient.Value) bool {
			return want.Kind == '*' && got.Kind == '*' && sameWalk(args, inSeventeen(want), inSeventeen(got))
		}, sorted: true, rare: true},
	{reference: "8", commands: "sort sort_ro",
		reason: "8 reads weights beyond the range of normal numbers, such as 5e-324 and 1e4932",
		applies: func(_ []string, want, got respclient.Value) bool {
			return want.Kind != '-' && got.Text == notDouble
		}, rare: true, parts: true},
	{reference: "7 8 valkey", commands: "pfadd",
		reason: "the reference reads on where a sketch ends within an opcode",
		applies: func(_ []string, want, got respclient.Value) bool {
			return want.Kind == ':' && strings.HasPrefix(got.Text, "INVALIDOBJ ")
		}, rare: true, parts: true},
	{reference: "8 valkey", commands: "xread xreadgroup",
		reason: "their text about an odd list of streams names '+' too",
		applies: func(_ []string, want, got respclient.Value) bool {
			return strings.HasPrefix(want.Text, "ERR Unbalanced ") && strings.HasPrefix(got.Text, "ERR Unbalanced ")
		}},
	{reference: "8 valkey", commands: boundedByScore,
		reason: "they refuse a bound in hexadecimal or with a blank before it",
		applies: func(_ []string, want, _ respclient.Value) bool {
			return want.Text == "ERR min or max is not a float"
		}},
	{reference: "8 valkey", commands: "geopos geosearch georadius georadius_ro georadiusbymember georadiusbymember_ro",
		reason:  "they print as many digits of a coordinate as it takes to read the same",
		applies: func(_ []string, want, got respclient.Value) bool { return equalNumbers(want, got) }},
	{reference: "valkey", commands: "scan",
		reason: "Valkey refuses an unknown type",
		applies: func(_ []string, want, _ respclient.Value) bool {
			return strings.HasPrefix(want.Text, "ERR unknown type name ")
		}},
	{reference: "valkey", commands: "getex set hgetex hsetex",
		reason: "Valkey reads a deadline before it looks at the key",
		applies: func(_ []string, want, got respclient.Value) bool {
			return want.Kind == '-' && (got.Null || got.Kind == '-')
		}},
	{reference: "7 8 valkey", commands: "dump",
		reason: "here DUMP refuses a string beyond proto-max-bulk-len; the reference may compress it to less",
		applies: func(_ []string, want, got respclient.Value) bool {
			return want.Kind == '$' && got.Text == "ERR the payload would be longer than proto-max-bulk-len"
		}, rare: true},
	{reference: "valkey", commands: "hsetex",
		reason: "Valkey looks at the key for NX and XX before it reads a deadline",
		applies: func(args []string, want, got respclient.Value) bool {
			return want.Kind == ':' && want.Int == 0 && (containsFold(args, "NX") || containsFold(args, "XX")) &&
				(strings.HasPrefix(got.Text, "ERR invalid expire time") ||
					got.Text == "ERR value is not an integer or out of range")
		}},
	{reference: "valkey", commands: "hello",
		reason:  "Valkey tells its own name, version and modules",
		applies: func(_ []string, want, got respclient.Value) bool { return len(want.Elems) == len(got.Elems) }},
	{reference: "valkey", commands: "object",
		reason: "Valkey makes other strings embstr",
		applies: func(args []string, want, got respclient.Value) bool {
			return (want.Text == "embstr" || want.Text == "raw") && (got.Text == "embstr" || got.Text == "raw")
		}},
	{reference: "valkey", commands: "object",
		reason: "Valkey lets go of some holders of a value after the call",
		applies: func(args []string, want, got respclient.Value) bool {
			return len(args) == 3 && strings.EqualFold(args[1], "refcount") && want.Kind == ':' && want.Int > 2 &&
				got.Int == 1
		}, rare: true},
	{reference: "valkey", commands: "object",
		reason: "in Valkey a hash with deadlines of fields has no separate encoding",
		applies: func(_ []string, want, got respclient.Value) bool {
			return got.Text == "listpackex" && (want.Text == "listpack" || want.Text == "hashtable")
		}},
	{reference: "valkey", commands: "object",
		reason: "Valkey makes no table for a long value that HSETEX does not keep, because its deadline has passed",
		applies: func(_ []string, want, got respclient.Value) bool {
			return got.Text == "hashtable" && want.Text == "listpack"
		}, rare: true},
	{reference: "valkey", commands: "bitcount",
		reason: "Valkey takes a range without its end, and looks at the unit before the numbers",
		applies: func(args []string, want, got respclient.Value) bool {
			return bothErrors(want, got) || len(args) == 3 && want.Kind == ':' && got.Text == "ERR syntax error"
		}},
	{reference: "valkey", commands: "xinfo",
		reason: "Valkey tells a lag below zero, of a group that has read more entries than were added",
		applies: func(args []string, want, got respclient.Value) bool {
			lifted, changed := lagFrom(want, got)
			return changed && sameTold(args, lifted, got)
		}},
	{reference: "valkey", commands: "watch multi",
		reason:  "Valkey has one text for commands that a transaction may not have",
		applies: func(_ []string, want, got respclient.Value) bool { return bothErrors(want, got) }},
	{reference: "valkey", commands: "hexpire hpexpire hexpireat hpexpireat httl hpttl hexpiretime hpexpiretime hpersist " +
		"hgetdel hgetex hsetex",
		reason: "Valkey has its own texts for mistakes round FIELDS, and looks at the key before it looks at a deadline",
		applies: func(_ []string, want, got respclient.Value) bool {
			return bothErrors(want, got) || want.Kind == '*' && strings.HasPrefix(got.Text, "ERR invalid expire time ")
		}},
	{reference: "valkey",
		commands: "geosearch geosearchstore georadius georadius_ro georadiusbymember georadiusbymember_ro",
		reason:   "Valkey names a member that does not exist", applies: func(_ []string, want,
			got respclient.Value) bool {
			return bothErrors(want, got)
		}},
	{reference: "valkey", commands: "geosearch",
		reason: "Valkey overlooks members of polygons that are wide, near a pole or at the map's edge",
		applies: func(args []string, want, got respclient.Value) bool {
			return want.Kind == '*' && got.Kind == '*' && len(want.Elems) <= len(got.Elems) && widePolygonIn(args)
		}},
}

// lagFrom replaces the negative lags in want by those of got. changed reports whether there was one.
func lagFrom(want, got respclient.Value) (_ respclient.Value, changed bool) {
	want.Elems = slices.Clone(want.Elems)
	for i := range min(len(want.Elems), len(got.Elems)) {
		if i > 0 && want.Elems[i-1].Text == "lag" && want.Elems[i].Kind == ':' && want.Elems[i].Int < 0 {
			want.Elems[i], changed = got.Elems[i], true
			continue
		}
		inside, also := lagFrom(want.Elems[i], got.Elems[i])
		want.Elems[i], changed = inside, changed || also
	}
	return want, changed
}

const boundedByScore = "zcount zrange zrangestore zrangebyscore zrevrangebyscore zremrangebyscore"

// widePolygonIn reports whether a call has a polygon that spans more than 45 degrees in one direction. It also returns
// true for a polygon near a pole or the map's edge.
func widePolygonIn(args []string) bool {
	at := slices.IndexFunc(args, func(a string) bool { return strings.EqualFold(a, "BYPOLYGON") })
	if at < 0 {
		return false
	}
	least, most := [2]float64{180, 90}, [2]float64{-180, -90}
	for i, a := range args[at+2:] {
		x, err := strconv.ParseFloat(a, 64)
		if err != nil {
			break
		}
		least[i%2], most[i%2] = min(least[i%2], x), max(most[i%2], x)
	}
	return most[0]-least[0] > 45 || most[1]-least[1] > 45 || least[0] < -135 || most[0] > 135 || least[1] < -60 ||
		most[1] > 60
}

// bothErrors reports whether both replies are errors.
func bothErrors(want, got respclient.Value) bool { return want.Kind == '-' && got.Kind == '-' }

// A mend changes a call that would make the states of the two servers differ into a call that both run alike.
type mend struct {
	reference string // the versions to which it applies: their beginnings, separated by spaces
	commands  string // separated by spaces
	reason    string
	apply     func(args []string) []string
	sorts     bool // only in rounds with SORT
}

// mends is the complete list. Calls to other versions stay unchanged.
var mends = []mend{
	{reference: "7.0", commands: "lrem", reason: "7.0 takes a count of -2^63, and removes all; 7.4 refuses it",
		apply: func(args []string) []string {
			if len(args) > 2 && args[2] == "-9223372036854775808" {
				args[2] = "-9223372036854775807"
			}
			return args
		}},
	{reference: "7.0", commands: "lset", reason: "7.4 looks at the index's lower 32 bits alone",
		apply: func(args []string) []string {
			if len(args) > 2 {
				if n, err := strconv.ParseInt(args[2], 10, 64); err == nil {
					args[2] = strconv.Itoa(int(int32(n)))
				}
			}
			return args
		}},
	{reference: "7.0", commands: "zrank", reason: "7.0 knows no WITHSCORE, and an argument too many spoils a transaction",
		apply: withoutFourth},
	{reference: "7.0", commands: "zrevrank", reason: "as for ZRANK", apply: withoutFourth},
	{reference: "7.0", commands: rangesWithLimit,
		reason: "7.0 finds nothing after an offset below zero; 7.4 at times goes the other way", apply: offsetsUp},
	{reference: "7 8 valkey", commands: rangesWithLimit,
		reason: "after an offset below zero a skiplist has at times something, a listpack nothing; and the reference " +
			"makes a skiplist of what it sorts",
		apply: offsetsUp, sorts: true},
	{reference: "7 8 valkey", commands: "zadd zincrby",
		reason: "a skiplist keeps -0, of which a listpack makes 0; and the reference makes a skiplist of what it sorts",
		apply:  plusZero, sorts: true},
	{reference: "7.0", commands: "zadd",
		reason: "the same; and 7.4 makes a skiplist for a call that names more members than a listpack may have",
		apply: func(args []string) []string {
			if len(args) > 2*128 {
				return plusZero(args)
			}
			return args
		}},
	{reference: "8 valkey", commands: "zadd zincrby zrangestore zremrangebyscore geoadd incrbyfloat hincrbyfloat " +
		"zunionstore zinterstore zunion zinter geosearch geosearchstore georadius georadius_ro georadiusbymember " +
		"georadiusbymember_ro",
		reason: "they read no number in hexadecimal or with a blank before it", apply: plainNumbers},
	{reference: "valkey", commands: "zadd geoadd",
		reason: "Valkey makes a skiplist for a long member, also if XX does not add it",
		apply: func(args []string) []string {
			if containsFold(args, "XX") {
				for i := range args {
					args[i] = args[i][:min(len(args[i]), 64)]
				}
			}
			return args
		}},
	{reference: "7.4.1 valkey", commands: "xread",
		reason: "they look for + at a stream's last ID, whose entry may be gone; 7.4.2 and later find the last entry",
		apply: func(args []string) []string {
			for i, a := range args {
				if a == "+" {
					args[i] = "$"
				}
			}
			return args
		}},
	{reference: "valkey", commands: "hgetdel hgetex hsetex",
		reason: "Valkey takes a key with the name FIELDS for the word",
		apply: func(args []string) []string {
			if len(args) > 1 && strings.EqualFold(args[1], "FIELDS") {
				args[1] = "k0"
			}
			return args
		}},
	{reference: "valkey", commands: "hsetex",
		reason: "Valkey takes an option twice",
		apply: func(args []string) []string {
			upTo := slices.IndexFunc(args, func(a string) bool { return strings.EqualFold(a, "FIELDS") })
			for i := upTo - 1; i > 2; i-- {
				if containsFold(args[2:i], args[i]) {
					args = slices.Delete(args, i, i+1)
				}
			}
			return args
		}},
	{reference: "valkey", commands: "hsetex",
		reason: "Valkey takes a number of fields below zero",
		apply: func(args []string) []string {
			for i := 1; i < len(args); i++ {
				if strings.EqualFold(args[i-1], "FIELDS") {
					args[i] = strings.TrimLeft(args[i], "-")
				}
			}
			return args
		}},
	{reference: "valkey", commands: "hexpire hpexpire hexpireat hpexpireat hsetex hgetex",
		reason: "Valkey takes deadlines of fields that are later than 2^48 ms", apply: nearerDeadline},
	{reference: "valkey", commands: "geosearch geosearchstore georadiusbymember georadiusbymember_ro",
		reason: "Valkey's error has the member that does not exist, which may be too long for a line",
		apply: func(args []string) []string {
			for i := range args {
				args[i] = args[i][:min(len(args[i]), 1000)]
			}
			return args
		}},
}

// plainNumbers removes the spaces before arguments, and replaces hexadecimal arguments by 1.
func plainNumbers(args []string) []string {
	for i := 1; i < len(args); i++ {
		bare := strings.TrimLeft(args[i], "+-(")
		if isHex(bare) || bare != "" && isBlank(bare[0]) {
			args[i] = "1"
		}
	}
	return args
}

// nearerDeadline replaces deadlines and TTLs that are too large for Redis: a third argument, or arguments after an
// option.
func nearerDeadline(args []string) []string {
	for i := 2; i < len(args); i++ {
		word := args[0][1:]
		if i > 2 {
			word = args[i-1]
		}
		most, near := int64(2e11), "5000000000"
		if word != "" && word[0]|0x20 == 'p' {
			most, near = 2e14, "5000000000000"
		}
		option := slices.ContainsFunc([]string{"EX", "PX", "EXAT", "PXAT"}, func(w string) bool {
			return strings.EqualFold(w, word)
		})
		if n, err := strconv.ParseInt(args[i], 10, 64); err == nil && n > most && (i == 2 || option) {
			args[i] = near
		}
	}
	return args
}

func isHex(s string) bool {
	s = strings.TrimLeft(s, " \t\n\v\f\r+-")
	return strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
}

func isBlank(b byte) bool { return strings.IndexByte(" \t\n\v\f\r", b) >= 0 }

// plusZero replaces every -0 by 0.
func plusZero(args []string) []string {
	for i, a := range args {
		if a == "-0" {
			args[i] = "0"
		}
	}
	return args
}

const rangesWithLimit = "zrange zrangestore zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex"

// offsetsUp removes the minus sign of LIMIT's offset.
func offsetsUp(args []string) []string {
	for i := 1; i < len(args); i++ {
		if strings.EqualFold(args[i-1], "LIMIT") {
			args[i] = strings.TrimLeft(args[i], "-")
		}
	}
	return args
}

// mendFor changes args for a version of Redis. sorts means that the round has SORT.
func mendFor(version string, sorts bool, args []string) []string {
	for i := range mends {
		if m := &mends[i]; (sorts || !m.sorts) && begins(version, m.reference) &&
			contains(m.commands, strings.ToLower(args[0])) {
			args = m.apply(args)
		}
	}
	return args
}

func withoutFourth(args []string) []string { return args[:min(len(args), 3)] }

// cursorAt returns the position of the cursor of SCAN and similar commands.
func cursorAt(args []string) int {
	if strings.EqualFold(args[0], "scan") {
		return 1
	}
	return 2
}

func wrongType(v respclient.Value) bool { return strings.HasPrefix(v.Text, "WRONGTYPE ") }

func containsFold(args []string, word string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.EqualFold(a, word) })
}

// equalNumbers compares replies. Different texts of the same number count as equal.
func equalNumbers(a, b respclient.Value) bool {
	if a.Kind != b.Kind || a.Null != b.Null || a.Int != b.Int {
		return false
	}
	if a.Text != b.Text {
		x, err := strconv.ParseFloat(a.Text, 64)
		y, err2 := strconv.ParseFloat(b.Text, 64)
		if err != nil || err2 != nil || x != y {
			return false
		}
	}
	return slices.EqualFunc(a.Elems, b.Elems, equalNumbers)
}

// inSeventeen returns a reply to ZSCAN whose scores have 17 digits, and 0 instead of -0, as from a listpack.
func inSeventeen(v respclient.Value) respclient.Value {
	if len(v.Elems) != 2 {
		return v
	}
	list := slices.Clone(v.Elems[1].Elems)
	for i := 1; i < len(list); i += 2 {
		if f, err := strconv.ParseFloat(list[i].Text, 64); err == nil {
			list[i].Text = strconv.FormatFloat(f+0, 'g', 17, 64) // -0+0 is 0
		}
	}
	v.Elems = slices.Clone(v.Elems)
	v.Elems[1].Elems = list
	return v
}

// notDouble is SORT's error for a weight that is not a number.
const notDouble = "ERR One or more scores can't be converted into double"

// isNoNumber reports whether strtod would fail to parse all of v up to a zero byte. strtod skips white space and
// accepts hexadecimal numbers without an exponent.
func isNoNumber(v respclient.Value) bool {
	text, _, _ := strings.Cut(v.Text, "\x00")
	text = strings.TrimLeft(text, " \t\n\v\f\r")
	_, err := strconv.ParseFloat(text, 64)
	if err != nil {
		_, err = strconv.ParseFloat(text+"p0", 64)
	}
	return text != "" && err != nil
}

// digits reports whether s consists of decimal digits.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// excused reports whether knownDifferences has this difference.
func excused(ref oracle, args []string, want, got respclient.Value) bool {
	for i := range knownDifferences {
		k := &knownDifferences[i]
		if begins(ref.version, k.reference) && (ref.sorted || !k.sorted) &&
			contains(k.commands, strings.ToLower(args[0])) && k.applies(args, want, got) {
			k.used++
			if k.parts && ref.parted != nil {
				*ref.parted = true
			}
			return true
		}
	}
	return false
}

// begins reports whether version begins with an element of list.
func begins(version, list string) bool {
	for prefix := range strings.FieldsSeq(list) {
		if strings.HasPrefix(version, prefix) {
			return true
		}
	}
	return false
}

func contains(list, name string) bool {
	for word := range strings.FieldsSeq(list) {
		if word == name {
			return true
		}
	}
	return false
}

// unused returns the entries for this version that no difference needed.
func unused(version string) (lines []string) {
	for _, k := range knownDifferences {
		if begins(version, k.reference) && k.used == 0 && !k.rare {
			lines = append(lines, fmt.Sprintf("%s (%s): %s", k.commands, k.reference, k.reason))
		}
	}
	return lines
}
