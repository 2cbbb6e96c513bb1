package rdb

// ModuleName decodes a module's id: a type name of nine characters with six bits each, then ten bits for the version of
// its format.
func ModuleName(id uint64) (name string, version int) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var b [9]byte
	rest := id >> 10
	for i := range b {
		b[len(b)-1-i] = letters[rest&63]
		rest >>= 6
	}
	return string(b[:]), int(id & 1023)
}

// ModuleID encodes a module's type and version as an id. name has nine characters.
func ModuleID(name string, version int) (id uint64) {
	for i := range len(name) {
		var n byte
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			n = c - 'A'
		case c >= 'a' && c <= 'z':
			n = c - 'a' + 26
		case c >= '0' && c <= '9':
			n = c - '0' + 52
		case c == '-':
			n = 62
		default:
			n = 63
		}
		id = id<<6 | uint64(n)
	}
	return id<<10 | uint64(version&1023)
}
