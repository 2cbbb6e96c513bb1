package keyspace

// Names are copies of names, such as those of fields that are about to go.
//
// Lifetime of a name: until Reset. Cost: no allocation in steady state.
type Names struct {
	all  [][]byte
	room []byte
}

// All returns the names in the order of Add.
func (n *Names) All() [][]byte { return n.all }

// Add copies a name.
func (n *Names) Add(name []byte) {
	from := len(n.room)
	n.room = append(n.room, name...) // earlier names keep the old array if it grows
	n.all = append(n.all, n.room[from:len(n.room):len(n.room)])
}

// keptNames is the most names, and a sixteenth of the bytes of names, that Reset keeps room for.
const keptNames = 1024

// Reset forgets all names, and keeps their room unless it is large.
func (n *Names) Reset() {
	if len(n.all) == 0 {
		return
	}
	clear(n.all)
	n.all, n.room = n.all[:0], n.room[:0]
	if cap(n.all) > keptNames || cap(n.room) > 16*keptNames {
		*n = Names{}
	}
}
