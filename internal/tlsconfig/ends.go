package tlsconfig

import (
	"crypto/x509"
	"encoding/hex"
	"strings"
	"time"

	"spindle/internal/info"
)

// Ends are the certificates in use, so that monitoring can see when they expire.
type Ends struct {
	Server, Client *x509.Certificate // Client is the certificate of tls-client-cert-file; nil: none
	Authority      *x509.Certificate // the authority that expires first
}

// earlier returns the certificate that expires first. a may be nil.
func earlier(a, b *x509.Certificate) *x509.Certificate {
	if a == nil || b.NotAfter.Before(a.NotAfter) {
		return b
	}
	return a
}

// Ends returns the certificates in use. Without TLS there are none. Any goroutine.
func (c *Current) Ends() Ends {
	if e := c.ends.Load(); e != nil {
		return *e
	}
	return Ends{}
}

// Each calls f for each certificate in use, with its name in INFO and the seconds until it expires. 0 means that it has
// expired.
func (e Ends) Each(now time.Time, f func(name string, left int64)) {
	for _, row := range []struct {
		name string
		of   *x509.Certificate
	}{{"server", e.Server}, {"client", e.Client}, {"ca", e.Authority}} {
		if row.of != nil {
			f(row.name, left(row.of, now))
		}
	}
}

func left(c *x509.Certificate, now time.Time) int64 {
	if c == nil {
		return 0
	}
	return max(0, int64(c.NotAfter.Sub(now)/time.Second))
}

// Section returns INFO tls, as in Valkey 9.1. A certificate that does not exist has the serial none.
func (c *Current) Section() info.Section {
	s := info.Section{Name: "TLS"}
	add := func(name string, of func() *x509.Certificate) {
		s.Fields = append(s.Fields,
			info.Text("tls_"+name+"_cert_serial", func() string { return serial(of()) }),
			info.Int("tls_"+name+"_cert_expires_in_seconds", func() int64 { return left(of(), time.Now()) }))
	}
	add("server", func() *x509.Certificate { return c.Ends().Server })
	add("client", func() *x509.Certificate { return c.Ends().Client })
	add("ca", func() *x509.Certificate { return c.Ends().Authority })
	return s
}

func serial(c *x509.Certificate) string {
	if c == nil {
		return "none"
	}
	return strings.ToUpper(hex.EncodeToString(c.SerialNumber.Bytes()))
}
