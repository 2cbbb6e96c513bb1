package topology

import (
	"debug/elf"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// A node is a server with a plain port for the tests and a TLS port for replicas.
type node struct {
	*testkit.Server
	tlsPort int
}

// programs returns the servers for the ends of a link: all kinds on this host that support TLS.
func programs(t *testing.T) map[string]testkit.Spec {
	all := map[string]testkit.Spec{}
	for _, name := range []string{testkit.Ours, testkit.Redis70, testkit.Redis74, testkit.Redis8, testkit.Valkey9} {
		if !testkit.Has(name) {
			continue
		}
		if spec := testkit.Kind(t, name); knowsTLS(spec.Program) {
			all[name] = spec
		} else {
			t.Logf("%s was built without TLS", name)
		}
	}
	return all
}

// knowsTLS returns false for a program that is linked without OpenSSL. The program may also be a script that starts
// another one.
func knowsTLS(program string) bool {
	if program == "" {
		return true
	}
	file, err := elf.Open(program)
	if err != nil {
		return true
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	return err != nil || slices.ContainsFunc(libraries,
		func(name string) bool { return strings.HasPrefix(name, "libssl") })
}

func secure(t *testing.T, certs *testkit.Certificates, spec testkit.Spec, args ...string) node {
	t.Helper()
	port := testkit.FreePort(t)
	spec.Args = append(append(certs.Following(port), "--repl-backlog-size", "64mb"), args...)
	return node{testkit.Launch(t, spec), port}
}

// followBy starts a replica of n that uses TLS, and returns when the link is up.
func followBy(t *testing.T, n node, certs *testkit.Certificates, spec testkit.Spec, args ...string) node {
	t.Helper()
	r := secure(t, certs, spec, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(n.tlsPort)}, args...)...)
	up(t, r.Server)
	return r
}

// TestTLSLinks: spindle and redis-server replicate each other by TLS, with each form of the full copy. After a cut they
// continue from the backlog. Replicas report their TLS port to the primary.
func TestTLSLinks(t *testing.T) {
	t.Parallel()
	for name, spec := range programs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certs := testkit.NewCertificates(t)
			primary := secure(t, certs, spec)
			primary.Do("DEBUG", "POPULATE", "1000", "key", "2000")
			w := startWriters(t, primary.Server, 1, uint64(time.Now().UnixNano()))
			var replicas []node
			for _, form := range []string{"yes", "no"} {
				primary.Do("CONFIG", "SET", "repl-diskless-sync", form)
				for other, by := range programs(t) {
					if other == "spindle" {
						replicas = append(replicas, followBy(t, primary, certs, by, "--repl-diskless-load", "swapdb"))
					} else if name != "spindle" {
						continue
					}
					replicas = append(replicas, followBy(t, primary, certs, by))
				}
			}
			full := primary.InfoInt("stats", "sync_full")
			for _, r := range replicas {
				w.await(100)
				r.Do("CLIENT", "KILL", "TYPE", "master")
				up(t, r.Server)
			}
			w.await(500)
			w.stop()
			for _, r := range replicas {
				equal(t, primary.Server, r.Server)
			}
			if n := primary.InfoInt("stats", "sync_full"); n != full {
				t.Errorf("%d full copies for the cuts", n-full)
			}
			told := primary.Info("replication")
			for i := range replicas {
				line := told["slave"+strconv.Itoa(i)]
				found := false
				for _, r := range replicas {
					found = found || strings.Contains(line, fmt.Sprintf("port=%d,", r.tlsPort))
				}
				if !found {
					t.Errorf("slave%d:%s names no TLS port", i, line)
				}
			}
			last := replicas[len(replicas)-1]
			if got, want := last.Info("replication")["master_port"], strconv.Itoa(primary.tlsPort); got != want {
				t.Errorf("master_port:%s, want %s", got, want)
			}
		})
	}
}

