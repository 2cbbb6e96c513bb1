package command

// ItemsKept is the largest buffer, in items, that a command keeps for the next one.
const ItemsKept = 4096

// Release returns the buffer room, empty, for the next command. If room is large, it returns nil instead.
func Release[T any](room []T) []T {
	if cap(room) > ItemsKept {
		return nil
	}
	clear(room)
	return room[:0]
}
