package state

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/internal/slots"
)

// nodes.conf has a line for each node, as in CLUSTER NODES, and a last line with the epochs.
//
//	id ip:port@bus,[host][,name=value…] flags primary ping pong epoch link [slot | from-to | [slot->-id] | [slot-<-id]]…
//	vars currentEpoch n lastVoteEpoch n [lost-slots from-to[,from-to…]]
//
// Other servers skip a variable that they do not know, like lost-slots.
//
// Source: the files that versions 3.0 to 7.4 write.

// Describe returns the content of nodes.conf.
func (s *State) Describe() []byte {
	b := make([]byte, 0, len(s.nodes)*usualLine)
	for _, n := range s.nodes {
		if !n.is(bus.Handshake) {
			b = append(s.describe(b, n, false, true), '\n')
		}
	}
	b = fmt.Appendf(b, "vars currentEpoch %d lastVoteEpoch %d", s.current, s.voted)
	for i, r := range s.lost.Ranges() {
		word := ","
		if i == 0 {
			word = lostWord
		}
		b = fmt.Appendf(b, "%s%d-%d", word, r[0], r[1])
	}
	return append(b, '\n')
}

// lostWord comes before the lost slots.
const lostWord = " lost-slots "

// List returns CLUSTER NODES. tls decides which port of each node it shows.
func (s *State) List(tls bool) string {
	b := make([]byte, 0, len(s.nodes)*usualLine)
	for _, n := range s.nodes {
		b = append(s.describe(b, n, tls, false), '\n')
	}
	return string(b)
}

// usualLine is the usual length of a line.
const usualLine = 256

// Line returns one node's line of List.
func (s *State) Line(n *Node, tls bool) string { return string(s.describe(nil, n, tls, false)) }

var flagNames = [...]struct {
	flag bus.Flags
	name string
}{
	{bus.Myself, "myself"}, {bus.Primary, "master"}, {bus.Replica, "slave"}, {bus.MaybeFailed, "fail?"},
	{bus.Failed, "fail"},
	{bus.Handshake, "handshake"}, {bus.NoAddress, "noaddr"}, {bus.NoFailover, "nofailover"},
}

// describe appends a node's line to b, without its end. aux adds the fields that only the file has.
func (s *State) describe(b []byte, n *Node, tls, aux bool) []byte {
	number := func(before string, value int64) {
		b = strconv.AppendInt(append(b, before...), value, 10)
	}
	port := n.Port
	if tls {
		port = n.TLSPort
	}
	b = append(append(append(b, n.ID...), ' '), n.IP...)
	number(":", int64(port))
	number("@", int64(n.BusPort))
	if n.Hostname != "" || aux {
		b = append(append(b, ','), n.Hostname...)
	}
	if aux {
		if tls {
			number(",tcp-port=", int64(n.Port))
		} else {
			number(",tls-port=", int64(n.TLSPort))
		}
		if n.HumanName != "" {
			b = append(append(b, ",nodename="...), n.HumanName...)
		}
		b = append(append(b, ",shard-id="...), n.ShardID...)
	}
	before := byte(' ')
	for _, f := range flagNames {
		if n.is(f.flag) {
			b = append(append(b, before), f.name...)
			before = ','
		}
	}
	if before == ' ' {
		b = append(b, " noflags"...)
	}
	primary, epoch, link := "-", n.Epoch, "disconnected"
	if n.Primary != nil {
		primary = n.Primary.ID
		if n.isReplica() {
			epoch = n.Primary.Epoch
		}
	}
	if n.Link != nil && n.Link.ready || n == s.me {
		link = "connected"
	}
	b = append(append(b, ' '), primary...)
	number(" ", s.unix(n.PingSent))
	number(" ", s.unix(n.PongReceived))
	b = strconv.AppendUint(append(b, ' '), epoch, 10)
	b = append(append(b, ' '), link...)
	if n.slotText == nil && n.NumSlots > 0 {
		for _, r := range n.Ranges() {
			n.slotText = strconv.AppendInt(append(n.slotText, ' '), int64(r[0]), 10)
			if r[0] != r[1] {
				n.slotText = strconv.AppendInt(append(n.slotText, '-'), int64(r[1]), 10)
			}
		}
	}
	b = append(b, n.slotText...)
	if n == s.me && len(s.moving)+len(s.coming) > 0 {
		b = s.describeOpen(b)
	}
	return b
}

// describeOpen appends the slots that are migrating or importing.
func (s *State) describeOpen(b []byte) []byte {
	var open []int
	for slot := range s.moving {
		open = append(open, slot)
	}
	for slot := range s.coming {
		if s.moving[slot] == nil {
			open = append(open, slot)
		}
	}
	sort.Ints(open)
	for _, slot := range open {
		if to := s.moving[slot]; to != nil {
			b = fmt.Appendf(b, " [%d->-%s]", slot, to.ID)
		} else {
			b = fmt.Appendf(b, " [%d-<-%s]", slot, s.coming[slot].ID)
		}
	}
	return b
}

