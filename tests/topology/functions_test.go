package topology

import (
	"testing"

	"spindle/tests/testkit"
)

// TestFunctionsReachReplica: a replica gets the libraries with the full synchronisation, and then every change to them.
// The writes of a script or function arrive as one transaction.
func TestFunctionsReachReplica(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	library := func(name, returns string) string {
		return "#!lua name=" + name + "\nredis.register_function('" + name + "', function() return " + returns + " end)"
	}
	s.Do("FUNCTION", "LOAD", library("first", "1"))
	s.Do("FUNCTION", "LOAD", library("second", "2"))
	s.Do("FUNCTION", "LOAD", "#!lua name=w\nredis.register_function('w', function(keys, args) "+
		"redis.call('INCR', keys[1]) redis.call('SET', keys[2], args[1], 'PX', 1000000) return redis.call('TIME') end)")
	r := attach(t, s)
	call := func(name, want string) {
		t.Helper()
		v, err := r.Ask("FCALL_RO", name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v.Word() != want {
			t.Errorf("FCALL_RO %s at the replica: %v, want %s", name, v, want)
		}
	}
	listed := func(want int) {
		t.Helper()
		equal(t, s, r)
		ours, theirs := s.Do("FUNCTION", "DUMP").Text, r.Do("FUNCTION", "LIST").Elems
		if len(theirs) != want || len(s.Do("FUNCTION", "LIST").Elems) != want {
			t.Errorf("%d libraries at the replica, want %d; ours: %.100q", len(theirs), want, ours)
		}
	}
	listed(3)
	call("nosuch", "ERR Function not found")
	reads := "#!lua name=second\nredis.register_function{function_name = 'second', callback = function() return 'new' " +
		"end, flags = {'no-writes'}}"
	s.Do("FUNCTION", "LOAD", "REPLACE", reads)
	listed(3)
	call("second", "new")
	s.Do("FCALL", "w", 2, "n", "k", "v")
	s.Do("EVAL", "redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[2], 'r' .. math.random()) redis.pcall('INCR', "+
		"KEYS[2])", 2, "n", "random")
	s.Do("EVAL", "redis.set_repl(redis.REPL_NONE) redis.call('SET', 'only here', 'x') redis.call('DEL', 'only here')", 0)
	listed(3)
	if n := r.Do("GET", "n").Word(); n != "2" {
		t.Errorf("n at the replica: %s", n)
	}
	s.Do("FUNCTION", "DELETE", "first")
	listed(2)
	dump := s.Do("FUNCTION", "DUMP").Text
	s.Do("FUNCTION", "FLUSH")
	listed(0)
	s.Do("FUNCTION", "RESTORE", dump)
	listed(2)
	call("second", "new")
	s.Do("FLUSHALL")
	listed(2)
}
