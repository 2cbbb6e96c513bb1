package server

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"spindle/internal/setting"
)

// coreSettings belong to the engine: what commands may do, what is measured, when memory is let go.
type coreSettings struct {
	Databases    setting.Int
	Hz           setting.Int
	ExpireEffort setting.Int
	SlowlogLen   setting.Int
	LatencyTrack setting.Bool
	Percentiles  setting.Value[[]float64]
	ShutdownWait setting.Int // seconds
	BusyReply    setting.Int // ms
	HideUserData setting.Bool

	unread struct {
		dynamicHz, rehashing, lazyDel, lazyFlush setting.Bool
		aclFile, locale                          setting.String
		aclLog, tracking                         setting.Int
		pubsub                                   setting.Enum[int]
	}
}

func (s *coreSettings) rows() []setting.Row {
	u := &s.unread
	return []setting.Row{
		setting.NewInt("databases", &s.Databases, 16, setting.Between(1, maxInt), setting.Immutable),
		setting.NewInt("hz", &s.Hz, 10, setting.Between(0, maxInt), setting.Clamp(1, 500), setting.Nothing("duties run when they are due, sliced by time")),
		setting.NewInt("active-expire-effort", &s.ExpireEffort, 1, setting.Between(1, 10), setting.Nothing("keys end by their deadline; there is nothing to try harder at")),
		setting.NewInt("slowlog-max-len", &s.SlowlogLen, 128, setting.Between(0, maxLong)),
		setting.NewBool("latency-tracking", &s.LatencyTrack, true),
		setting.NewValue("latency-tracking-info-percentiles", &s.Percentiles, []float64{50, 99, 99.9},
			setting.Codec[[]float64]{Parse: parsePercentiles, Format: formatPercentiles}, setting.MultiArg, setting.AlwaysFile),
		setting.NewInt("shutdown-timeout", &s.ShutdownWait, 10, setting.Between(0, maxInt)),
		setting.NewInt("busy-reply-threshold", &s.BusyReply, 5000, setting.Between(0, maxLong), setting.Also("lua-time-limit"), setting.Nothing("scripts are not there yet")),
		setting.NewBool("hide-user-data-from-log", &s.HideUserData, false, setting.Nothing("the log never shows keys or values")),

		setting.NewBool("lazyfree-lazy-user-del", &u.lazyDel, false, setting.Nothing("what is deleted is always let go in the background")),
		setting.NewBool("lazyfree-lazy-user-flush", &u.lazyFlush, false, setting.Nothing("FLUSHALL SYNC is as short as ASYNC: both let go in the background")),

		setting.NewBool("dynamic-hz", &u.dynamicHz, true, setting.Nothing("duties are sliced by time, not by their number a second")),
		setting.NewBool("activerehashing", &u.rehashing, true, setting.Nothing("tables grow a segment at a time; nothing is rehashed")),
		setting.NewString("aclfile", &u.aclFile, "", setting.Immutable, setting.KeepEmpty, setting.Nothing(noACL)),
		setting.NewInt("acllog-max-len", &u.aclLog, 128, setting.Between(0, maxLong), setting.Nothing(noACL)),
		setting.NewEnum("acl-pubsub-default", &u.pubsub, 0, []setting.Choice[int]{{Name: "allchannels", Value: 1}, {Name: "resetchannels", Value: 0}},
			setting.Nothing(noACL)),
		setting.NewInt("tracking-table-max-keys", &u.tracking, 1000000, setting.Between(0, maxLong), setting.Nothing("client-side caching is not there yet")),
		setting.NewString("locale-collate", &u.locale, "", setting.KeepEmpty, setting.CheckString(checkLocale), setting.Nothing("SORT ALPHA goes by bytes, as in the locale C")),
	}
}

const noACL = "access control lists are not there yet; requirepass is"

func parsePercentiles(args []string, _ []float64, _ setting.How) ([]float64, error) {
	if len(args) == 1 && args[0] == "" {
		return nil, nil
	}
	percentiles := make([]float64, len(args))
	for i, arg := range args {
		p, err := strconv.ParseFloat(arg, 64)
		if err != nil || math.IsNaN(p) || strings.ContainsRune(arg, '_') {
			return nil, errors.New("Invalid latency-tracking-info-percentiles parameters")
		}
		if p < 0 || p > 100 {
			return nil, errors.New("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
		}
		percentiles[i] = p
	}
	return percentiles, nil
}

// formatPercentiles writes six decimals at most, and none that says nothing.
func formatPercentiles(percentiles []float64) string {
	texts := make([]string, len(percentiles))
	for i, p := range percentiles {
		texts[i] = strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(p, 'f', 6, 64), "0"), ".")
	}
	return strings.Join(texts, " ")
}

// checkLocale takes the names that every system has; no other is compared by.
func checkLocale(name string) error {
	switch name {
	case "", "C", "POSIX", "C.UTF-8", "C.utf8":
		return nil
	}
	return errors.New("Invalid locale name")
}