// Ranges returns the slots of a node, as pairs of the first and last slot of each range.
func (n *Node) Ranges() (ranges [][2]int) { return n.slots.Ranges() }

// A FileError is the error for an invalid nodes.conf.
type FileError struct {
	Line   string
	Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("Unrecoverable error: corrupted cluster config file %q: %s", e.Line, e.Reason)
}

// maxLine is longer than any line of any version.
const maxLine = 1024 + slots.Count*128

// Load reads a nodes.conf into a state without nodes.
//
// Errors: *FileError. After one the state must not be used.
func (s *State) Load(text string) error {
	shards := map[*Node]bool{} // nodes with a shard in the file
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, "\r")
		if strings.Trim(line, " \t") == "" {
			continue
		}
		if err := s.loadLine(line, shards); err != "" {
			return &FileError{line[:min(len(line), 256)], err}
		}
	}
	if s.me == nil {
		return &FileError{"", "no line is this node's"}
	}
	for _, n := range s.nodes {
		s.loadShard(n, shards)
	}
	s.log(logging.LevelNotice, "Node configuration loaded, I'm %s", s.me.ID)
	s.current = s.maxEpoch() // the file may have been edited
	if s.restarted = s.me.isPrimary() && s.me.NumSlots > 0 && s.Terms.MinAcks > 0; s.restarted {
		s.out.Ask(Errand{Kind: Withhold})
	}
	s.Apply(s.Terms)
	return nil
}

// loadShard gives a replica its primary's shard. A node may have saved a replica's old shard before it learned the
// primary's new one. That does not make the file invalid, because later messages would correct it.
func (s *State) loadShard(n *Node, named map[*Node]bool) {
	switch p := n.Primary; {
	case p == nil:
	case named[n] && !named[p]:
		p.ShardID = n.ShardID
		named[p] = true
	default:
		n.ShardID = p.ShardID
	}
}

// loadLine reads one line. It returns the reason if the line is invalid.
func (s *State) loadLine(line string, shards map[*Node]bool) string {
	if len(line) > maxLine {
		return "the line is too long"
	}
	words, err := setting.SplitArgs(line)
	if err != nil {
		return "unbalanced quotes"
	}
	if len(words) == 0 {
		return "there are only control characters"
	}
	if strings.EqualFold(words[0], "vars") {
		return s.loadVars(words[1:])
	}
	if len(words) < 8 {
		return "too few fields"
	}
	if !bus.ValidID(words[0]) {
		return "the ID is none"
	}
	n := s.loadNode(words[0])
	if err := s.loadAddress(n, words[1], shards); err != "" {
		return err
	}
	for flag := range strings.SplitSeq(words[2], ",") {
		if err := s.loadFlag(n, flag); err != "" {
			return err
		}
	}
	if id := words[3]; id != "-" {
		if !bus.ValidID(id) || id == n.ID {
			return "the ID of the primary is none"
		}
		if p := s.loadNode(id); n.Primary == nil {
			n.Primary = p
			p.addReplica(n)
		}
	}
	for i, at := range []*int64{&n.PingSent, &n.PongReceived} {
		ms, err := strconv.ParseInt(words[4+i], 10, 64)
		if err != nil {
			return "a time is no number"
		}
		if ms != 0 {
			*at = s.now
		}
	}
	epoch, err := strconv.ParseUint(words[6], 10, 64)
	if err != nil {
		return "the epoch is no number"
	}
	if !n.isReplica() || n.Primary == nil { // otherwise it is the primary's epoch
		n.Epoch = epoch
	}
	for _, word := range words[8:] {
		if err := s.loadSlots(n, word); err != "" {
			return err
		}
	}
	return ""
}

// loadNode finds or creates a node of the file.
func (s *State) loadNode(id string) *Node {
	n := s.byID[id]
	if n == nil {
		n = s.newNode(id, 0)
		s.add(n)
	}
	return n
}

func (s *State) loadVars(words []string) string {
	if len(words)%2 != 0 {
		return "a variable without value"
	}
	for i := 0; i < len(words); i += 2 {
		var to *uint64
		switch {
		case strings.EqualFold(words[i], "currentEpoch"):
			to = &s.current
		case strings.EqualFold(words[i], "lastVoteEpoch"):
			to = &s.voted
		case strings.EqualFold(words[i], strings.TrimSpace(lostWord)):
			if !s.loadLost(words[i+1]) {
				return "a lost slot is none"
			}
			continue
		default:
			s.log(logging.LevelNotice, "Skipping unknown cluster config variable '%s'", words[i])
			continue
		}
		n, err := strconv.ParseUint(words[i+1], 10, 64)
		if err != nil {
			return "an epoch is no number"
		}
		*to = n
	}
	return ""
}

