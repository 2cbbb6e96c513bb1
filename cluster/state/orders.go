package state

import (
	"net/netip"
	"sort"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// This file has the orders of an operator: the subcommands of CLUSTER that change the state. Errors are replies.

// Meet begins a handshake with the node at ip.
func (s *State) Meet(ip string, port, busPort int64) error {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Zone() != "" || port <= 0 || port > 65535 || busPort <= 0 || busPort > 65535 {
		return errAddress(ip, port)
	}
	ip = addr.String()
	for _, n := range s.nodes {
		if n.is(bus.Handshake) && n.IP == ip && s.clientPort(n) == int(port) && n.BusPort == int(busPort) {
			return nil // a handshake is running
		}
	}
	n := s.newStranger(bus.ToMeet)
	n.IP, n.BusPort = ip, int(busPort)
	n.Port, n.TLSPort = s.ports(int(port), 0)
	s.add(n)
	return nil
}

// Owner returns a slot's owner, or nil if it has none.
func (s *State) Owner(slot int) *Node { return s.owners[slot] }

// Assign assigns slots that have no owner to this node. The caller has checked the slots.
func (s *State) Assign(list []int) {
	for _, slot := range list {
		delete(s.coming, slot)
		s.assign(s.me, slot)
	}
	s.claimed()
}

// Release unassigns slots. The caller has checked the slots.
func (s *State) Release(list []int) {
	for _, slot := range list {
		delete(s.coming, slot)
		s.unassign(slot)
	}
	s.settled()
}

// ReleaseMine unassigns all slots of this node.
func (s *State) ReleaseMine() {
	s.moveAll(s.me, nil)
	s.settled()
}

// settled requests a save, and a new evaluation of the cluster's state.
func (s *State) settled() {
	s.todo |= todoUpdate
	s.save(false)
	s.Changed = true
}

// claimed does the same as settled after a claim, which must be on disk before it is sent (state.C2).
func (s *State) claimed() {
	s.settled()
	s.save(true)
}

// Known returns the node that an operator names.
func (s *State) Known(id string) (*Node, error) {
	n := s.byID[id]
	if n == nil {
		return nil, errUnknown(id)
	}
	return n, nil
}

// target returns the node that SETSLOT names.
func (s *State) target(id string) (*Node, error) {
	n := s.byID[id]
	switch {
	case n == nil:
		return nil, errTarget(id)
	case n.isReplica():
		return nil, errNotPrimary
	}
	return n, nil
}

// IsReplica reports whether this node is a replica.
func (s *State) IsReplica() bool { return s.me.isReplica() }

// Migrating marks a slot of this node as migrating to another node.
func (s *State) Migrating(slot int, id string) error {
	if s.owners[slot] != s.me {
		return errNotOwner(slot)
	}
	n, err := s.target(id)
	if err == nil {
		s.moving[slot] = n
		s.settled()
	}
	return err
}

// Importing marks a slot as importing from another node.
func (s *State) Importing(slot int, id string) error {
	if s.owners[slot] == s.me {
		return errOwner(slot)
	}
	n, err := s.target(id)
	if err == nil {
		err = s.mayReturn(slot)
	}
	if err == nil {
		s.coming[slot] = n
		s.settled()
		if s.lost.Has(slot) { // the keys that come now are to stay, also after a restart
			s.lost.Remove(slot)
			s.save(true)
		}
	}
	return err
}

// Stable removes both marks of a slot.
func (s *State) Stable(slot int) {
	delete(s.coming, slot)
	delete(s.moving, slot)
	s.settled()
}

// Bind assigns a slot to a node.
func (s *State) Bind(slot int, id string) error {
	n, err := s.Known(id)
	if err != nil {
		return err
	}
	if n.isReplica() {
		return errNotPrimary
	}
	mine, keys := s.owners[slot] == s.me, s.out.Keys(slot)
	if mine && n != s.me && keys != 0 {
		return errKeys(slot)
	}
	if n == s.me {
		if err := s.mayReturn(slot); err != nil {
			return err
		}
	}
	if keys == 0 {
		delete(s.moving, slot)
	}
	s.unassign(slot)
	s.assign(n, slot)
	if mine && n != s.me && s.me.NumSlots == 0 && s.Terms.AllowMigration {
		s.log(logging.LevelNotice, "Configuration change detected. Reconfiguring myself as a replica of %s", n.label())
		s.setPrimary(n)
	}
	if n == s.me && s.coming[slot] != nil {
		if s.raiseEpoch() {
			s.log(logging.LevelNotice, "configEpoch updated after importing slot %d", slot)
		}
		delete(s.coming, slot)
		s.settled() // the epoch belongs to this node alone; only a new epoch is critical
		s.pongAll(false)
	}
	s.settled()
	return nil
}

// Manual reports whether an operator moves single slots away from this node, or moves some here.
func (s *State) Manual() (away, here bool) { return len(s.moving) > 0, len(s.coming) > 0 }

// Replicated returns the address from which a node is replicated.
func (s *State) Replicated(n *Node) (host string, port int) { return n.IP, s.replicationPort(n) }

// Bump runs BUMPEPOCH.
func (s *State) Bump() (raised bool, epoch uint64) {
	raised = s.raiseEpoch()
	return raised, s.me.Epoch
}

// Forget removes a node from the table. It cannot be added again for ForgetSeconds.
func (s *State) Forget(id string) error {
	n := s.byID[id]
	switch {
	case n == nil && s.forgotten(id):
		return nil // another node has sent this
	case n == nil:
		return errUnknown(id)
	case n == s.me:
		return errForgetSelf
	case s.me.isReplica() && s.me.Primary == n:
		return errForgetPrimary
	}
	s.forgotten(id)
	s.black[id] = s.now/1000 + s.Terms.ForgetSeconds
	s.remove(n)
	s.settled()
	return nil
}

// Replicate makes this node a replica. empty means that this node holds no key.
func (s *State) Replicate(id string, empty bool) error {
	n, err := s.Known(id)
	switch {
	case err != nil:
		return err
	case n == s.me:
		return errReplicateSelf
	case n.isReplica():
		return errReplicateReplica
	case s.me.isPrimary() && s.me.NumSlots == 0 && len(s.Leftovers()) > 0:
		return s.refuseLeaving()
	case s.me.isPrimary() && (s.me.NumSlots != 0 || !empty):
		return errHasData
	}
	s.setPrimary(n)
	s.settled()
	return nil
}

// Failover runs FAILOVER, with FORCE or TAKEOVER.
func (s *State) Failover(force, takeover bool) error {
	primary := s.me.Primary
	switch {
	case s.me.isPrimary():
		return errFailoverPrimary
	case primary == nil:
		return errPrimaryUnknown
	case !force && (primary.is(bus.Failed) || primary.Link == nil):
		return errPrimaryDown
	}
	s.resetManual()
	s.endElection() // a new one begins at once
	s.manualEnd = s.now + s.Terms.ManualTimeout
	switch {
	case takeover:
		s.log(logging.LevelNotice, "Taking over the master (user request).")
		s.raiseEpoch()
		s.replacePrimary()
	case force:
		s.log(logging.LevelNotice, "Forced failover user request accepted.")
		s.manualReady = true
	default:
		s.log(logging.LevelNotice, "Manual failover user request accepted.")
		s.manualUnsent = true
		s.askManual()
	}
	return nil
}

// SetEpoch runs SET-CONFIG-EPOCH, for a new node.
func (s *State) SetEpoch(epoch int64) error {
	switch {
	case epoch < 0:
		return errEpoch(epoch)
	case len(s.nodes) > 1:
		return errEpochKnown
	case s.me.Epoch != 0:
		return errEpochSet
	}
	s.me.Epoch = uint64(epoch)
	s.log(logging.LevelNotice, "configEpoch set to %d via CLUSTER SET-CONFIG-EPOCH", s.me.Epoch)
	s.current = max(s.current, s.me.Epoch)
	s.claimed()
	return nil
}

// Reset forgets all nodes and slots. hard also resets this node's ID and epochs. empty means that this node holds no
// key.
func (s *State) Reset(hard, empty bool) error {
	me := s.me
	switch {
	case me.isPrimary() && len(s.Leftovers()) > 0:
		return s.refuseLeaving()
	case me.isPrimary() && !empty:
		return errResetKeys
	}
	if me.isReplica() {
		s.becomePrimary(me)
		s.following = ""
		me.ShardID = s.newID() // its primary keeps the shard
		s.out.Ask(Errand{Kind: Promote})
		s.out.Ask(Errand{Kind: Empty})
	}
	s.closeAll()
	s.resetManual()
	s.lost, s.leaveBy = bus.Bitmap{}, 0
	for slot := range slots.Count {
		s.unassign(slot)
	}
	for len(s.nodes) > 1 {
		n := s.nodes[0]
		if n == me {
			n = s.nodes[1]
		}
		s.remove(n)
	}
	clear(s.black)
	if hard {
		s.current, s.voted, me.Epoch = 0, 0, 0
		s.log(logging.LevelNotice, "configEpoch set to 0 via CLUSTER RESET HARD")
		s.rename(me, s.newID())
		me.ShardID = s.newID()
		s.log(logging.LevelNotice, "Node hard reset, now I'm %s", me.ID)
	}
	s.claimed()
	return nil
}

// Want requests a save of nodes.conf, for SAVECONFIG.
func (s *State) Want() { s.save(true) }

// Adopt compares the loaded keys with the slots, before the bus runs. This node becomes the owner of a slot that has
// keys but no owner. A slot with keys and another owner is marked as importing, so that an operator sees it.
func (s *State) Adopt() {
	for slot := s.lost.Next(0, true); slot < slots.Count; slot = s.lost.Next(slot+1, true) {
		s.out.Mark(slot)
	}
	if s.me.isReplica() {
		return
	}
	changed := false
	for slot := range slots.Count {
		owner := s.owners[slot]
		if s.out.Keys(slot) == 0 || owner == s.me || s.coming[slot] != nil || owner != nil && s.lost.Has(slot) {
			continue
		}
		changed = true
		if owner == nil {
			s.log(logging.LevelNotice, "I have keys for unassigned slot %d. Taking responsibility for it.", slot)
			s.assign(s.me, slot)
		} else {
			s.adopt(slot)
		}
	}
	if changed {
		s.claimed()
	}
	s.dropLost()
}

// adopt marks a slot that has keys, but another owner, as importing.
func (s *State) adopt(slot int) {
	s.log(logging.LevelNotice, "I have keys for slot %d, but the slot is assigned to another node. "+
		"Setting it to importing state.", slot)
	s.coming[slot] = s.owners[slot]
}

// Cut closes links with a node, for DEBUG CLUSTERLINK KILL.
func (s *State) Cut(n *Node, to, from bool) {
	if to {
		s.hangUp(n.Link)
	}
	if from {
		s.hangUp(n.Incoming)
	}
}

// Shards groups the nodes by shard, in order of arrival.
func (s *State) Shards() (shards [][]*Node) {
	at := map[string]int{}
	for _, n := range s.nodes {
		if n.is(bus.Handshake) {
			continue
		}
		i, known := at[n.ShardID]
		if !known {
			i = len(shards)
			at[n.ShardID] = i
			shards = append(shards, nil)
		}
		shards[i] = append(shards[i], n)
	}
	return shards
}

// SlotCounts returns CLUSTER INFO's counts of slots.
func (s *State) SlotCounts() (assigned, ok, maybeFailed, failed int) {
	for _, n := range s.owners {
		switch {
		case n == nil:
			continue
		case n.is(bus.Failed):
			failed++
		case n.is(bus.MaybeFailed):
			maybeFailed++
		default:
			ok++
		}
		assigned++
	}
	return assigned, ok, maybeFailed, failed
}

// Failing has CLUSTER INFO's counts of nodes in PFAIL and in FAIL. The voting counts are of primaries with slots only.
type Failing struct{ MaybeFailed, Failed, VotingMaybeFailed, VotingFailed int }

// CountFailing counts the nodes in PFAIL and in FAIL.
func (s *State) CountFailing() (f Failing) {
	for _, n := range s.nodes {
		voting := 0
		if n.isPrimary() && n.NumSlots > 0 {
			voting = 1
		}
		switch {
		case n.is(bus.Failed):
			f.Failed++
			f.VotingFailed += voting
		case n.is(bus.MaybeFailed):
			f.MaybeFailed++
			f.VotingMaybeFailed += voting
		}
	}
	return f
}

// Open returns the migrating and importing slots, sorted, for tests and DEBUG.
func (s *State) Open() (list []int) {
	for slot := range s.moving {
		list = append(list, slot)
	}
	for slot := range s.coming {
		list = append(list, slot)
	}
	sort.Ints(list)
	return list
}

// Followed returns the address of this node's primary, from the node table. The address is empty if this node is a
// primary, or its primary is unknown. The state assumes that the core follows this address.
func (s *State) Followed() (host string, port int) {
	p := s.me.Primary
	if !s.me.isReplica() || p == nil || p.IP == "" || p.is(bus.NoAddress) {
		return "", 0
	}
	port = s.replicationPort(p)
	s.following = address(p.IP, port)
	return p.IP, port
}
