package scenarios

import (
	"fmt"
	"strings"
)

// An allocator is a cause of Go allocations in the server.
type allocator int

const (
	byRequests allocator = iota // all other causes
	byGnetList                  // gnet's list of epoll events, which is allocated again as it grows and shrinks
	byDuties                    // the core's periodic work, ten times a second
	byAsking                    // the admin address's replies to this bench
	allocators
)

// allocations has the objects and bytes allocated so far, by cause.
type allocations [allocators]struct{ objects, bytes float64 }

// since returns a minus the allocations in before.
func (a allocations) since(before allocations) allocations {
	for by := range a {
		a[by].objects -= before[by].objects
		a[by].bytes -= before[by].bytes
	}
	return a
}

// Allocations returns the server's allocations so far. It must run with GODEBUG=memprofilerate=1.
func (s *Server) Allocations() (allocations, error) {
	text, err := s.fromAdmin("/debug/pprof/heap?debug=1&gc=1", 0) // the profile covers everything before the gc
	if err != nil {
		return allocations{}, err
	}
	return parseAllocations(string(text))
}

// parseAllocations sums up a heap profile in text form. A record is "live: bytes [allocated: bytes] @ 0x…", and its
// frames are in the following lines.
// Source: package runtime/pprof, writeHeapInternal.
func parseAllocations(text string) (a allocations, err error) {
	header, records, ok := strings.Cut(text, "\n")
	if !strings.HasSuffix(header, "heap/2") || !ok { // twice the rate
		return a, fmt.Errorf("the heap profile begins with %q: its rate is not 1", header)
	}
	for record := range strings.SplitSeq(records, "\n\n") {
		var live, liveBytes int64
		var objects, bytes float64
		if n, _ := fmt.Sscanf(record, "%d: %d [%g: %g] @", &live, &liveBytes, &objects, &bytes); n == 4 {
			by := allocatedBy(record)
			a[by].objects += objects
			a[by].bytes += bytes
		}
	}
	return a, nil
}

// allocatedBy returns the cause of a record, from its frames.
func allocatedBy(frames string) allocator {
	switch {
	case strings.Contains(frames, "netpoll.(*eventList)."):
		return byGnetList
	case strings.Contains(frames, "net/http.") || strings.Contains(frames, "client_golang/"):
		return byAsking
	case strings.Contains(frames, "spindle/engine.(*Core).tick"):
		return byDuties
	}
	return byRequests
}
