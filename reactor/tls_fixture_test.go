package reactor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"testing"

	"spindle/tests/testkit/authority"
)

// serverCertificate is a certificate for 127.0.0.1, made for this test run.
var serverCertificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	made, err := authority.SelfSigned(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key)
	if err != nil {
		panic(err)
	}
	return made
})

// serverTLS returns the reactor's configuration, with one certificate and no demand for clients' certificates.
func serverTLS() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{serverCertificate()}, MinVersion: tls.VersionTLS10, DynamicRecordSizingDisabled: true,
	}
}

// secured makes serveHandler listen under TLS, and dial connect under TLS.
var secured bool

// eachLink runs f as a subtest of each backend: bare, under TLS, and bare with batches that are away.
func eachLink(t *testing.T, f func(t *testing.T, b Backend)) { onEachLink(t, eachBackend, f) }

// eachLinkAtOnce is eachLink for a test that waits. Its backends run in parallel.
func eachLinkAtOnce(t *testing.T, f func(t *testing.T, b Backend)) {
	onEachLink(t, eachBackendAtOnce, f)
}

func onEachLink(t *testing.T, each func(*testing.T, func(*testing.T, Backend)), f func(*testing.T, Backend)) {
	each(t, f)
	secured = true
	defer func() { secured = false }()
	t.Run("TLS", func(t *testing.T) { each(t, f) })
	secured, apart = false, true
	defer func() { apart = false }()
	t.Run("away", func(t *testing.T) { each(t, f) })
	shuffled = true
	defer func() { shuffled = false }()
	t.Run("moving", func(t *testing.T) { each(t, movable(f)) })
	secured, apart = true, false
	t.Run("moving TLS", func(t *testing.T) { each(t, movable(f)) })
}

// movable is f for the backends whose connections can move.
func movable(f func(*testing.T, Backend)) func(*testing.T, Backend) {
	return func(t *testing.T, b Backend) {
		if b == Gnet || b == Epoll {
			f(t, b)
		}
	}
}

// secure puts TLS between p and the server.
func (p *peer) secure() {
	p.t.Helper()
	c := tls.Client(p.Conn, clientTLS())
	if err := c.Handshake(); err != nil {
		p.t.Fatal(err)
	}
	p.Conn = c
	p.r.Reset(c)
}

// clientTLS returns the configuration of a client that does not verify the server's certificate.
func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
