package scripting_test

import (
	"testing"

	"spindle/scripting"
)

// received returns a data set that is being received, with one library. Its function f returns result.
func received(t *testing.T, s *server, result string) *scripting.Staged {
	t.Helper()
	data := s.scripts.Stage()
	if err := data.Add([]byte(library("staged", "f", "return "+result))); err != nil {
		t.Fatal(err)
	}
	return data
}

func library(name, function, body string) string {
	return "#!lua name=" + name + "\nredis.register_function{function_name='" + function + "', callback=function() " +
		body + " end, flags={'no-writes'}}"
}

// TestStagedLibrariesLeaveARunAlone: a function has lent the turn, and a library of a full copy is staged. The function
// continues.
func TestStagedLibrariesLeaveARunAlone(t *testing.T) {
	s := newServer(t)
	s.want("$3\r\nold\r\n", "FUNCTION", "LOAD",
		library("old", "count", "local n = 0 for i = 1, 100 do n = n + i end return n"))
	s.scripts.SetPace(func() (int64, int) { return 1, 20 })
	s.lend = true
	s.Do(s.client, "FCALL_RO", "count", "0")
	if s.step == nil {
		t.Fatal("the function has not lent the turn")
	}
	data := received(t, s, "1")
	if reply, over := s.goOn(1000); !over || reply != ":5050\r\n" {
		t.Errorf("the function replied %q, over: %t", reply, over)
	}
	s.lend = false
	data.Install()
	s.want(":1\r\n", "FCALL", "f", "0")
	s.want("-ERR Function not found\r\n", "FCALL", "count", "0")
}

// TestFlushBesideStagedLibraries: FUNCTION FLUSH while a full copy is being received removes only the present
// libraries.
func TestFlushBesideStagedLibraries(t *testing.T) {
	s := newServer(t)
	data := received(t, s, "2")
	s.want("+OK\r\n", "FUNCTION", "FLUSH")
	s.want("-ERR Function not found\r\n", "FCALL", "f", "0")
	s.want("$3\r\nnew\r\n", "FUNCTION", "LOAD", library("new", "g", "return 3"))
	data.Install()
	s.want(":2\r\n", "FCALL", "f", "0")
	s.want("-ERR Function not found\r\n", "FCALL", "g", "0")
	s.want("$3\r\nnew\r\n", "FUNCTION", "LOAD", library("new", "g", "return 4"))
	s.want(":4\r\n", "FCALL", "g", "0")
	s.want("+OK\r\n", "FUNCTION", "DELETE", "staged")
}
