package cluster

import (
	"sync/atomic"

	"spindle/cluster/bus"
)

// A traffic counts bytes on the cluster bus in one direction, for CLUSTER INFO. Any goroutine.
type traffic struct {
	all    atomic.Int64
	pubsub atomic.Int64 // messages of PUBLISH and SPUBLISH
	module atomic.Int64
}

// add counts a whole message.
func (t *traffic) add(message []byte) {
	n := int64(len(message))
	t.all.Add(n)
	switch bus.TypeOf(message) {
	case bus.Publish, bus.PublishShard:
		t.pubsub.Add(n)
	case bus.Module:
		t.module.Add(n)
	}
}
