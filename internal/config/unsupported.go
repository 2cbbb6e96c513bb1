package config

import (
	"errors"
	"slices"
	"strings"

	"spindle/internal/logging"
	"spindle/internal/setting"
)

// An unsupported directive asks for a feature that this version lacks. Without the feature the server would behave
// differently.
type unsupported struct {
	directive string
	without   string // the behaviour without the feature
}

// unsupportedDirectives lists the unsupported directives. A change that adds a feature removes its lines here.
var unsupportedDirectives = []unsupported{
	{"tls-dh-params-file", "keys are agreed on by elliptic curves alone"},
}

// asked returns the unsupported directives that differ from their default.
func asked(registry *setting.Registry) []unsupported {
	return slices.DeleteFunc(slices.Clone(unsupportedDirectives), func(u unsupported) bool {
		row := registry.Lookup(u.directive)
		return row == nil || row.IsDefault()
	})
}

// RefuseUnsupported returns the error for a configuration that asks for unsupported directives, or nil if it asks for
// none. The error names each of them, with the line of the first.
func RefuseUnsupported(registry *setting.Registry, config *Config) error {
	found := asked(registry)
	if len(found) == 0 {
		return nil
	}
	refusal := config.At(found[0].directive)
	var reason strings.Builder
	for _, u := range found {
		reason.WriteString(u.directive + ": not in this version: " + u.without + ".\n")
	}
	reason.WriteString("To start all the same: unsupported-directives warn, or --unsupported-directives warn as an " +
		"option.")
	refusal.Reason = reason.String()
	return &refusal
}

// NoteUnsupported notes each unsupported directive that the configuration asks for.
func (c *Check) NoteUnsupported(registry *setting.Registry, config *Config) {
	for _, u := range asked(registry) {
		line := config.At(u.directive)
		line.Reason = "not in this version: " + u.without + " (unsupported-directives warn starts all the same)"
		c.Note(line)
	}
}

// FollowUnsupported makes CONFIG SET refuse unsupported directives.
func FollowUnsupported(registry *setting.Registry) {
	for _, u := range unsupportedDirectives {
		row := registry.Lookup(u.directive)
		if row == nil || row.Flags&setting.Immutable != 0 {
			continue
		}
		registry.OnChange(func() error {
			if row.IsDefault() {
				return nil
			}
			return errors.New(row.Why())
		}, row.Name)
	}
}

// OfServers marks the rows that have an effect in servers and Sentinels alone.
func OfServers(rows []setting.Row) {
	for i := range rows {
		switch rows[i].Name {
		case "always-show-logo", "availability-zone", "tls-auth-clients-user", "tls-cluster", "tls-replication":
			rows[i].Flags |= setting.NoEffect
		}
	}
}

// RefuseLines returns the error for a line that servers and Sentinels alone can carry out, or nil if there is none.
func (c *Config) RefuseLines() error {
	lines := slices.Concat(c.Users, c.Renames, c.Modules)
	if len(lines) == 0 {
		return nil
	}
	return lines[0].Refuse(errors.New("Only a server or a Sentinel takes this directive"))
}

// LogIdle names, in one line, the settings without an effect whose value is not their default. An unsupported directive
// has its own line, which names the behaviour in place of the feature.
func LogIdle(log *logging.Logger, registry *setting.Registry, config *Config) {
	idle := append(registry.Idle(), config.Ignored...)
	for _, u := range asked(registry) {
		log.Warning("WARNING: %s has no effect in this version: %s", u.directive, u.without)
		idle = slices.DeleteFunc(idle, func(name string) bool { return name == u.directive })
	}
	if len(idle) > 0 {
		log.Warning("WARNING: accepted, but without effect in this version: %s", strings.Join(idle, ", "))
	}
}
