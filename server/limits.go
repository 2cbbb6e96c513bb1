package server

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// Descriptors beside those of clients: files, pipes, listeners and the first event loop, as many as the reference
// reserves; and what each further loop has for itself.
const (
	reservedFiles = 32
	filesPerLoop  = 4
)

// filesBeside are the descriptors beside those of clients. The admin lane and the admin address have their own.
func (in *instance) filesBeside() uint64 {
	n := uint64(reservedFiles + filesPerLoop*max(0, in.sockets.Loops.Get()-1))
	if in.hasLane() {
		n += laneClients + laneComing + filesPerLoop + 2 + uint64(len(in.own.LaneBind.Get())) // who accepts, and listeners
	}
	if in.own.Admin.Get() != "" {
		n += adminConns + 2 // one that comes before another goes, and the listener
	}
	return n
}

// ErrTooFewFiles is the end of a start with a limit that leaves no descriptor for a client; the log has the details.
var ErrTooFewFiles = errors.New("too few open files allowed")

// FitOpenFiles raises the limit of open files so that maxclients fit beside so many other descriptors, and returns how
// many do. It logs what it did.
func FitOpenFiles(maxClients int64, beside uint64, log *logging.Logger) (int64, error) {
	need := uint64(maxClients) + beside
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warning("Unable to obtain the current NOFILE limit (%s), assuming 1024 and setting the max clients "+
			"configuration accordingly.", reason.Of(err))
		return max(1, 1024-int64(beside)), nil
	}
	if limit.Cur >= need {
		return maxClients, nil
	}
	best, cause := raiseOpenFiles(limit, need)
	if best >= need {
		log.Notice("Increased maximum number of open files to %d (it was originally set to %d).", need, limit.Cur)
		return maxClients, nil
	}
	if best <= beside {
		log.Warning("Your current 'ulimit -n' of %d is not enough for the server to start. Please increase your open file "+
			"limit to at least %d. Exiting.", limit.Cur, need)
		return 0, ErrTooFewFiles
	}
	fit := int64(best - beside)
	log.Warning("You requested maxclients of %d requiring at least %d max file descriptors.", maxClients, need)
	log.Warning("Server can't set maximum open files to %d because of OS error: %s.", need, reason.Of(cause))
	log.Warning("Current maximum open files is %d. maxclients has been reduced to %d to compensate for low ulimit. If "+
		"you need higher maxclients increase 'ulimit -n'.", best, fit)
	return fit, nil
}

// raiseOpenFiles tries need first, then what the hard limit allows.
func raiseOpenFiles(now unix.Rlimit, need uint64) (best uint64, cause error) {
	cause = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: need, Max: max(need, now.Max)})
	if cause == nil {
		return need, nil
	}
	if now.Max > now.Cur && unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: now.Max, Max: now.Max}) == nil {
		return now.Max, cause
	}
	return now.Cur, cause
}

// CheckMaxClients is CONFIG SET maxclients' hook: it takes the number only if that many files may be open, and
// otherwise leaves the limit of open files where it was.
func CheckMaxClients(maxClients int64, beside uint64, log *logging.Logger) error {
	var before unix.Rlimit
	known := unix.Getrlimit(unix.RLIMIT_NOFILE, &before) == nil
	fit, err := FitOpenFiles(maxClients, beside, log)
	if err != nil || fit != maxClients {
		if known {
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) // it may have come part of the way; lowering it again needs no right
		}
		return fmt.Errorf("The operating system is not able to handle the specified number of clients, try with %d", fit)
	}
	return nil
}

// CheckBacklog warns of a kernel that caps tcp-backlog.
func CheckBacklog(backlog int64, log *logging.Logger) {
	const path = "/proc/sys/net/core/somaxconn"
	if most, err := readNumber(path); err == nil && most > 0 && most < backlog {
		log.Warning("WARNING: The TCP backlog setting of %d cannot be enforced because %s is set to the lower value of %d.",
			backlog, path, most)
	}
}

func readNumber(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// An OomAdjuster writes how willingly the kernel ends this process when memory runs out, and takes it back.
type OomAdjuster struct {
	settings *ProcessSettings
	log      *logging.Logger
	adjusted bool
	base     int64 // what the process was started with
}

// NewOomAdjuster adjusts nothing yet.
func NewOomAdjuster(s *ProcessSettings, log *logging.Logger) *OomAdjuster {
	return &OomAdjuster{settings: s, log: log}
}

const oomFile = "/proc/self/oom_score_adj"

// Apply writes what the settings say for a primary or a replica.
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
	score := int64(o.settings.OomValues.Get()[asInt(replica)])
	if mode == oomRelative {
		score += o.base
	}
	return min(max(score, -1000), 1000)
}
