// Package cmsgpack is the library cmsgpack of Redis's scripts: Lua values to and from MessagePack, as in lua-cmsgpack
// 0.4.0.
//
// Owner: the State that is passed to Open.
// Never: trusts a length in its input: memory grows only as values are read.
// Start at pack.go and unpack.go.
// Source: the MessagePack specification without bin and ext, which Redis's library refuses.
package cmsgpack

import "spindle/scripting/lua"

// Open stores the library in the globals of s.
func Open(s *lua.State) {
	t := s.NewTable(0, 0)
	s.Register(t, "pack", pack)
	s.Register(t, "unpack", unpack)
	s.Register(t, "unpack_one", unpackOne)
	s.Register(t, "unpack_limit", unpackLimit)
	t.SetName("_NAME", lua.Intern("cmsgpack"))
	t.SetName("_VERSION", lua.Intern("lua-cmsgpack 0.4.0"))
	t.SetName("_COPYRIGHT", lua.Intern("Copyright (C) 2012, Salvatore Sanfilippo"))
	t.SetName("_DESCRIPTION", lua.Intern("MessagePack C implementation for Lua"))
	s.Globals.SetName("cmsgpack", t.Value())
}
