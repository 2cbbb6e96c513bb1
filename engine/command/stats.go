package command

// Stats counts one row's calls. Written in turns only.
type Stats struct {
	Calls    uint64
	Nanos    uint64 // time spent in Run
	Rejected uint64 // refused before running: arity, OOM, ACL, …
	Failed   uint64 // answered with an error
}
