package server

import (
	"errors"

	"spindle/internal/setting"
)

// coreSettings have no effect: nothing here is done the way they tune, or their feature is still to come.
type coreSettings struct {
	Hz           setting.Int
	ExpireEffort setting.Int
	HideUserData setting.Bool

	unread struct {
		dynamicHz, rehashing, lazyDel, lazyFlush setting.Bool
		locale                                   setting.String
	}
}

func (s *coreSettings) rows() []setting.Row {
	u := &s.unread
	return []setting.Row{
		setting.NewInt("hz", &s.Hz, 10, setting.Between(0, maxInt), setting.Clamp(1, 500),
			setting.Nothing("duties run when they are due, sliced by time")),
		setting.NewInt("active-expire-effort", &s.ExpireEffort, 1, setting.Between(1, 10),
			setting.Nothing("keys end by their deadline; there is nothing to try harder at")),
		setting.NewBool("hide-user-data-from-log", &s.HideUserData, false,
			setting.Nothing("the log never shows keys or values")),

		setting.NewBool("lazyfree-lazy-user-del", &u.lazyDel, false,
			setting.Nothing("what is deleted is always let go in the background")),
		setting.NewBool("lazyfree-lazy-user-flush", &u.lazyFlush, false,
			setting.Nothing("FLUSHALL SYNC is as short as ASYNC: both let go in the background")),

		setting.NewBool("dynamic-hz", &u.dynamicHz, true,
			setting.Nothing("duties are sliced by time, not by their number a second")),
		setting.NewBool("activerehashing", &u.rehashing, true,
			setting.Nothing("tables grow a segment at a time; nothing is rehashed")),
		setting.NewString("locale-collate", &u.locale, "", setting.KeepEmpty, setting.CheckString(checkLocale),
			setting.Nothing("SORT ALPHA goes by bytes, as in the locale C")),
	}
}

// checkLocale takes the names that every system has; no other is compared by.
func checkLocale(name string) error {
	switch name {
	case "", "C", "POSIX", "C.UTF-8", "C.utf8":
		return nil
	}
	return errors.New("Invalid locale name")
}
