package state

import (
	"math/rand/v2"

	"spindle/internal/logging"
)

// quiet is an Outside that does nothing.
type quiet struct{}

func (quiet) Dial(l *Link)                      {}
func (quiet) Send(*Link, []byte, uint64)        {}
func (quiet) HangUp(*Link)                      {}
func (quiet) Ask(Errand)                        {}
func (quiet) Keys(int) int                      { return 0 }
func (quiet) Offset() int64                     { return 0 }
func (quiet) DataAge() int64                    { return 0 }
func (quiet) Log(logging.Level, string, ...any) {}
func fresh() *State {
	return New(quiet{}, Terms{NodeTimeout: 2000, Port: 7000, BusPort: 17000}, 1_700_000_000_000,
		rand.New(rand.NewPCG(1, 2)))
}
