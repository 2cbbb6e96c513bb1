// Package differential sends random calls to spindle and to a redis-server and holds every reply, and now and then the
// whole state, of the one against the other.
//
// Owner: its own test; one goroutine generates and compares, two more per server and connection write and read.
// Never: decides what is right. The reference does; compare.go names what may differ by nature, known.go what differs
// on purpose, and which calls are changed for a reference so that the two do not part.
//
// Start at runner.go: a round is some thousand calls from an empty server on, so that a difference is within reach of
// shrink.go. A family of commands is one table, gen_string.go and its kin, in the words of gen.go; families.go lists
// them. Only commands that both servers list are sent. What throws dice over data is mirrored (mirror.go).
//
//	go test -count=1 -v ./tests/differential -run TestDifferential -calls 10000000 -reference /usr/bin/redis-server
//
// Who waits for keys has a runner of its own, because there it counts who is served, and when: plan.go makes plans of
// several clients' steps out of the tables in gen_wait.go, crowd.go plays them on one server, crowds.go holds one
// against the other, with what each sends its replicas (effects.go).
//
//	go test -count=1 -v ./tests/differential -run TestBlocking -plans 20000 -timeout 60m -reference /usr/bin/redis-server
//
// A difference is printed with what replays it (-seed and -round) and as a transcript, to be recorded into
// tests/transcripts.
package differential
