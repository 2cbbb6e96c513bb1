package process

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

// ErrTooFewFiles ends a start, because the limit of open files leaves no descriptor for a client. The log has the
// details.
var ErrTooFewFiles = errors.New("too few open files allowed")

// The descriptors that a process needs in addition to those of clients.
const (
	ReservedFiles = 32 // files, pipes, listeners and the first event loop; Redis reserves as many
	FilesPerLoop  = 4  // for each further loop
)

// FilesOfLoops returns what a process with this many event loops needs in addition to the descriptors of clients.
func FilesOfLoops(loops int64) uint64 { return uint64(ReservedFiles + FilesPerLoop*max(0, loops-1)) }

// FitOpenFiles raises the limit of open files so that maxClients fit in addition to the other descriptors, others.
// It returns the number of clients that fit, and logs each change.
func FitOpenFiles(maxClients int64, others uint64, log *logging.Logger) (int64, error) {
	need := uint64(maxClients) + others
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warning("Unable to obtain the current NOFILE limit (%s), assuming 1024 and setting the max clients "+
			"configuration accordingly.", reason.Of(err))
		return max(1, 1024-int64(others)), nil
	}
	if limit.Cur >= need {
		return maxClients, nil
	}
	best, cause := raiseOpenFiles(limit, need)
	if best >= need {
		log.Notice("Increased maximum number of open files to %d (it was originally set to %d).", need, limit.Cur)
		return maxClients, nil
	}
	if best <= others {
		log.Warning("Your current 'ulimit -n' of %d is not enough for the server to start. Please increase your open file "+
			"limit to at least %d. Exiting.", limit.Cur, need)
		return 0, ErrTooFewFiles
	}
	fit := int64(best - others)
	log.Warning("You requested maxclients of %d requiring at least %d max file descriptors.", maxClients, need)
	log.Warning("Server can't set maximum open files to %d because of OS error: %s.", need, reason.Of(cause))
	log.Warning("Current maximum open files is %d. maxclients has been reduced to %d to compensate for low ulimit. If "+
		"you need higher maxclients increase 'ulimit -n'.", best, fit)
	return fit, nil
}

// raiseOpenFiles tries need first, then the hard limit.
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

// CheckMaxClients is the hook of CONFIG SET maxclients. It refuses a number that the limit of open files does not
// allow, and then restores that limit.
func CheckMaxClients(maxClients int64, others uint64, log *logging.Logger) error {
	var before unix.Rlimit
	known := unix.Getrlimit(unix.RLIMIT_NOFILE, &before) == nil
	fit, err := FitOpenFiles(maxClients, others, log)
	if err != nil || fit != maxClients {
		if known {
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) // part of it may be raised; lowering is always allowed
		}
		return fmt.Errorf("The operating system is not able to handle the specified number of clients, try with %d", fit)
	}
	return nil
}

// CheckBacklog warns if the kernel caps tcp-backlog.
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
