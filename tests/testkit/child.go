package testkit

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

var (
	startsOnce sync.Once
	starts     = make(chan func())
)

// startChild starts cmd so that cmd dies with this process.
//
// The kernel sends the death signal when the thread that started the child ends. So a single thread, which lives as
// long as the process, starts all children.
func startChild(cmd *exec.Cmd) error {
	startsOnce.Do(func() {
		go func() {
			runtime.LockOSThread()
			for start := range starts {
				start()
			}
		}()
	})
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	starts <- func() { done <- cmd.Start() }
	return <-done
}
