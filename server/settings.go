package server

import (
	"math"

	"spindle/internal/process"
	"spindle/internal/setting"
)

// Settings are the rows of the process itself, and of every directive whose feature has no package of its own yet.
// When that package comes, it declares the row, and the one here goes: a name that is declared twice ends the start.
type Settings struct {
	Process   process.Settings
	Core      coreSettings
	TLS       tlsSettings
	Allocator allocatorSettings
}

// Rows are all of them; calling it gives every value its default.
func (s *Settings) Rows() []setting.Row {
	var rows []setting.Row
	for _, group := range [][]setting.Row{
		s.Process.Rows(), s.Core.rows(),
		s.TLS.rows(), s.Allocator.rows(),
	} {
		rows = append(rows, group...)
	}
	return rows
}

// Bounds that many rows share.
const (
	maxInt  = math.MaxInt32
	maxUint = math.MaxUint32
	maxLong = math.MaxInt64
	maxPort = 65535
)
