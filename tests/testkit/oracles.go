package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// These are the names of the kinds of server that tests use. Debian's redis-server, which `make deps` installs, is 7.0.
const (
	Ours    = "spindle"
	Redis70 = "redis-server"
	Redis74 = "redis-server 7.4" // REDIS_SRC names the folder of its built source
	Redis8  = "redis-server 8"   // REDIS_8 names the program
	Valkey9 = "valkey-server 9"  // VALKEY_9 names the program; else valkey-server on the PATH
)

// Kind returns the Spec that starts a server of the named kind. It skips the test if this host has none.
func Kind(t testing.TB, name string) Spec {
	t.Helper()
	spec, why := kind(name)
	if why != "" {
		t.Skipf("no %s: %s", name, why)
	}
	return spec
}

// Has reports whether this host has a server of the named kind.
func Has(name string) bool {
	_, why := kind(name)
	return why == ""
}

func kind(name string) (spec Spec, why string) {
	switch name {
	case Ours:
		return Spec{}, ""
	case Redis70:
		return Spec{Redis: true}, ""
	case Redis74:
		if source := os.Getenv("REDIS_SRC"); source != "" {
			return Spec{Redis: true, Program: filepath.Join(source, "src", "redis-server")}, ""
		}
		return spec, "REDIS_SRC may name the folder of a built 7.4"
	case Redis8:
		if program := os.Getenv("REDIS_8"); program != "" {
			return Spec{Redis: true, Program: program}, ""
		}
		return spec, "REDIS_8 may name the program"
	case Valkey9:
		program := os.Getenv("VALKEY_9")
		if program == "" {
			program, _ = exec.LookPath("valkey-server")
		}
		if program != "" {
			return Spec{Redis: true, Program: program}, ""
		}
		return spec, "VALKEY_9 may name the program"
	}
	return spec, "unknown kind"
}
