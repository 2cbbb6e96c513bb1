package server

import (
	"errors"
	"slices"
	"strings"

	"spindle/internal/logging"
	"spindle/internal/setting"
)

// An unsupported directive asks for a feature that this version does not have, and without which the server is not the
// one that was asked for.
type unsupported struct {
	directive string
	without   string // what the server does in place of it
	refusal   string // CONFIG SET's answer; empty is the row's own reason
}

// unsupportedDirectives is the one place that knows them. When a feature lands, its lines go from here.
var unsupportedDirectives = []unsupported{
	{"tls-dh-params-file", "keys are agreed on by elliptic curves alone", ""},
}

// tlsRefusal is what clients of a server without certificates know.
const tlsRefusal = "Unable to update TLS configuration. Check server logs."

// onUnsupported is what becomes of a start that asks for an unsupported directive.
type onUnsupported int

const (
	refuseUnsupported onUnsupported = iota
	warnUnsupported                 // the server starts without the feature, and the log says what that means
)

// isAsked says whether the configuration asks for the feature: by another value than the default.
func (u unsupported) isAsked(registry *setting.Registry, config *Config) bool {
	row := registry.Lookup(u.directive)
	return row != nil && !row.IsDefault()
}

// asked are the unsupported directives that the configuration asks for.
func asked(registry *setting.Registry, config *Config) []unsupported {
	return slices.DeleteFunc(slices.Clone(unsupportedDirectives), func(u unsupported) bool {
		return !u.isAsked(registry, config)
	})
}

// refuseUnsupported is the *ConfigError of a configuration that asks for unsupported directives, unless it says to
// start without them. It names each of them, and the line that the first stands in.
func (in *instance) refuseUnsupported() error {
	found := asked(in.registry, in.config)
	if len(found) == 0 || in.own.Unsupported.Get() == warnUnsupported {
		return nil
	}
	if in.checking != nil {
		for _, u := range found {
			line := in.config.lines[u.directive]
			line.Reason = "not in this version: " + u.without + " (unsupported-directives warn starts all the same)"
			in.checking.note(line)
		}
		return nil
	}
	refusal := in.config.lines[found[0].directive]
	var reason strings.Builder
	for _, u := range found {
		reason.WriteString(u.directive + ": not in this version: " + u.without + ".\n")
	}
	reason.WriteString("To start all the same: unsupported-directives warn, or --unsupported-directives warn as an " +
		"option.")
	refusal.Reason = reason.String()
	return &refusal
}

// joinUnsupported has CONFIG SET refuse what it would have no effect to set.
func (in *instance) joinUnsupported() {
	for _, u := range unsupportedDirectives {
		row := in.registry.Lookup(u.directive)
		if row == nil || row.Flags&setting.Immutable != 0 {
			continue
		}
		in.registry.OnChange(func() error {
			if row.IsDefault() {
				return nil
			}
			if u.refusal == "" {
				return errors.New(row.Why())
			}
			in.log.Warning("%s: %s", row.Name, row.Why())
			return errors.New(u.refusal)
		}, row.Name)
	}
}

// LogIdle names, once, the settings that were given another value than their default and do nothing in this version.
// Unsupported directives get a line each, which says what the server does without them.
func LogIdle(log *logging.Logger, registry *setting.Registry, config *Config) {
	idle := append(registry.Idle(), config.Ignored...)
	for _, u := range asked(registry, config) {
		log.Warning("WARNING: %s has no effect in this version: %s", u.directive, u.without)
		idle = slices.DeleteFunc(idle, func(name string) bool { return name == u.directive })
	}
	if len(idle) > 0 {
		log.Warning("WARNING: accepted, but without effect in this version: %s", strings.Join(idle, ", "))
	}
}
