// Package differential sends random calls to spindle and to a redis-server, and compares every reply and sometimes the
// whole state.
//
// Owner: its own test. One goroutine generates and compares; two more for each server and connection write and read.
// Never: decides which server is right; redis-server always is. compare.go has replies that may differ by nature.
// known.go has intended differences, and changes of calls that would make the states differ.
//
// Start at runner.go: a round is some thousand calls from an empty server, so that shrink.go can find a difference's
// cause. A family of commands is one table, such as gen_string.go, written with the functions in gen.go; families.go
// lists them. Only commands that both servers have are sent. Random changes of data are mirrored (mirror.go).
//
//	go test -count=1 -v ./tests/differential -run TestDifferential -calls 10000000 -reference /usr/bin/redis-server
//
// The server to compare with may also be Redis 8 or Valkey. Their new commands are sent once spindle has them, and a
// template sends their new options with only("8 valkey", …). known.go has their differences from 7.4.
//
// Clients that wait for keys have another runner, because the order of service matters there. plan.go makes plans of
// several clients' steps from the tables in gen_wait.go. clientgroup.go plays them on one server. clientgroups.go
// compares two servers, and also the commands that they send to replicas (effects.go).
//
//	go test -count=1 -v ./tests/differential -run TestBlocking -plans 20000 -timeout 60m -reference /usr/bin/redis-server
//
// A difference is printed with the flags that replay it (-seed and -round) and as a transcript for tests/transcripts.
package differential
