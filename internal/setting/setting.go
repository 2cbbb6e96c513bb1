// Package setting gives configuration parameters their types: a value that any goroutine may read, and a row that
// CONFIG GET, SET, REWRITE and the configuration file share.
//
// Owner: each package owns the settings it reads and exports their rows; server joins them.
// Start here: a package declares `type Settings struct{ MaxClients setting.Int … }` and a `Rows()` that names them.
package setting

import "sync/atomic"

// Int, Bool, String hold one value; reads are a single atomic load.
type (
	Int    struct{ v atomic.Int64 }
	Bool   struct{ v atomic.Bool }
	String struct{ v atomic.Pointer[string] }
)

func (s *Int) Get() int64      { return s.v.Load() }
func (s *Int) Set(n int64)     { s.v.Store(n) }
func (s *Bool) Get() bool      { return s.v.Load() }
func (s *Bool) Set(b bool)     { s.v.Store(b) }
func (s *String) Set(v string) { s.v.Store(&v) }
func (s *String) Get() string {
	if p := s.v.Load(); p != nil {
		return *p
	}
	return ""
}
