package rdbfile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// old has values in forms that only old servers wrote, without version and checksum.
var old = []string{
	"\x01\x03\x01a\xc0\x05\x01b",      // list, linked
	"\x02\x03\x01a\xc1\x05\x01\x02bc", // set, table
	// This is a sorted set with scores as text.
	"\x03\x02\x01a\x031.5\x01b\xff",
	"\x04\x02\x01f\x01v\x02gg\xc0\x07",                                       // hash, table
	"\x09\x0e\x02\x01a\x01\x00b\x02cc\x03\x01ddd\x00\xff",                    // zipmap
	"\x0a\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\x01b\xff", // list, ziplist
	// This is a sorted set in a ziplist.
	"\x0c\x15\x15\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x01a\x03\xf2\x02\x01b\x03\xf5\xff",
	"\x0d\x15\x15\x00\x00\x00\x10\x00\x00\x00\x04\x00\x00\x01a\x03\xf2\x02\x01b\x03\xf5\xff", // hash, ziplist
	// This list is truncated: both servers refuse it.
	"\x0e\x02\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\x01b\xff\x05\x01\x01\x01a\x01",
	// This is a list as a quicklist of ziplists.
	"\x0e\x01\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\x01b\xff",
}

// exact lists the types for which redis-server accepts nothing that spindle refuses. For other types redis-server
// accepts small errors:
//
// - bytes after a value, or its end within the checksum
// - counts and numbers that are not numbers, and scores that only begin as numbers
// - listpack fields that are not ordered by deadline
const exact = "\x0b\x10\x14"

// TestHostile changes a few bytes of payloads. Spindle accepts no payload that redis-server refuses after a deep check.
// If both accept a payload, the values are equal.
func TestHostile(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 600
	}
	for _, p := range testkit.Peers(t) {
		t.Run(p.Name, func(t *testing.T) { hostile(t, p.Program, p.RDBVersion, rounds) })
	}
}

func hostile(t *testing.T, program string, version, rounds int) {
	deep := []string{"--sanitize-dump-payload", "yes"}
	here := testkit.Launch(t, testkit.Spec{Args: append([]string{"--rdb-write-version", fmt.Sprint(version)}, deep...)})
	there := testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: deep})
	there.Crashes()
	byKind := samples(there, version)
	for _, s := range []*testkit.Server{here, there} {
		s.Do("FLUSHALL")
		s.Do("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
	}
	kinds := make([]byte, 0, len(byKind))
	for k := range byKind {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var both, neither, strict, newer int
	for range rounds {
		from := byKind[kinds[rng.IntN(len(kinds))]]
		p := []byte(from[rng.IntN(len(from))])
		for n := rng.IntN(3); n >= 0; n-- {
			p[rng.IntN(len(p)-10)] = byte(rng.Uint32())
		}
		h, err := here.Ask("RESTORE", "k", 0, string(p), "REPLACE")
		if err != nil {
			t.Fatalf("seed %d: %q: %v", seed, p, err)
		}
		r, err := there.Ask("RESTORE", "k", 0, string(p), "REPLACE")
		if err != nil { // redis-server crashed, or it has looped since the request; that is not a verdict
			if !there.Ended() {
				there.Kill()
			}
			there.Restart()
			there.Do("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1")
			continue
		}
		switch okHere, okThere := h.Err() == nil, r.Err() == nil; {
		case okHere && okThere:
			both++
			if version < 12 {
				break // redis-server has other encodings and other digests of scores
			}
			if is, was := told(here, p[0], version), told(there, p[0], version); is != was {
				t.Errorf("seed %d: %q is %s here, %s there", seed, p, is, was)
			}
		case okHere && version < 11 && p[0] > lastKind10:
			newer++ // the changed byte is a type that redis-server does not know yet
		case okHere:
			t.Errorf("seed %d: %q is taken here, and there %s", seed, p, r.Text)
		case okThere:
			if strict++; strings.IndexByte(exact, p[0]) >= 0 {
				t.Errorf("seed %d: %q is refused here, and there %s", seed, p, told(there, p[0], version))
			}
		default:
			neither++
		}
		here.Do("DEL", "k")
		there.Do("DEL", "k")
	}
	if both == 0 || neither == 0 {
		t.Error("there are no verdicts")
	}
	t.Logf("%d taken by both, %d by neither, %d there only, %d here only as newer kinds", both, neither, strict, newer)
}

// lastKind10 is the last kind of value in RDB version 10: a stream of Redis 7.0.
const lastKind10 = 19

// told returns the facts to compare of a value that both servers accepted. Redis turns old lists into quicklists,
// however short they are. Valkey has other encodings, and its digests leave out the deadlines of fields.
func told(s *testkit.Server, kind byte, version int) string {
	if version == 80 && kind == 22 {
		var fields []string
		for all := s.Do("HGETALL", "k").Elems; len(all) > 0; all = all[2:] {
			fields = append(fields, fmt.Sprintf("%q=%q", all[0].Text, all[1].Text))
		}
		slices.Sort(fields)
		return strings.Join(fields, " ")
	}
	if version == 80 {
		return s.Do("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text
	}
	enc := s.Do("OBJECT", "ENCODING", "k").Text
	if kind == 10 && enc == "listpack" {
		enc = "quicklist"
	}
	return enc + " " + s.Do("DEBUG", "DIGEST-VALUE", "k").Elems[0].Text
}

// samples returns short payloads of every type that the server there writes, and old ones.
func samples(there *testkit.Server, version int) map[byte][]string {
	found := map[byte][]string{}
	for _, body := range old {
		p := body + "\x09\x00" + "checksum"
		found[p[0]] = append(found[p[0]], p)
	}
	for _, d := range datasets {
		if d.mine || d.needs > version {
			continue
		}
		there.Do("FLUSHALL")
		d.fill(func(args ...any) { there.Do(args...) })
		for _, key := range there.Do("KEYS", "*").Elems {
			if p := there.Do("DUMP", key.Text).Text; len(p) < 2000 {
				found[p[0]] = append(found[p[0]], p)
			}
		}
	}
	return found
}
