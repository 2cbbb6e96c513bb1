package scenarios

import (
	"errors"
	"fmt"
	"os"
	"time"

	"spindle/bench/load"
)

// Profile puts a mixed load on spindle and writes its CPU profile to file. The load has more reads than writes, more
// strings than collections, three depths, keys with and without deadlines, and hot and cold keys. There is a save in
// the middle and a load at the end. The profile is for the compiler, so the mix matters, not the speed.
func Profile(e *Env, file string) error {
	s, err := e.Begin(e.Ours(), Start{})
	if err != nil {
		return err
	}
	defer s.End()
	if err := s.Fill(fill(e.Keys, 0, setWords...)); err != nil {
		return err
	}
	if err := s.Fill(fill(e.Keys, 0, "SET", "n{key}", "{number}")); err != nil {
		return err
	}
	mix := []load.Command{
		{Words: []string{"GET", "{key}"}, Weight: 40}, {Words: setWords, Weight: 20},
		{Words: []string{"INCR", "n{key}"}, Weight: 10},
		{Words: append(append([]string(nil), setWords...), "EX", "5"), Weight: 5},
		{Words: []string{"SETEX", "t{key}", "2", "{value:100}"}, Weight: 3},
		{Words: msetWords(10), Weight: 4}, {Words: []string{"MGET", "{key}", "{key}", "{key}", "{key}", "{key}"}, Weight: 4},
		{Words: []string{"EXISTS", "{key}"}, Weight: 2}, {Words: []string{"TTL", "{key}"}, Weight: 2},
		{Words: []string{"EXPIRE", "{key}", "60"}, Weight: 2},
		{Words: []string{"DEL", "{key}"}, Weight: 2}, {Words: []string{"SET", "{key}", "{value:32}", "NX"}, Weight: 2},
		{Words: []string{"SET", "{key}", "{value:1024}"}, Weight: 2},
		{Words: []string{"APPEND", "a{key}", "x"}, Weight: 1}, {Words: []string{"GETRANGE", "{key}", "0", "9"}, Weight: 1},
		{Words: []string{"PING"}, Weight: 2},

		{Words: []string{"LPUSH", "list", "{value:32}"}, Weight: 2},
		{Words: []string{"RPUSH", "list", "{value:32}"}, Weight: 2}, {Words: []string{"LPOP", "list"}, Weight: 2},
		{Words: []string{"RPOP", "list"}, Weight: 2}, {Words: []string{"LRANGE", "list", "0", "99"}, Weight: 1},
		{Words: []string{"SADD", "set", member}, Weight: 2},
		{Words: []string{"SISMEMBER", "set", member}, Weight: 2}, {Words: []string{"SPOP", "set"}, Weight: 1},
		{Words: []string{"HSET", "hash", member, "{value:32}"}, Weight: 2},
		{Words: []string{"HGET", "hash", member}, Weight: 3},
		{Words: []string{"HINCRBY", "h{key}", "visits", "1"}, Weight: 1},
		{Words: []string{"ZADD", "zset", "{number}", member}, Weight: 2},
		{Words: []string{"ZSCORE", "zset", member}, Weight: 1}, {Words: []string{"ZRANGE", "zset", "0", "9"}, Weight: 1},
		{Words: []string{"ZPOPMIN", "zset"}, Weight: 1},
		{Words: []string{"XADD", "stream", "MAXLEN", "~", "10000", "*", "field", "{value:32}"}, Weight: 2},
	}
	stages := []load.Spec{
		{Connections: 50, Pipeline: 1, Keys: load.KeySpace{Count: e.Keys}},
		{Connections: 50, Pipeline: 16, Keys: load.KeySpace{Count: e.Keys, Order: load.Zipf}},
		{Connections: 50, Pipeline: 64, Keys: load.KeySpace{Count: e.Keys}},
	}
	stage := e.Duration
	profile := make(chan error, 1)
	go func() { profile <- s.profile(file, stage*time.Duration(len(stages)+1)) }()
	for i, spec := range stages {
		spec.Duration, spec.Mix = stage, mix
		runner, err := s.StartLoad(spec)
		if err != nil {
			return err
		}
		if i == 1 {
			if err := s.save(); err != nil {
				runner.Abandon()
				return err
			}
		}
		r, err := s.finish(runner)
		if err != nil {
			return err
		}
		e.logf("pipeline %d: %.0f requests a second, %.3f µs of CPU each",
			spec.Pipeline, r.PerSecond(), r.NanosPerRequest()/1e3)
	}
	if _, err := s.Do("DEBUG", "RELOAD"); err != nil {
		return err
	}
	return <-profile
}

// profile fetches the CPU profile of the next time length. It replaces file only when the profile is complete.
func (s *Server) profile(file string, length time.Duration) error {
	text, err := s.fromAdmin(fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Seconds()))), length)
	if err != nil {
		return err
	}
	if len(text) < 100 {
		return errors.New("the profile is empty")
	}
	if err := os.WriteFile(file+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