// TestTLSFailover: FAILOVER uses the TLS port, between spindle and redis-server. The replicas of the new primary follow
// it.
func TestTLSFailover(t *testing.T) {
	t.Parallel()
	all := programs(t)
	for _, first := range []string{"spindle", "redis-server"} {
		t.Run("from "+first, func(t *testing.T) {
			other := map[string]string{"spindle": "redis-server", "redis-server": "spindle"}[first]
			certs := testkit.NewCertificates(t)
			a := secure(t, certs, all[first])
			b := followBy(t, a, certs, all[other])
			below := followBy(t, b, certs, all["spindle"])
			a.Do("SET", "k", "v")
			nodes := []node{a, b}
			for round := range 2 {
				from, to := nodes[round], nodes[1-round]
				online(t, from.Server, round+1) // in the second round, below is one of them
				if v := from.Do("FAILOVER", "TO", "127.0.0.1", to.tlsPort, "TIMEOUT", "20000"); v.Text != "OK" {
					t.Fatalf("FAILOVER: %v", v)
				}
				to.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "role", "master")
				up(t, from.Server)
				to.Do("SET", "round", round)
				equal(t, to.Server, from.Server)
				// A server remembers two histories. So each replica follows this one before the next failover.
				history := to.Info("replication")["master_replid"]
				below.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_replid", history)
			}
			up(t, below.Server)
			equal(t, a.Server, below.Server)
			if n := a.InfoInt("stats", "sync_full") + b.InfoInt("stats", "sync_full"); n != 2 {
				t.Errorf("%d full synchronisations, want one for each of the first two links", n)
			}
		})
	}
}

// TestTLSLinkIsChecked: a replica refuses a primary with a certificate of another authority. A primary refuses a
// replica that has no certificate of the primary's authority. A corrected setting applies to the next attempt. Host
// names are not checked.
func TestTLSLinkIsChecked(t *testing.T) {
	certs, foreign := testkit.NewCertificates(t), testkit.NewCertificates(t)
	primary := secure(t, certs, testkit.Spec{})
	primary.Do("SET", "k", "v")
	r := secure(t, certs, testkit.Spec{}, "--tls-ca-cert-file", foreign.File("ca.crt"))
	r.Do("REPLICAOF", "localhost", primary.tlsPort) // the certificate has only the address
	r.AwaitLog(testkit.Slowly(20*time.Second), "Error condition on socket for SYNC: ")
	if !strings.Contains(r.Log(), "certificate signed by unknown authority") {
		t.Errorf("the log does not say why: %s", r.Log())
	}
	r.Do("CONFIG", "SET", "tls-ca-cert-file", certs.File("ca.crt"))
	up(t, r.Server)
	equal(t, primary.Server, r.Server)

	stranger := secure(t, certs, testkit.Spec{}, "--tls-client-cert-file", foreign.File("client.crt"),
		"--tls-client-key-file", foreign.File("client.key"),
		"--replicaof", "127.0.0.1 "+strconv.Itoa(primary.tlsPort))
	stranger.AwaitLog(testkit.Slowly(20*time.Second), "Failed to read response from the server: ")
	if stranger.Info("replication")["master_link_status"] != "down" ||
		primary.Info("replication")["connected_slaves"] != "1" {
		t.Error("a replica is fed although its certificate is unknown")
	}
	stranger.Do("CONFIG", "SET", "tls-client-cert-file", "", "tls-client-key-file", "") // it uses tls-cert-file then
	up(t, stranger.Server)

	// A primary's plain port does not understand TLS. Both ends wait for more bytes until the timeout.
	stranger.Do("CONFIG", "SET", "repl-timeout", "2")
	stranger.Do("REPLICAOF", "127.0.0.1", primary.Port)
	stranger.AwaitLog(testkit.Slowly(20*time.Second), "Timeout connecting to the MASTER...")
	stranger.Do("CONFIG", "SET", "tls-replication", "no")
	up(t, stranger.Server)
	if line := primary.Info("replication")["slave1"]; !strings.Contains(line, fmt.Sprintf("port=%d,", stranger.Port)) {
		t.Errorf("slave1:%s, want its port %d", line, stranger.Port)
	}
}

// TestTLSPrimaryThatStops: if a primary becomes silent during the handshake, the replica tries again after the time
// limit.
func TestTLSPrimaryThatStops(t *testing.T) {
	certs := testkit.NewCertificates(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // no process accepts: only the kernel does
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := secure(t, certs, testkit.Spec{}, "--repl-timeout", "2", "--replicaof",
		"127.0.0.1 "+strconv.Itoa(silent.Addr().(*net.TCPAddr).Port))
	r.AwaitLog(testkit.Slowly(20*time.Second), "Timeout connecting to the MASTER...")
	primary := secure(t, certs, testkit.Spec{})
	r.Do("REPLICAOF", "127.0.0.1", primary.tlsPort)
	up(t, r.Server)
}
