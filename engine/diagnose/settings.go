package diagnose

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"spindle/engine/part"
	"spindle/internal/setting"
)

// Settings limit what is recorded and shown. engine.Settings decides what is measured.
type Settings struct {
	LogLens      [part.CommandLogs]setting.Int
	EntryArgs    setting.Int              // slowlog-entry-max-argc: the most arguments of a command log's entry
	EntryBytes   setting.Int              // slowlog-entry-max-string-len: the most bytes of each argument
	LatencyTrack setting.Bool             // latency-tracking
	Percentiles  setting.Value[[]float64] // latency-tracking-info-percentiles
}

// Rows returns the settings for CONFIG and the configuration file. A call sets each to its default.
func (s *Settings) Rows() []setting.Row {
	length := setting.Between(0, math.MaxInt64)
	return []setting.Row{
		setting.NewInt("slowlog-max-len", &s.LogLens[part.Slow], 128, length,
			setting.Also("commandlog-slow-execution-max-len")),
		setting.NewInt("commandlog-large-request-max-len", &s.LogLens[part.LargeRequest], 128, length),
		setting.NewInt("commandlog-large-reply-max-len", &s.LogLens[part.LargeReply], 128, length),
		setting.NewInt("slowlog-entry-max-argc", &s.EntryArgs, 32, setting.Between(2, math.MaxInt32)),
		setting.NewInt("slowlog-entry-max-string-len", &s.EntryBytes, 128, setting.Between(1, math.MaxInt32)),
		setting.NewBool("latency-tracking", &s.LatencyTrack, true),
		setting.NewValue("latency-tracking-info-percentiles", &s.Percentiles, []float64{50, 99, 99.9},
			setting.Codec[[]float64]{Parse: parsePercentiles, Format: formatPercentiles}, setting.MultiArg, setting.AlwaysFile),
	}
}

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

// formatPercentiles formats percentiles with at most six decimals, without trailing zeros.
func formatPercentiles(percentiles []float64) string {
	texts := make([]string, len(percentiles))
	for i, p := range percentiles {
		texts[i] = strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(p, 'f', 6, 64), "0"), ".")
	}
	return strings.Join(texts, " ")
}
