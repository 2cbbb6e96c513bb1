package hash

import (
	"slices"
	"strings"
	"testing"
)

// TestSubkeys: events about a hash name the fields that a command changed, removed or found past their deadline.
func TestSubkeys(t *testing.T) {
	const lapsed = "HSETEX h PX 10 FIELDS 2 x 1 y 2" // they lapse before the call
	for _, c := range []struct {
		before, call string
		want         []string
	}{
		{"", "HSET h a 1", []string{"hset h a"}},
		{"", "HSET h a 1 b 2 a 3", []string{"hset h a b a"}},
		{"HSET h a 1", "HSET h a 1 b 2", []string{"hset h a b"}},
		{"", "HMSET h a 1 b 2", []string{"hset h a b"}},
		{"", "HSETNX h a 1", []string{"hset h a"}},
		{"HSET h a 1", "HSETNX h a 1", nil},
		{"HSET h a 1 b 2 c 3", "HDEL h a nosuch c a", []string{"hdel h a c"}},
		{"HSET h a 1", "HDEL h a b", []string{"hdel h a"}},
		{"HSET h a 1", "HDEL h b", nil},
		{"", "HINCRBY h a 5", []string{"hincrby h a"}},
		{"HSET h a 1", "HINCRBYFLOAT h a 1.5", []string{"hincrbyfloat h a"}},
		{"HSET h a x", "HINCRBY h a 5", nil},
		{"HSET h a 1 b 2", "HEXPIRE h 100 FIELDS 3 a nosuch b", []string{"hexpire h a b"}},
		{"HSET h a 1 b 2", "HPEXPIRE h 100 XX FIELDS 2 a b", nil},
		{"HSET h a 1 b 2", "HPEXPIREAT h 1 FIELDS 1 b", []string{"hdel h b"}},
		{"HSET h a 1 b 2", "HEXPIRE h 0 FIELDS 2 b a", []string{"hdel h b a"}},
		{"HSETEX h EX 9 FIELDS 2 a 1 b 2", "HPERSIST h FIELDS 3 b c a", []string{"hpersist h b a"}},
		{"HSET h a 1", "HPERSIST h FIELDS 1 a", nil},
		{"HSET h a 1 b 2", "HGETDEL h FIELDS 2 b c", []string{"hdel h b"}},
		{"HSET h a 1 b 2", "HGETEX h EX 9 FIELDS 2 b c", []string{"hexpire h b"}},
		{"HSET h a 1 b 2", "HGETEX h PXAT 1 FIELDS 2 b c", []string{"hdel h b"}},
		{"HSETEX h EX 9 FIELDS 1 a 1", "HGETEX h PERSIST FIELDS 1 a", []string{"hpersist h a"}},
		{"HSET h a 1", "HGETEX h FIELDS 1 a", nil},
		{"", "HSETEX h FIELDS 2 a 1 b 2", []string{"hset h a b"}},
		{"", "HSETEX h EX 9 FIELDS 2 a 1 b 2", []string{"hset h a b", "hexpire h a b"}},
		{"", "HSETEX h PXAT 1 FIELDS 1 a 1", []string{"hset h a", "hdel h a"}},
		{"HSET h a 1", "HSETEX h FNX FIELDS 1 a 1", nil},
		{lapsed, "HGET h x", []string{"hexpired h x"}},
		{lapsed, "HMGET h x a y", []string{"hexpired h x y"}},
		{lapsed, "HGETDEL h FIELDS 2 x y", []string{"hexpired h x y"}},
		{lapsed, "HGETEX h PX 5 FIELDS 2 x y", []string{"hexpired h x y"}},
		{lapsed, "HSETEX h FNX FIELDS 1 x 3", []string{"hexpired h x", "hset h x"}},
		{lapsed, "HINCRBY h x 3", []string{"hexpired h x", "hincrby h x"}},
		{lapsed, "HRANDFIELD h", []string{"hexpired h y x"}},
		{"", "HGET h a", nil},
	} {
		core := newCore(t)
		cl := core.Client(2)
		core.Do(cl, "HSET", "h", "keep", "1")
		if c.before != "" {
			core.Do(cl, strings.Fields(c.before)...)
		}
		core.SetNow(core.Now() + 1000)
		core.Reset()
		core.Do(cl, strings.Fields(c.call)...)
		if !slices.Equal(core.Subkeys, c.want) {
			t.Errorf("%s after %s: %q, want %q", c.call, c.before, core.Subkeys, c.want)
		}
		core.SetNow(core.Now() + 1_000_000)
		core.Reset()
		if reply := core.Do(cl, "HGET", "h", "x"); len(core.Subkeys) > 1 {
			t.Errorf("%s: then HGET of a lapsed field replies %s and names %q", c.call, reply, core.Subkeys)
		}
	}
}
