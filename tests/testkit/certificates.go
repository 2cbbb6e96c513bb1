package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"spindle/tests/testkit/authority"
)

// Certificates has an authority's certificate, ca.crt, and two certificates that it has signed, server and client.
// Their files exist until the test ends.
type Certificates struct {
	dir  string
	ca   tls.Certificate
	pool *x509.CertPool
}

// NewCertificates makes the certificates in a new folder.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	c := &Certificates{dir: t.TempDir(), pool: x509.NewCertPool()}
	var err error
	if c.ca, err = authority.New("authority"); err != nil {
		t.Fatal(err)
	}
	c.write(t, "ca", c.ca)
	c.pool.AddCert(c.ca.Leaf)
	c.Issue(t, "server")
	c.Issue(t, "client")
	return c
}

// Issue writes NAME.crt and NAME.key. Each call makes a new pair.
func (c *Certificates) Issue(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	return c.IssueAs(t, name, &x509.Certificate{Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// IssueAs is Issue, with a certificate made from template.
func (c *Certificates) IssueAs(t testing.TB, name string, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made, err := authority.Sign(c.ca, template, key)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, name, made)
	return made.Leaf
}

func (c *Certificates) write(t testing.TB, name string, made tls.Certificate) {
	t.Helper()
	if err := authority.Write(made, c.File(name+".crt"), c.File(name+".key")); err != nil {
		t.Fatal(err)
	}
}

func (c *Certificates) File(name string) string { return filepath.Join(c.dir, name) }

// Directives returns the directives of a server with TLS on port.
func (c *Certificates) Directives(port int) []string {
	return []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", c.File("server.crt"), "--tls-key-file", c.File("server.key"),
		"--tls-ca-cert-file", c.File("ca.crt"),
	}
}

// Following returns the Directives of a replica that connects to its primary by TLS, with the client's certificate.
func (c *Certificates) Following(port int) []string {
	return append(c.Directives(port), "--tls-replication", "yes",
		"--tls-client-cert-file", c.File("client.crt"), "--tls-client-key-file", c.File("client.key"))
}

// Client returns a client's TLS configuration, with a certificate if certified is true.
func (c *Certificates) Client(t testing.TB, certified bool) *tls.Config {
	t.Helper()
	if !certified {
		return &tls.Config{RootCAs: c.pool}
	}
	return c.ClientAs(t, "client")
}

// ClientAs is Client with the certificate in NAME.crt.
func (c *Certificates) ClientAs(t testing.TB, name string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.File(name+".crt"), c.File(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: c.pool, Certificates: []tls.Certificate{pair}}
}
