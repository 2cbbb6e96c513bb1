package lua

import (
	"runtime"
	"testing"
	"weak"
)

// TestProxiesAreForgotten: the collector frees the metatable of an unreachable proxy.
func TestProxiesAreForgotten(t *testing.T) {
	s := NewState()
	s.Start(load(t, s, `local p = newproxy(true) newproxy(p) return getmetatable(p)`))
	mustRun(t, s, Done)
	meta := weak.Make(s.Results()[0].Table())
	// The next scripts overwrite the proxy's place on the stack.
	s.Start(load(t, s, `local p = newproxy() local m = tostring(newproxy()) return tostring(tostring(m))`))
	mustRun(t, s, Done)
	s.Reset()
	clear(s.main.stack)
	runtime.GC()
	runtime.GC()
	if meta.Value() != nil {
		t.Error("the State holds it")
	}
	runtime.KeepAlive(s)
}
