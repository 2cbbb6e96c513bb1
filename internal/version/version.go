// Package version identifies this program: its version, the Redis version that it follows, and its build.
//
// Owner: its caller; nothing here changes.
package version

import (
	"fmt"
	"runtime/debug"
	"strconv"
)

// Spindle is spindle's own version. The Makefile reads it from this line.
const Spindle = "0.1.0"

// Redis is the version whose behaviour, texts and file formats spindle follows.
const Redis = "7.4.1"

// Revision returns the commit from which the program was built, as eight hex digits. modified reports whether files had
// been changed since that commit.
func Revision() (sha string, modified bool) {
	sha = "00000000"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return sha, false
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 8:
			sha = s.Value[:8]
		case s.Key == "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return sha, modified
}

// Build returns a hash of the program's modules and build settings, in hex. It differs between builds.
func Build() string {
	h := uint64(14695981039346656037) // FNV-1a
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, c := range []byte(info.String()) {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return strconv.FormatUint(h, 16)
}

// Commit returns the Revision as --version and the log show it: the commit, and 1 if files had been changed.
func Commit() (sha string, modified int) {
	sha, dirty := Revision()
	if dirty {
		modified = 1
	}
	return sha, modified
}

// Text returns the output of --version: a line that tools read, and a line with spindle's version.
func Text() string {
	sha, modified := Commit()
	return fmt.Sprintf("Redis server v=%s sha=%s:%d malloc=spindle bits=64 build=%s\nspindle v=%s\n",
		Redis, sha, modified, Build(), Spindle)
}
