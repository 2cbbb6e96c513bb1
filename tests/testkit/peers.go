package testkit

import (
	"os/exec"
	"strings"
	"testing"
)

// A Peer is a redis-server or Valkey with which data is exchanged.
type Peer struct {
	Program string
	Name    string // "redis 8.0.6"
	// RDBVersion is the newest RDB version that the peer reads. A spindle that writes for the peer has it as
	// rdb-write-version.
	RDBVersion int
}

// Peers returns redis-server from the PATH, and the other servers of oracles.go that this host has.
func Peers(t testing.TB) (found []Peer) {
	programs := []string{Program(t, "redis-server")}
	for _, name := range []string{Redis74, Redis8, Valkey9} {
		if spec, why := kind(name); why == "" {
			programs = append(programs, spec.Program)
		} else {
			t.Logf("not exchanged with %s: %s", name, why)
		}
	}
	for _, program := range programs {
		out, err := exec.Command(program, "--version").Output()
		words := strings.Fields(string(out)) // "Redis server v=7.0.15 …", or "Valkey server …"
		if err != nil || len(words) < 3 {
			t.Fatalf("%s --version: %q, %v", program, out, err)
		}
		p := Peer{Program: program, Name: strings.ToLower(words[0]) + " " + strings.TrimPrefix(words[2], "v=")}
		switch family, number, _ := strings.Cut(p.Name, " "); {
		case family == "valkey" && strings.HasPrefix(number, "9."):
			p.RDBVersion = 80
		case strings.HasPrefix(number, "7.0."):
			p.RDBVersion = 10
		case strings.HasPrefix(number, "7.2."), family == "valkey":
			p.RDBVersion = 11
		default:
			p.RDBVersion = 12
		}
		found = append(found, p)
	}
	return found
}

// FieldDeadlines reports whether the peer supports deadlines of hash fields.
func (p Peer) FieldDeadlines() bool { return p.RDBVersion >= 12 }

// Valkey reports whether the peer is a Valkey 9. Its digests leave out the deadlines of fields.
func (p Peer) Valkey() bool { return p.RDBVersion == 80 }
