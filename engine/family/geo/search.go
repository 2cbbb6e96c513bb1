package geo

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/number"
	"spindle/protocol"
)

// direction is the order of the results.
type direction int8

const (
	unsorted direction = iota
	nearest
	farthest
)

// A query is a parsed search.
type query struct {
	shape
	order direction
	count int64 // 0 means all
	any   bool  // any count results, not the nearest ones

	withDist, withHash, withCoord bool

	store     []byte // the key for the result; nil if it is the reply
	storeDist bool   // the stored scores are distances in the unit
}

// A form says which options a command accepts.
type form uint8

const (
	mayStore    form = 1 << iota // STORE and STOREDIST with a key
	named                        // center and shape are options, too
	alwaysStore                  // STOREDIST alone
)

// radius is
//
//	GEORADIUS key longitude latitude radius M|KM|FT|MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
//	  [ASC|DESC] [STORE key | STOREDIST key]
//
// Replies: an array of members. With WITH… options each element is an array: member, distance in the unit, score,
// point. With STORE it replies the size of the destination. If there are no results, it deletes the destination.
// Errors: ErrWrongType, those of parsePoint, shape.circle and query.options.
// Propagates as written.
// Cost: at most the members of nine cells around the center.
func (g *commands) radius(c *command.Context) error { return g.around(c, mayStore) }

// radiusRead is GEORADIUS_RO: radius without STORE.
func (g *commands) radiusRead(c *command.Context) error { return g.around(c, 0) }

// radiusByMember is GEORADIUSBYMEMBER key member radius M|KM|FT|MI …; see radius. Further error: errMember. If the key
// is missing, it does not check member and radius.
func (g *commands) radiusByMember(c *command.Context) error { return g.aroundMember(c, mayStore) }

// radiusByMemberRead is GEORADIUSBYMEMBER_RO: radiusByMember without STORE.
func (g *commands) radiusByMemberRead(c *command.Context) error { return g.aroundMember(c, 0) }

// search is
//
//	GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius M|KM|FT|MI |
//	  BYBOX width height M|KM|FT|MI [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
//	GEOSEARCH key BYPOLYGON corners longitude latitude [longitude latitude …] [ASC|DESC] …
//
// See radius. A polygon's distances are in meters, from the mean of its corners.
func (g *commands) search(c *command.Context) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	return g.finish(c, v, &query{}, c.Args[2:], named)
}

// searchStore is GEOSEARCHSTORE destination source …, with STOREDIST instead of WITH… options; see search and radius.
//
// Propagates as written. BYPOLYGON exists only in Valkey since 9.0, so with it DEL and ZADD of the result are
// propagated.
func (g *commands) searchStore(c *command.Context) error {
	v, err := lookup(c, c.Args[2])
	if err != nil {
		return err
	}
	return g.finish(c, v, &query{store: c.Args[1]}, c.Args[3:], named|alwaysStore)
}

func (g *commands) around(c *command.Context, f form) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	var q query
	if q.center, err = parsePoint(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	if err := q.circle(c.Args[4], c.Args[5]); err != nil {
		return err
	}
	return g.finish(c, v, &q, c.Args[6:], f)
}

func (g *commands) aroundMember(c *command.Context, f form) error {
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	var q query
	if v.Exists() {
		var ok bool
		if q.center, ok = locate(v, c.Args[2]); !ok {
			return errMember
		}
		if err := q.circle(c.Args[3], c.Args[4]); err != nil {
			return err
		}
	}
	return g.finish(c, v, &q, c.Args[5:], f)
}

// finish reads the options, runs the search and replies or stores.
func (g *commands) finish(c *command.Context, v value.Value, q *query, args [][]byte, f form) error {
	defer g.area.reset()
	if err := q.options(g, c, v, args, f); err != nil {
		return err
	}
	switch {
	case !v.Exists() && q.store != nil:
		storeNothing(c, q.store)
	case !v.Exists():
		c.Reply.Array(0)
	case q.store != nil:
		event := "georadiusstore"
		if f&alwaysStore != 0 {
			event = "geosearchstore"
		}
		g.storeFound(c, v, q, event)
	default:
		return g.answer(c, v, q)
	}
	if q.store != nil && q.polygon != nil && c.Dirty > 0 {
		c.PropagateZSet(q.store)
	}
	return nil
}

