package config

import (
	"errors"
	"math"

	"spindle/internal/setting"
)

// Idle are settings of the reference that have no effect here. They are accepted and shown. Each says why it has
// none.
type Idle struct {
	Hz setting.Int

	dynamicHz, rehashing, lazyDel, lazyFlush, hideData, jemalloc setting.Bool
	expireEffort, defragFields                                   setting.Int
	locale, dhParams                                             setting.String
}

// Rows returns the rows of the idle settings. The call gives every value its default.
func (s *Idle) Rows() []setting.Row {
	return []setting.Row{
		setting.NewInt("hz", &s.Hz, 10, setting.Between(0, math.MaxInt32), setting.Clamp(1, 500),
			setting.Nothing("duties run when they are due, sliced by time")),
		setting.NewBool("dynamic-hz", &s.dynamicHz, true,
			setting.Nothing("duties are sliced by time, not by their number a second")),
		setting.NewInt("active-expire-effort", &s.expireEffort, 1, setting.Between(1, 10),
			setting.Nothing("keys end by their deadline; there is nothing to try harder at")),
		setting.NewBool("hide-user-data-from-log", &s.hideData, false,
			setting.Nothing("the log never shows keys or values")),
		setting.NewBool("lazyfree-lazy-user-del", &s.lazyDel, false,
			setting.Nothing("what is deleted is always let go in the background")),
		setting.NewBool("lazyfree-lazy-user-flush", &s.lazyFlush, false,
			setting.Nothing("FLUSHALL SYNC is as short as ASYNC: both let go in the background")),
		setting.NewBool("activerehashing", &s.rehashing, true,
			setting.Nothing("tables grow a segment at a time; nothing is rehashed")),
		setting.NewString("locale-collate", &s.locale, "", setting.KeepEmpty, setting.CheckString(checkLocale),
			setting.Nothing("SORT ALPHA goes by bytes, as in the locale C")),
		setting.NewString("tls-dh-params-file", &s.dhParams, "",
			setting.Nothing("crypto/tls has no finite-field Diffie-Hellman; keys are agreed on by elliptic curves")),
		setting.NewBool("jemalloc-bg-thread", &s.jemalloc, true,
			setting.Nothing("this allocator gives pages back by itself")),
		setting.NewInt("active-defrag-max-scan-fields", &s.defragFields, 1000, setting.Between(1, math.MaxInt64),
			setting.Nothing("collections are moved in steps of some microseconds, whatever they hold")),
	}
}

// checkLocale accepts the names of the locale C, which every system has.
func checkLocale(name string) error {
	switch name {
	case "", "C", "POSIX", "C.UTF-8", "C.utf8":
		return nil
	}
	return errors.New("Invalid locale name")
}
