package replication

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
)

// A history names the data set whose changes a stream holds. A promoted server gives the history a new name, and
// remembers the offset up to which the old name is valid.
type history struct {
	ID           string // 40 hex digits
	ID2          string // the earlier name; noID: none
	secondOffset int64  // the first offset for which ID2 is wrong; -1: ID2 is noID
}

// noID is the name that stands for no history.
const noID = "0000000000000000000000000000000000000000"

// newID returns a new history's name.
func newID() string {
	var raw [20]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// newHistory returns a history that continues no other.
func newHistory() history { return history{newID(), noID, -1} }

// ChangeID is DEBUG CHANGE-REPL-ID.
func (h *history) ChangeID() { h.ID = newID() }

// rename gives the history another name from offset at.
func (h *history) rename(id string, at int64) { h.ID2, h.secondOffset, h.ID = h.ID, at+1, id }

// knows reports whether a replica may continue history id from offset, which is that of the first byte that it lacks.
func (h *history) knows(id []byte, offset int64) bool {
	return bytes.EqualFold(id, []byte(h.ID)) || bytes.EqualFold(id, []byte(h.ID2)) && offset <= h.secondOffset
}
