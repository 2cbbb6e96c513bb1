package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"
)

// TestSign: a certificate is valid only under the authority that signed it, also when it is read from files.
func TestSign(t *testing.T) {
	ca, err := New("ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := New("ca")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made, err := Sign(ca, &x509.Certificate{DNSNames: []string{"a.test"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, secret := filepath.Join(t.TempDir(), "x.crt"), filepath.Join(t.TempDir(), "x.key")
	if err := Write(made, cert, secret); err != nil {
		t.Fatal(err)
	}
	read, err := tls.LoadX509KeyPair(cert, secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by tls.Certificate
		ok bool
	}{{ca, true}, {other, false}} {
		roots := x509.NewCertPool()
		roots.AddCert(c.by.Leaf)
		if _, err := read.Leaf.Verify(x509.VerifyOptions{DNSName: "a.test", Roots: roots}); err == nil != c.ok {
			t.Errorf("verified: %v", err)
		}
	}
}
