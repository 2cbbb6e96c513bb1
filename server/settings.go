package server

import (
	"math"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// Settings are the rows of the process itself, and of every directive whose feature has no package of its own yet.
// When that package comes, it declares the row, and the one here goes: [setting.Registry.Fill] tells which.
type Settings struct {
	Process     ProcessSettings
	Network     networkSettings
	Core        coreSettings
	AOF         aofSettings
	Replication replicationSettings
	Cluster     clusterSettings
	TLS         tlsSettings
	Allocator   allocatorSettings
}

// Rows are all of them; calling it gives every value its default.
func (s *Settings) Rows() []setting.Row {
	var rows []setting.Row
	for _, group := range [][]setting.Row{
		s.Process.Rows(), s.Network.rows(), s.Core.rows(), s.AOF.rows(), s.Replication.rows(),
		s.Cluster.rows(), s.TLS.rows(), s.Allocator.rows(),
	} {
		rows = append(rows, group...)
	}
	return rows
}

// NewRegistry joins the rows that packages own with those that only this package declares.
func NewRegistry(s *Settings, owned ...[]setting.Row) (*setting.Registry, error) {
	registry, err := setting.NewRegistry(owned...)
	if err != nil {
		return nil, err
	}
	registry.Fill(s.Rows())
	return registry, nil
}

// Bounds that many rows share.
const (
	maxInt  = math.MaxInt32
	maxUint = math.MaxUint32
	maxLong = math.MaxInt64
	maxPort = 65535
)

// lenientInt reads a number inside a compound value as C's strtoll does: nothing is 0, blanks and a plus may stand before it.
func lenientInt(s string) (int64, bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
