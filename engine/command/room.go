package command

// ItemsKept is the largest buffer, in items, that a command keeps for the next one.
const ItemsKept = 4096

// Release empties the buffer room for the next command, or drops it if it is large.
func Release[T any](room []T) []T {
	if cap(room) > ItemsKept {
		return nil
	}
	clear(room)
	return room[:0]
}
