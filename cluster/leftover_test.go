package cluster

import (
	"math/rand/v2"
	"testing"
	"time"

	"spindle/cluster/bus"
	"spindle/cluster/state"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/family/pubsub"
	"spindle/internal/setting"
	"spindle/internal/slots"
	"spindle/tests/testkit"
)

const (
	idA = "07c37dfeb235213a872192d90877d0cd55635b91"
	idB = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1"
	idC = "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f"
)

// failed is the primary of a replica that takes over. The removal of lost slots does not wait for it.
const failed = "master,fail - 0 0 2 connected"

// A holder is a node with a core and keys.
type holder struct {
	*Cluster
	core  *engine.Core
	space *keyspace.Keyspace
}

// newHolder returns a holder whose nodes.conf has the lines of A, which is the node itself, B and C. Its keys are "bar"
// and "foo".
func newHolder(t *testing.T, a, b, c string) *holder {
	t.Helper()
	heap, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heap.Close)
	settings, common := &engine.Settings{}, &command.Settings{}
	settings.Rows()
	common.Rows()
	common.MaxBulk = &setting.Int{}
	h := &holder{Cluster: alone(t), space: keyspace.New(heap, keyspace.Options{Databases: 1, Slots: true})}
	h.core = engine.New(engine.Parts{Space: h.space, Clients: client.NewRegistry(), Settings: settings, Common: common,
		Whole: &command.Whole{}})
	h.core.RouteBy(h.parts.Current, func() int { return 0 })
	h.parts.Keys = Local{Core: h.core, Space: h.space, Hub: &pubsub.Hub{}, Current: h.parts.Current,
		Moved: func() {}}.Keys()
	h.state = state.New(outside{h.Cluster}, h.terms(), nowMs(), rand.New(rand.NewPCG(1, 2)))
	if err := h.state.Load("vars currentEpoch 6 lastVoteEpoch 0\n" + idA + " 127.0.0.1:7000@17000 myself," + a + "\n" +
		idB + " 127.0.0.1:7001@17001 " + b + "\n" +
		idC + " 127.0.0.1:7002@17002 " + c + "\n"); err != nil {
		t.Fatal(err)
	}
	h.set("bar")
	h.set("foo")
	return h
}

// rob has node C take the slots of both keys.
func (h *holder) rob() {
	h.with(func(s *state.State) {
		m := &bus.Message{Type: bus.Pong, Sender: idC, CurrentEpoch: 7, ConfigEpoch: 7, Flags: bus.Primary,
			Slots: &bus.Bitmap{}, Port: 7002, BusPort: 17002, IP: "127.0.0.1"}
		m.Slots.Add(int(slots.Of([]byte("bar"))))
		m.Slots.Add(int(slots.Of([]byte("foo"))))
		s.Receive(s.Accept("127.0.0.1", "127.0.0.1", nil, func() int64 { return 0 }), m)
	})
}

func (h *holder) set(key string) {
	h.core.Do(func() { h.space.DB(0).SetString([]byte(key), []byte("v"), 0) })
}

func (h *holder) remove(key string) { h.core.Do(func() { h.space.DB(0).Delete([]byte(key)) }) }

// keys returns the number of keys in the slot of key.
func (h *holder) keys(key string) int { return h.space.InSlot(slots.Of([]byte(key))) }

// drop runs the errands. It returns when the removal is over, which ends with foo's slot.
func (h *holder) drop(t *testing.T) {
	t.Helper()
	h.core.DoBetween(h.errands.run)
	testkit.Await(t, time.Minute, "foo is removed", func() bool { return h.keys("foo") == 0 })
	removal := &h.parts.Keys.(*localKeys).dropping
	removal.Lock()
	defer removal.Unlock()
}

// TestSlotComesBackBetweenTicks: a replica's primary has lost slots. It removes the keys of one, and an operator begins
// to bring the slot back, all between two ticks of the replica. The replica takes over, and keeps the keys that came.
func TestSlotComesBackBetweenTicks(t *testing.T) {
	h := newHolder(t, "slave "+idB+" 0 0 1 connected", failed+" 0-16383", "master - 0 0 3 connected")
	h.rob()
	h.remove("bar")
	h.set("{bar}new")
	h.takeOver(t)
	h.drop(t)
	if h.keys("bar") != 1 {
		t.Error("the key that came is removed")
	}
}

// TestSlotComesBackDuringTakeover: the stream of the primary runs on until the core is promoted. Its last commands
// remove the last leftover of a slot, and bring a key that is to stay.
func TestSlotComesBackDuringTakeover(t *testing.T) {
	h := newHolder(t, "slave "+idB+" 0 0 1 connected", failed+" 0-16383", "master - 0 0 3 connected")
	h.rob()
	h.takeOver(t)
	h.remove("bar")
	h.set("{bar}new")
	h.drop(t)
	if h.keys("bar") != 1 {
		t.Error("the key that came is removed")
	}
}

func (h *holder) takeOver(t *testing.T) {
	t.Helper()
	h.with(func(s *state.State) {
		if err := s.Failover(true, true); err != nil {
			t.Error(err)
		}
	})
}

// TestReplicaStartsWithLeftovers: a replica starts with the keys of lost slots, and takes over. It removes them.
func TestReplicaStartsWithLeftovers(t *testing.T) {
	h := newHolder(t, "slave "+idB+" 0 0 1 connected", failed+" 0-1000",
		"master - 0 0 3 connected 1001-16383\nvars currentEpoch 6 lastVoteEpoch 0 lost-slots 0-16383")
	h.with((*state.State).Adopt)
	h.takeOver(t)
	h.drop(t)
	if h.keys("bar") != 0 {
		t.Error("the leftover of bar's slot stays")
	}
}

// TestLateRemovalSparesReturningSlot: the removal of lost slots is asked for. Before its turn, an earlier removal takes
// the last key of a slot, and an operator begins to bring that slot back.
func TestLateRemovalSparesReturningSlot(t *testing.T) {
	h := newHolder(t, "master - 0 0 2 connected 0-16383", "master - 0 0 2 connected", "master - 0 0 3 connected")
	h.rob()
	h.remove("bar")
	h.with(func(s *state.State) {
		if err := s.Importing(int(slots.Of([]byte("bar"))), idC); err != nil {
			t.Error(err)
		}
	})
	h.set("{bar}new")
	h.drop(t)
	if h.keys("bar") != 1 {
		t.Error("the key that came is removed")
	}
}
