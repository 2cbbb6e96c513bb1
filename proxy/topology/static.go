package topology

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spindle/internal/logging"
)

// EqualRanges gives each of n shards an equal range of slots, in order.
func EqualRanges(slots, n int) []uint16 {
	owners := make([]uint16, slots)
	for slot := range owners {
		owners[slot] = uint16(slot * n / slots)
	}
	return owners
}

// A Static has Maps that are handed in, from a store or from a file.
type Static struct {
	*keeper

	rounds rounds // of MeasureLag
}

// NewStatic returns a Static whose Map has no shards.
func NewStatic(slots int) *Static {
	return &Static{keeper: newKeeper(slots), rounds: newRounds(0, 0, rand.Int64N)}
}

// MeasureLag measures the replicas' lag at intervals, until Close.
func (s *Static) MeasureLag(servers Access, interval time.Duration, log *logging.Logger) {
	s.rounds.measureLag(s.keeper, servers, interval, log)
}

// Close ends MeasureLag. The last Map stays current.
func (s *Static) Close() { s.rounds.stop() }

// Set makes a Map from shards and owners. owners has the index in shards of each slot's shard. Both slices belong to
// the Map afterwards.
//
// Errors: a slot has a shard that does not exist, two shards have one ID, or a shard has no address. The current Map
// then stays.
func (s *Static) Set(shards []*Shard, owners []uint16) error {
	ids := map[string]bool{}
	for _, shard := range shards {
		if shard.ID == "" || shard.Primary == "" || ids[shard.ID] {
			return fmt.Errorf("shard %q at %q: the ID or the address is missing or not unique", shard.ID, shard.Primary)
		}
		ids[shard.ID] = true
	}
	for slot, owner := range owners {
		if owner != None && int(owner) >= len(shards) {
			return fmt.Errorf("slot %d belongs to shard %d of %d", slot, owner, len(shards))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(&Map{Version: s.Current().Version + 1, Shards: shards, owners: owners})
	return nil
}
