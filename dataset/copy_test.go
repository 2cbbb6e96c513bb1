package dataset

import (
	"errors"
	"io"
	"testing"

	"spindle/bgsave"
	"spindle/internal/logging"
)

// TestCopyWithoutATurn: a server that ends while a script runs gives a full copy no turn. The copy is then given up and
// not read. Once such a copy counted as loaded, and rdb-del-sync-files removed the server's own file.
func TestCopyWithoutATurn(t *testing.T) {
	set := &Set{Parts: Parts{Log: logging.New(io.Discard)}}
	noTurn := func(func()) {}
	read := func(bgsave.Inserter, bgsave.LoadOptions) (bgsave.Loaded, error) {
		t.Error("the copy is read")
		return bgsave.Loaded{}, nil
	}
	err := copyLoader{set}.inPlace(noTurn, func() bool { return true }, func(int) {}, 10, nil, read)
	if !errors.Is(err, errGivenUp) {
		t.Errorf("the load ends with %v", err)
	}
	if set.Loading.Active.Load() {
		t.Error("INFO shows a load that was given up")
	}
}
