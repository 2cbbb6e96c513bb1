package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Certificates are an authority's, ca.crt, and two that it has signed, server and client, in files of this run's own.
type Certificates struct {
	dir  string
	ca   *x509.Certificate
	key  crypto.Signer
	pool *x509.CertPool
}

// NewCertificates makes them in a new folder.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	c := &Certificates{dir: t.TempDir(), pool: x509.NewCertPool()}
	c.key = c.newKey(t)
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true}
	c.ca = c.sign(t, "ca", template, template, c.key)
	c.pool.AddCert(c.ca)
	c.Issue(t, "server")
	c.Issue(t, "client")
	return c
}

func (c *Certificates) newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Issue writes NAME.crt and NAME.key, another pair each time.
func (c *Certificates) Issue(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	return c.sign(t, name, template, c.ca, c.newKey(t))
}

func (c *Certificates) sign(t testing.TB, name string, template, parent *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(c.File(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// File is the path of one.
func (c *Certificates) File(name string) string { return filepath.Join(c.dir, name) }

// Directives serve TLS on port.
func (c *Certificates) Directives(port int) []string {
	return []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", c.File("server.crt"), "--tls-key-file", c.File("server.key"),
		"--tls-ca-cert-file", c.File("ca.crt"),
	}
}

// Following are Directives of a server that also follows its primary by TLS, and shows it the client's certificate.
func (c *Certificates) Following(port int) []string {
	return append(c.Directives(port), "--tls-replication", "yes",
		"--tls-client-cert-file", c.File("client.crt"), "--tls-client-key-file", c.File("client.key"))
}

// Client is a client's configuration, with a certificate or without.
func (c *Certificates) Client(t testing.TB, certified bool) *tls.Config {
	t.Helper()
	config := &tls.Config{RootCAs: c.pool}
	if certified {
		pair, err := tls.LoadX509KeyPair(c.File("client.crt"), c.File("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