// loadLost reads the ranges of lost slots.
func (s *State) loadLost(text string) bool {
	for word := range strings.SplitSeq(text, ",") {
		first, last, ok := loadRange(word)
		if !ok {
			return false
		}
		for slot := first; slot <= last; slot++ {
			if owner := s.owners[slot]; owner == nil || owner != s.me {
				s.lost.Add(slot)
			}
		}
	}
	return true
}

// loadSlot reads the number of a slot.
func loadSlot(text string) (slot int, ok bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && n < slots.Count
}

// loadRange reads a slot, or first-last.
func loadRange(text string) (first, last int, ok bool) {
	firstText, lastText, run := strings.Cut(text, "-")
	first, ok = loadSlot(firstText)
	if last = first; run && ok {
		last, ok = loadSlot(lastText)
	}
	return first, last, ok
}

// unused are the auxiliary fields of Valkey 9.1 that this version does not write, because Redis refuses them. Nodes
// tell their zones, and have one address for clients and nodes.
var unused = [...]string{"availability-zone", "client-ipv4", "client-ipv6", "client-tcp-port", "client-tls-port"}

// loadAddress reads ip:port[@bus][,host][,name=value…].
func (s *State) loadAddress(n *Node, text string, shards map[*Node]bool) string {
	parts := strings.Split(text, ",")
	n.Hostname = ""
	if len(parts) > 1 {
		if n.Hostname = parts[1]; !saneName(n.Hostname) {
			return "the host name is none"
		}
	}
	plain, tls := false, false
	for _, aux := range parts[min(2, len(parts)):] {
		name, value, found := strings.Cut(aux, "=")
		if found && slices.Contains(unused[:], name) {
			continue
		}
		if !found || !saneName(name) || !saneName(value) {
			return "an auxiliary field is none"
		}
		var err string
		switch name {
		case "shard-id":
			if !bus.ValidID(value) {
				return "the shard's ID is none"
			}
			n.ShardID, shards[n] = value, true
		case "nodename":
			n.HumanName = value
		case "tcp-port":
			n.Port, err = loadPort(value)
			plain = true
		case "tls-port":
			n.TLSPort, err = loadPort(value)
			tls = true
		default:
			return "an auxiliary field is not known"
		}
		if err != "" {
			return err
		}
	}
	colon := strings.LastIndexByte(parts[0], ':')
	if colon < 0 {
		return "there is no port"
	}
	n.IP = parts[0][:colon]
	if !saneAddress(n.IP) {
		return "the address is none"
	}
	portText, busText, hasBus := strings.Cut(parts[0][colon+1:], "@")
	port, err := loadPort(portText)
	if err != "" {
		return err
	}
	switch {
	case plain && tls:
	case tls, !plain && !s.Terms.TLS:
		n.Port = port
	default:
		n.TLSPort = port
	}
	n.BusPort = s.clientPort(n) + busPort0
	if hasBus {
		n.BusPort, err = loadPort(busText)
	}
	return err
}

func loadPort(text string) (int, string) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, "a port is none"
	}
	return int(port), ""
}

func (s *State) loadFlag(n *Node, name string) string {
	if strings.EqualFold(name, "noflags") {
		return ""
	}
	for _, f := range flagNames {
		if !strings.EqualFold(name, f.name) {
			continue
		}
		if f.flag == bus.Myself {
			if s.me != nil && s.me != n {
				return "two lines are this node's"
			}
			s.me = n
		}
		if f.flag == bus.Failed {
			n.failedMs = s.now
		}
		n.Flags |= f.flag
		return ""
	}
	return "a flag is not known"
}

// loadSlots reads a slot, a range, or a migrating or importing slot.
func (s *State) loadSlots(n *Node, word string) string {
	if rest, open := strings.CutPrefix(word, "["); open {
		rest, closed := strings.CutSuffix(rest, "]")
		slotText, id, moving := strings.Cut(rest, "->-")
		to := s.moving
		if !moving {
			var coming bool
			if slotText, id, coming = strings.Cut(rest, "-<-"); !coming {
				return "a slot on its way is none"
			}
			to = s.coming
		}
		slot, ok := loadSlot(slotText)
		if !closed || !ok || !bus.ValidID(id) {
			return "a slot on its way is none"
		}
		to[slot] = s.loadNode(id)
		return ""
	}
	first, last, ok := loadRange(word)
	if !ok {
		return "a slot is none"
	}
	for slot := first; slot <= last; slot++ {
		s.assign(n, slot)
	}
	return ""
}
