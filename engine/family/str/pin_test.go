package str

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"spindle/engine/client"
)

// TestLentRepliesOfStringsThatAreWritten lends chunks of long strings to replies, in any order, while the strings
// change. Every step must end, and all memory must be free after the last reply.
func TestLentRepliesOfStringsThatAreWritten(t *testing.T) {
	core := newCore(t)
	core.Mute = true
	rng := rand.New(rand.NewPCG(1, 2))
	writer := core.Client(2)
	var readers []*client.Client
	for range 8 {
		readers = append(readers, core.Client(2))
	}
	big := strings.Repeat("x", 200_000)
	for range 5_000 {
		key := strconv.Itoa(rng.IntN(3))
		reader := readers[rng.IntN(len(readers))]
		switch rng.IntN(5) {
		case 0:
			core.Do(writer, "SET", key, big)
		case 1:
			core.Do(writer, "SETRANGE", key, strconv.Itoa(rng.IntN(len(big))), "abc")
		case 2:
			core.Serve(reader, [][]byte{[]byte("GET"), []byte(key)})
		case 3:
			reader.Out.Reset()
		case 4:
			core.SetNow(core.Now() + 1)
		}
	}
}