// options reads all arguments after the key or the unit.
//
// A polygon's corners are kept in g.
//
// Errors: ErrSyntax, ErrNotInteger, errCount, errAny, errStoreRadius, errStoreSearch. For commands with a named center
// and shape it adds those of parsePoint and of the shapes, errMember, and "exactly one of …". An error in one argument
// takes precedence over an error about the whole call.
func (q *query) options(g *commands, c *command.Context, v value.Value, args [][]byte, f form) (err error) {
	var member, lonLat, radius, box, corners bool
	for i := 0; i < len(args); i++ {
		left := len(args) - i - 1
		switch word := args[i]; {
		case command.Is(word, "WITHDIST"):
			q.withDist = true
		case command.Is(word, "WITHHASH"):
			q.withHash = true
		case command.Is(word, "WITHCOORD"):
			q.withCoord = true
		case command.Is(word, "ANY"):
			q.any = true
		case command.Is(word, "ASC"):
			q.order = nearest
		case command.Is(word, "DESC"):
			q.order = farthest
		case command.Is(word, "COUNT") && left >= 1:
			i++
			if q.count, err = parseCount(args[i]); err != nil {
				return err
			}
		case f&mayStore != 0 && left >= 1 && (command.Is(word, "STORE") || command.Is(word, "STOREDIST")):
			i++
			q.store, q.storeDist = c.Args[destination(c.Args)], len(word) > len("STORE")
		case f&alwaysStore != 0 && command.Is(word, "STOREDIST"):
			q.storeDist = true
		case f&named != 0 && !lonLat && !corners && left >= 1 && command.Is(word, "FROMMEMBER"):
			i++
			member = true
			if !v.Exists() { // the reply will be that of a missing key
				break
			}
			var ok bool
			if q.center, ok = locate(v, args[i]); !ok {
				return errMember
			}
		case f&named != 0 && !member && !corners && left >= 2 && command.Is(word, "FROMLONLAT"):
			if q.center, err = parsePoint(args[i+1], args[i+2]); err != nil {
				return err
			}
			lonLat = true
			i += 2
		case f&named != 0 && !box && !corners && left >= 2 && command.Is(word, "BYRADIUS"):
			if err = q.circle(args[i+1], args[i+2]); err != nil {
				return err
			}
			radius = true
			i += 2
		case f&named != 0 && !radius && !corners && left >= 3 && command.Is(word, "BYBOX"):
			if err = q.rectangle(args[i+1], args[i+2], args[i+3]); err != nil {
				return err
			}
			box = true
			i += 3
		case f&named != 0 && !radius && !box && !member && !lonLat && left >= 2 && command.Is(word, "BYPOLYGON"):
			n, err := g.area.read(args[i+1:])
			if err != nil {
				return err
			}
			q.polygon, q.center, q.unit = &g.area, g.area.center(), 1
			corners = true
			i += 1 + 2*n
		default:
			return protocol.ErrSyntax
		}
	}
	with := q.withDist || q.withHash || q.withCoord
	switch {
	case q.store != nil && with && f&alwaysStore != 0:
		return errStoreSearch
	case q.store != nil && with:
		return errStoreRadius
	case f&named != 0 && !member && !lonLat && !corners:
		return errOneCenter(c.Args[0])
	case f&named != 0 && !radius && !box && !corners:
		return errOneShape(c.Args[0])
	case q.any && q.count == 0:
		return errAny
	case q.count != 0 && q.order == unsorted && !q.any:
		q.order = nearest // COUNT without ANY means the nearest
	}
	return nil
}

func parseCount(text []byte) (int64, error) {
	n, ok := number.ParseInt(text)
	switch {
	case !ok:
		return 0, protocol.ErrNotInteger
	case n <= 0:
		return 0, errCount
	}
	return n, nil
}
