// Package lib opens the libraries that Redis adds to Lua's own.
//
// Owner: the State that is passed to Open.
package lib

import (
	"spindle/scripting/lib/bit"
	"spindle/scripting/lib/cjson"
	"spindle/scripting/lib/cmsgpack"
	"spindle/scripting/lib/structlib"
	"spindle/scripting/lua"
)

// Open stores cjson, struct, cmsgpack and bit in the globals of s. The order is Redis's, because scripts see it with
// pairs.
func Open(s *lua.State) {
	cjson.Open(s)
	structlib.Open(s)
	cmsgpack.Open(s)
	bit.Open(s)
}
