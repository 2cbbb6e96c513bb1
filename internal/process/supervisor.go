package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// A Supervisor is the init system that watches the process, if there is one. It gets the server's state.
//
// Owner: any goroutine may call its methods. A nil Supervisor ignores them.
type Supervisor struct {
	mode supervision
	log  *logging.Logger

	mu     sync.Mutex
	status string // the last text of Status, shown again after Underway
}

// Supervise finds the supervisor that the settings name; "auto" looks for one. A supervised process does not daemonize.
func Supervise(s *Settings, log *logging.Logger) *Supervisor {
	v := &Supervisor{mode: s.Supervised.Get(), log: log}
	if v.mode == supervisedAuto {
		switch {
		case os.Getenv("UPSTART_JOB") != "":
			v.mode = supervisedUpstart
		case os.Getenv("NOTIFY_SOCKET") != "":
			v.mode = supervisedSystemd
		default:
			v.mode = supervisedNo
		}
	}
	switch v.mode {
	case supervisedUpstart:
		if os.Getenv("UPSTART_JOB") == "" {
			log.Warning("upstart supervision requested, but UPSTART_JOB not found!")
			v.mode = supervisedNo
			break
		}
		log.Notice("supervised by upstart, will stop to signal readiness.")
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		_ = os.Unsetenv("UPSTART_JOB")
	case supervisedSystemd:
		if os.Getenv("NOTIFY_SOCKET") == "" {
			log.Warning("systemd supervision requested or auto-detected, but Redis is compiled without libsystemd support or " +
				"NOTIFY_SOCKET not found!")
			v.mode = supervisedNo
			break
		}
		log.Notice("Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and " +
			"TimeoutStopSec in your service unit.")
		v.Status("Redis is loading...", "")
	}
	return v
}

// Active reports whether there is a supervisor.
func (v *Supervisor) Active() bool { return v != nil && v.mode != supervisedNo }

// Ready reports to the supervisor that the server accepts clients.
func (v *Supervisor) Ready() { v.Status("Ready to accept connections", "READY=1\n") }

// Stopping reports to the supervisor that a shutdown has begun.
func (v *Supervisor) Stopping() { v.Tell("STOPPING=1\n") }

// Status reports to the supervisor what the server does now. more are further lines of the message.
func (v *Supervisor) Status(text, more string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = text
	v.Tell("STATUS=" + text + "\n" + more)
}

// Underway shows the progress of a long task. An empty text ends the task and shows the last status again. moves means
// that there was progress since the last call: systemd then waits for another stallTime.
func (v *Supervisor) Underway(text string, moves bool) {
	if !v.Active() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if text == "" {
		text = v.status
	}
	text = "STATUS=" + text + "\n"
	if moves {
		text += fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\n", stallTime.Microseconds())
	}
	v.Tell(text)
}

// stallTime is how long a load or a last save may run without progress before systemd kills the process.
const stallTime = time.Minute

// Tell sends lines of systemd's notification protocol: STATUS=text, READY=1, STOPPING=1.
func (v *Supervisor) Tell(state string) {
	if v == nil || v.mode != supervisedSystemd {
		return
	}
	if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		v.log.Warning("systemd supervision error: sd_notify: %s", reason.Of(err))
	}
}

// notify sends state as one datagram. A path that begins with @ is an abstract socket.
func notify(path, state string) error {
	if path == "" {
		return errors.New("NOTIFY_SOCKET not found!")
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
