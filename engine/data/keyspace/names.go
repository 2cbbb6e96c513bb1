package keyspace

// Names are copies of names, for example of fields that are about to be removed.
//
// Lifetime of a name: until Reset. Cost: no allocation in steady state.
type Names struct {
	all  [][]byte
	room []byte
}

// All returns the names in the order in which they were added.
func (n *Names) All() [][]byte { return n.all }

// Add copies a name.
func (n *Names) Add(name []byte) {
	from := len(n.room)
	n.room = append(n.room, name...) // earlier names keep the old array if it grows
	n.all = append(n.all, n.room[from:len(n.room):len(n.room)])
}

// keptNames is the largest number of names that Reset keeps room for. It keeps room for sixteen times as many bytes.
const keptNames = 1024

// Reset forgets all names. It keeps their memory for the next ones unless it is large.
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
