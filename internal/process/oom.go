package process

import (
	"errors"
	"fmt"
	"os"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// An OomAdjuster sets the score by which the kernel chooses a process to kill when memory runs out, and restores it.
type OomAdjuster struct {
	settings *Settings
	log      *logging.Logger
	adjusted bool
	base     int64 // the score that the process started with
}

// NewOomAdjuster returns an adjuster that has changed nothing.
func NewOomAdjuster(s *Settings, log *logging.Logger) *OomAdjuster {
	return &OomAdjuster{settings: s, log: log}
}

const oomFile = "/proc/self/oom_score_adj"

// Apply writes the score that the settings have for a primary or a replica.
func (o *OomAdjuster) Apply(replica bool) error {
	mode := o.settings.OomScoreAdj.Get()
	if mode == oomLeave && !o.adjusted {
		return nil
	}
	failed := errors.New("Failed to set current oom_score_adj. Check server logs.")
	if !o.adjusted {
		base, err := readNumber(oomFile)
		if err != nil {
			o.log.Warning("Unable to read oom_score_adj: %s", reason.Of(err))
			return failed
		}
		o.base = base
	}
	o.adjusted = mode != oomLeave
	score := o.base
	if o.adjusted {
		score = o.score(mode, replica)
	}
	if err := os.WriteFile(oomFile, fmt.Appendf(nil, "%d\n", score), 0); err != nil {
		o.log.Warning("Unable to write oom_score_adj: %s", reason.Of(err))
		return failed
	}
	return nil
}

func (o *OomAdjuster) score(mode oomMode, replica bool) int64 {
	values := o.settings.OomValues.Get()
	score := int64(values[0])
	if replica {
		score = int64(values[1])
	}
	if mode == oomRelative {
		score += o.base
	}
	return min(max(score, -1000), 1000)
}
