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

// serverCertificate is a certificate of this test run's own, for 127.0.0.1.
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

// serverTLS is what the reactor is given, with one certificate and no questions to clients.
func serverTLS() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{serverCertificate()}, MinVersion: tls.VersionTLS10, DynamicRecordSizingDisabled: true,
	}
}

// secured has serveHandler listen under TLS, and dial speak it.
var secured bool

// eachLink runs f as a subtest of each backend, bare and under TLS, and bare with batches that are away.
func eachLink(t *testing.T, f func(t *testing.T, b Backend)) { onEachLink(t, eachBackend, f) }

// eachLinkAtOnce is eachLink for a test that waits: backends are parallel.
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

// clientTLS is a client that does not ask whose certificate the server's is.
func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
