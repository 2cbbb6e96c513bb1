package sentinel

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spindle/engine/command"
	"spindle/internal/clock"
	"spindle/internal/config"
	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
)

// defaultPort is the port of a Sentinel without another setting.
const defaultPort = "26379"

// Defaults gives settings the default values of a Sentinel.
func Defaults(r *setting.Registry) error {
	for name, value := range map[string]string{"port": defaultPort, "protected-mode": "no"} {
		if err := r.Lookup(name).Set([]string{value}, setting.FromFile); err != nil {
			return err
		}
	}
	r.Lookup("save").Flags &^= setting.AlwaysFile // there is nothing to save
	return nil
}

// CheckFile refuses a start with a configuration file that cannot keep the state. The log has the reason.
func CheckFile(file string, log *logging.Logger) error {
	if file == "" {
		log.Warning("Sentinel needs config file on disk to save state. Exiting...")
		return config.ErrLogged
	}
	for _, path := range []string{file, filepath.Dir(file)} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			log.Warning("Sentinel config file %s is not writable: %s. Exiting...", path, reason.Of(err))
			return config.ErrLogged
		}
	}
	return nil
}

// Families returns the rows of all families that a Sentinel has, and the Sentinel's own.
func (s *Commands) Families(all []command.Family) []command.Family {
	family := s.Family()
	for i := range all {
		all[i].Rows = slices.DeleteFunc(slices.Clone(all[i].Rows), func(s command.Spec) bool {
			return s.Flags&(command.Sentinel|command.OnlySentinel) == 0 ||
				slices.ContainsFunc(family.Rows, func(mine command.Spec) bool { return mine.Name == s.Name })
		})
		for j := range all[i].Rows {
			row := &all[i].Rows[j]
			row.Subs = slices.DeleteFunc(slices.Clone(row.Subs), func(s command.Spec) bool {
				return s.Flags&command.Sentinel == 0
			})
		}
	}
	return append(all, family)
}

// Sections returns the names of the sections in a Sentinel's INFO.
func Sections() []string { return []string{"Server", "Clients", "Stats", "CPU", "Sentinel"} }

// ReadLines reads the lines of the configuration file.
//
// Errors: an invalid line.
func (n *Net) ReadLines(lines []config.Line) (err error) {
	directives := make([]Directive, len(lines))
	for i, line := range lines {
		directives[i] = line.Words
	}
	n.Do(func() { err = n.machine.Configure(directives) })
	if wrong := (*DirectiveError)(nil); errors.As(err, &wrong) {
		return lines[wrong.Index].Refuse(err)
	}
	return err
}

// Run runs the Sentinel until stop is closed.
func (n *Net) Run(stop <-chan struct{}) {
	for {
		// The pause varies, so that Sentinels that started together do not start elections together.
		timer := time.NewTimer(time.Second / time.Duration(10+rand.IntN(10)))
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		n.Do(func() { n.machine.Tick(clock.Steady()) })
	}
}
