// Package setting types configuration parameters: a value that any goroutine may read, and a row for CONFIG GET, SET,
// REWRITE and the configuration file.
//
// Owner: each package owns the settings that it reads and exports their rows; server joins them in one [Registry].
// Elsewhere: any goroutine may call Get of a value. Only the registry writes, under its lock.
// Never: imports another package of this program, or knows what a setting means.
// Start here; row.go declares rows, number.go, choice.go and compound.go parse them, registry.go joins them, args.go
// reads lines, rewrite.go writes the file back.
//
// A package declares
//
//	type Settings struct {
//		MaxClients setting.Int
//		Policy     setting.Enum[Policy]
//	}
//
//	func (s *Settings) Rows() []setting.Row {
//		return []setting.Row{
//			setting.NewInt("maxclients", &s.MaxClients, 10000, setting.Between(1, math.MaxUint32)),
//			setting.NewEnum("maxmemory-policy", &s.Policy, NoEviction, policies),
//		}
//	}
//
// Calling Rows gives every value its default, so a test needs no registry.
package setting

import "sync/atomic"

// Int, Uint, Bool and String hold one value; a read is a single atomic load.
type (
	Int    struct{ v atomic.Int64 }
	Uint   struct{ v atomic.Uint64 } // for the few limits that exceed 1<<63
	Bool   struct{ v atomic.Bool }
	String struct{ v atomic.Pointer[string] }
)

func (s *Int) Get() int64      { return s.v.Load() }
func (s *Int) Set(n int64)     { s.v.Store(n) }
func (s *Uint) Get() uint64    { return s.v.Load() }
func (s *Uint) Set(n uint64)   { s.v.Store(n) }
func (s *Bool) Get() bool      { return s.v.Load() }
func (s *Bool) Set(b bool)     { s.v.Store(b) }
func (s *String) Set(v string) { s.v.Store(&v) }
func (s *String) Get() string {
	if p := s.v.Load(); p != nil {
		return *p
	}
	return ""
}

// An Enum holds one of several named values, or, with NewFlags, a set of them.
type Enum[T ~int] struct{ v atomic.Int64 }

func (s *Enum[T]) Get() T  { return T(s.v.Load()) }
func (s *Enum[T]) Set(v T) { s.v.Store(int64(v)) }

// A Value holds anything else: save rules, addresses, limits by class. Get's result is shared and must not be changed.
type Value[T any] struct{ v atomic.Pointer[T] }

func (s *Value[T]) Set(v T) { s.v.Store(&v) }
func (s *Value[T]) Get() T {
	if p := s.v.Load(); p != nil {
		return *p
	}
	var zero T
	return zero
}
