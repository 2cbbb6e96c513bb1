package report

import (
	"fmt"
	"strings"
)

// A loss is a cause of lost cases. It explains every lost case of its section whose name contains one of its words.
type loss struct {
	section, words string // words has alternatives, separated by "|"; "" matches all
	what           string
	cause, mend    string
}

// known lists the causes that were found. A lost case without a cause is printed as not explained.
var known = []loss{
	{"throughput", "netpoll", "netpoll backend, pipeline 1",
		"netpoll hands each readiness to a goroutine; with one thread to run on that is a switch a request",
		"nothing planned: the backend is there to compare with"},
	{"throughput", "io-threads 2", "io-threads 2 on one core, pipeline 1",
		"two loops share one core and hand the turn over by the kernel", "a second core"},
	{"throughput", "Pipeline 1: ", "pipeline 1 on one core",
		"on this host the two system calls of a request take some 10 of its 14 µs, on both sides; on the host before, " +
			"with cheaper calls, spindle took 0.8 of Redis's time",
		"reactor-backend io_uring, which has fewer system calls"},
	{"io-threads", "netpoll", "netpoll backend, pipeline 1, all cores", "as above", "nothing planned"},
	{"io-threads", "io-threads 2", "io-threads 2, pipeline 1",
		"two loops and the load share two cores: fewer requests an iteration, and more changes of thread",
		"more cores; without io-threads one loop serves until they are idle"},
	{"io-threads", "io-threads 1", "io-threads 1, pipeline 1", "as pipeline 1 on one core", "reactor-backend io_uring"},
	{"rates", "/s on", "CPU of a request at a fixed rate",
		"each wait of gnet wakes the Go runtime's monitor thread, which at 100 requests a second uses nearly half of the " +
			"CPU; on this host, with dearer system calls, that also shows at 1,000 and 5,000. At 100 the figures of epoll " +
			"and io_uring vary up to tenfold in a run",
		"reactor-backend epoll, which waits in the Go runtime's own poller; gnet has no place for that"},
	{"latency", "", "p99 at a fixed rate, some rates",
		"it changes sides from run to run: a p99 here is some ten requests that the machine held up",
		"a machine without other load"},
	{"values", "64 KB", "SET of 64 KB, pipeline 1",
		"half of the value goes through a read buffer before the rest is read into place",
		"reading the header alone first, one more call for each request"},
	{"bgsave-types", "memory", "memory while a list or stream is saved",
		"copies are of whole leaves of 8 KB; fork copies pages of 4 KB", "smaller leaves, at the price of more of them"},
	{"pubsub", "PUBLISH to 100", "PUBLISH to 100 subscribers, pipeline 1",
		"nine tenths of the time are the kernel's, in one write for each subscriber; why Redis's writes cost it less is " +
			"not found",
		"one system call for many writes (io_uring)"},
	{"tls", "", "TLS, pipeline 1",
		"crypto/tls takes about 1 µs more for a record's way in and out than OpenSSL",
		"nothing planned: the library is Go's own"},
	{"insight", "", "insight on, against off",
		"a clock reading for each read of a socket and for each group of replies, and 20,000 samples a second",
		"fewer samples"},
	{"cluster-nodes", "Reshard", "redis-cli's reshard under writes",
		"redis-cli moves keys one MIGRATE after the other. Redis serves no client while one waits for its target; here a " +
			"goroutine waits, and both changes of thread take longer where the cores are busy",
		"a short wait within the turn, at the price of all clients' latency"},
	{"cluster-nodes", "", "a cluster node at rest",
		"the Go runtime's own threads and heap, and ten ticks a second of core and bus each",
		"fewer ticks while no client asks"},
	{"aof", "500 connections", "`appendfsync always`, 500 connections",
		"both sides are bound by a read and a write of a socket for each request; a sync beside the turn then costs " +
			"changes of thread, and hides little",
		"one system call for many reads and writes (io_uring)"},
	{"connections", "", "memory of an idle connection",
		"a connection is a Go object with its state for the loop and for the core", "fewer fields in both"},
}

// A lostCase is a row of a table, or a figure, in which Redis is better.
type lostCase struct{ section, what, figure string }

// lossTable returns a table with a row for each known cause of lost cases, and one for each lost case without a cause.
func lossTable(sections []*Section) Table {
	t := Table{Columns: []string{"what", "figures", "cause", "what would mend it"}}
	cases := lostCases(sections)
	taken := make([]bool, len(cases))
	for _, k := range known {
		var figures []string
		for i, c := range cases {
			if !taken[i] && k.takes(c) {
				taken[i] = true
				figures = append(figures, c.what+": "+c.figure)
			}
		}
		if len(figures) > 0 {
			t.Rows = append(t.Rows, []string{k.what, strings.Join(figures, "; "), k.cause, k.mend})
		}
	}
	for i, c := range cases {
		if !taken[i] {
			t.Rows = append(t.Rows, []string{c.section, c.what + ": " + c.figure, "not known", "–"})
		}
	}
	return t
}

func (k loss) takes(c lostCase) bool {
	if k.section != c.section {
		return false
	}
	for word := range strings.SplitSeq(k.words, "|") {
		if strings.Contains(c.what, word) {
			return true
		}
	}
	return false
}

// lostCases returns every row of a table, and every figure, whose verdict ends in Lost. It leaves out a figure that a
// row already has.
func lostCases(sections []*Section) (cases []lostCase) {
	for _, s := range sections {
		rows := len(cases)
		for _, table := range s.Tables {
			for _, row := range table.Rows {
				if len(row) > 0 && Verdict(row[len(row)-1]).lost() {
					what := strings.TrimPrefix(table.Title+": ", ": ") + strings.Join(table.names(row), ", ")
					cases = append(cases, lostCase{s.Name, s.beside(what), table.ratio(row)})
				}
			}
		}
		if len(cases) > rows {
			continue
		}
		for _, f := range s.Figures {
			if f.Verdict.lost() {
				cases = append(cases, lostCase{s.Name, s.beside(f.What), fmt.Sprintf("%s against %s", f.Ours, f.Reference)})
			}
		}
	}
	return cases
}

// beside returns what was measured, and names a server that is not the machine's own redis-server.
func (s *Section) beside(what string) string {
	if !s.Beside {
		return what
	}
	return what + ", beside " + s.full()
}

// ratio returns the cell that compares a row with Redis.
func (t *Table) ratio(row []string) string {
	for i, column := range t.Columns {
		if strings.HasPrefix(column, "× ") && i < len(row) {
			return row[i] + " ×"
		}
	}
	return "behind Redis"
}
