package proxy

import (
	"crypto/tls"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestNewCertificates: a proxy is under TLS on both sides. New connections use the certificates of a CONFIG SET, and
// those of changed files if tls-auto-reload-interval says so. A CONFIG SET with wrong files is refused and changes
// nothing. The proxy's connections to shards, and its questions about the topology, trust the new authority only.
func TestNewCertificates(t *testing.T) {
	t.Parallel()
	certs, others := testkit.NewCertificates(t), testkit.NewCertificates(t)
	inside, plain, port := testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	shard := testkit.Start(t, append(certs.Directives(inside), "--cluster-enabled", "yes", "--cluster-port",
		strconv.Itoa(testkit.FreePort(t)))...)
	shard.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	p := testkit.Launch(t, testkit.Spec{Bare: true, Port: plain, Args: append([]string{"--proxy", "--port",
		strconv.Itoa(plain), "--bind", "127.0.0.1", "--proxy-cluster", fmt.Sprint("127.0.0.1:", inside), "--proxy-shard-tls",
		"yes", "--tls-auth-clients", "no", "--proxy-refresh-interval", "100"}, certs.Directives(port)...)})
	dial := func() *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", port), certs.Client(t, false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	served := func() *big.Int {
		t.Helper()
		return dial().ConnectionState().PeerCertificates[0].SerialNumber
	}
	kept := respclient.New(dial())
	kept.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))

	fresh := certs.Issue(t, "server").SerialNumber
	p.Do("CONFIG", "SET", "tls-cert-file", certs.File("server.crt"), "tls-key-file", certs.File("server.key"))
	if served().Cmp(fresh) != 0 {
		t.Error("the certificate of a CONFIG SET is not served")
	}
	if err := os.WriteFile(certs.File("wrong.key"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := p.Ask("CONFIG", "SET", "tls-key-file", certs.File("wrong.key")); err != nil ||
		!strings.Contains(v.Text, "Unable to update TLS configuration. Check server logs.") {
		t.Errorf("a wrong key: %v %v", v, err)
	}
	if served().Cmp(fresh) != 0 || p.Do("CONFIG", "GET", "tls-key-file").Elems[1].Text != certs.File("server.key") {
		t.Error("a CONFIG SET that was refused has changed something")
	}
	p.Do("CONFIG", "SET", "tls-auto-reload-interval", 1)
	fresh = certs.Issue(t, "server").SerialNumber
	patience := testkit.Slowly(30 * time.Second)
	testkit.Until(t, patience, "changed files are used", func() error { return testkit.Equal(served().Cmp(fresh), 0) })
	if v, err := kept.Do("SET", "k", "v"); err != nil || v.Text != "OK" {
		t.Errorf("a connection from before: %v %v", v, err)
	}

	p.Do("CONFIG", "SET", "tls-ca-cert-file", others.File("ca.crt"))
	shard.Do("CLIENT", "KILL", "TYPE", "normal")
	testkit.Until(t, patience, "the proxy does not trust the shard", func() error {
		v, err := p.Ask("GET", "k")
		return testkit.Equal(err == nil && v.Err() != nil, true)
	})
	p.AwaitLog(patience, "certificate signed by unknown authority")
	asked := func() string { return shard.Info("commandstats")["cmdstat_cluster|shards"] }
	before := asked()
	shard.Do("CONFIG", "SET", "tls-cert-file", others.File("server.crt"), "tls-key-file", others.File("server.key"))
	testkit.Until(t, patience, "the proxy trusts the shard", func() error {
		v, err := p.Ask("GET", "k")
		return testkit.Equal(err == nil && v.Text == "v", true)
	})
	testkit.Until(t, patience, "the proxy asks for the topology", func() error {
		return testkit.Equal(asked() != before, true)
	})
}
