package sentinel

import (
	"fmt"
	"slices"

	"spindle/internal/logging"
)

// A job is one run of an operator's script, with its retries.
type job struct {
	id      int
	argv    []string
	pid     int
	running bool
	tries   int
	at      int64 // running: when it started; waiting: its earliest start
	killed  bool
}

const (
	scriptsMax   = 256 // waiting or running
	scriptsAtOne = 16  // running at the same time
	scriptTries  = 10
)

// schedule queues a run. If too many wait, it drops the oldest one that is not running.
func (m *Machine) schedule(argv ...string) {
	m.lastJob++
	m.scripts = append(m.scripts, &job{id: m.lastJob, argv: argv})
	if len(m.scripts) <= scriptsMax {
		return
	}
	if oldest := slices.IndexFunc(m.scripts, func(j *job) bool { return !j.running }); oldest >= 0 {
		m.scripts = slices.Delete(m.scripts, oldest, oldest+1)
	}
}

// runScripts starts the scripts that are due, the oldest first.
func (m *Machine) runScripts() {
	for _, j := range m.scripts {
		if m.running >= scriptsAtOne {
			return
		}
		if j.running || j.at > m.now {
			continue
		}
		j.running, j.at, j.killed = true, m.now, false
		j.tries++
		m.running++
		m.out.StartScript(j.id, j.argv)
	}
}

// killScripts kills scripts that run for too long.
func (m *Machine) killScripts() {
	for _, j := range m.scripts {
		if j.running && !j.killed && m.now-j.at > m.scriptMax {
			j.killed = true
			m.say(logging.LevelWarning, "-script-timeout", nil, fmt.Sprintf("%s %d", j.argv[0], j.pid))
			m.out.KillScript(j.id)
		}
	}
}

// ScriptStarted reports the process id of a job.
func (m *Machine) ScriptStarted(id, pid int, nowMs int64) {
	m.now = nowMs
	if j := m.job(id); j != nil {
		j.pid = pid
		m.say(logging.LevelDebug, "+script-child", nil, fmt.Sprint(pid))
	}
}

// ScriptEnded reports how a run ended: with an exit code, or by a signal if signal is not 0. After a signal or code 1
// the script is run again, at most scriptTries times in all. The delay doubles each time.
func (m *Machine) ScriptEnded(id, code, signal int, nowMs int64) {
	m.now = nowMs
	j := m.job(id)
	if j == nil || !j.running {
		return
	}
	m.say(logging.LevelDebug, "-script-child", nil, fmt.Sprintf("%d %d %d", j.pid, code, signal))
	m.running--
	if (signal != 0 || code == 1) && j.tries < scriptTries {
		j.running, j.pid = false, 0
		j.at = m.now + m.scriptRetry<<(j.tries-1)
		return
	}
	if signal != 0 || code != 0 {
		m.say(logging.LevelWarning, "-script-error", nil, fmt.Sprintf("%s %d %d", j.argv[0], signal, code))
	}
	m.scripts = slices.DeleteFunc(m.scripts, func(x *job) bool { return x == j })
}

func (m *Machine) job(id int) *job {
	for _, j := range m.scripts {
		if j.id == id {
			return j
		}
	}
	return nil
}

func (m *Machine) warn(format string, args ...any) {
	m.out.Log(logging.LevelWarning, fmt.Sprintf(format, args...))
}
