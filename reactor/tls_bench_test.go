package reactor

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"testing"
	"time"

	"spindle/tests/testkit/authority"
)

// BenchmarkLink is one client that sends and waits, bare and under TLS, with 16 requests at a time and with one. Both
// ends are in this process. Watch allocs/op: 0 for a bare link.
// Compare two commits: go test -run=- -bench=Link -count=10 ./reactor | benchstat -
func BenchmarkLink(b *testing.B) {
	defer func() { secured = false }()
	for _, under := range []string{"bare", "TLS"} {
		for _, requests := range []int{1, 16} {
			b.Run(under+"/"+map[int]string{1: "one", 16: "sixteen"}[requests], func(b *testing.B) {
				secured = under == "TLS"
				_, addr := serveHandler(b, newTestHandler(), Options{})
				p := dial(b, addr)
				p.SetDeadline(time.Time{})
				var ask []byte
				for range requests {
					ask = append(ask, command("PING")...)
				}
				got := make([]byte, 5*requests)
				b.ReportAllocs()
				for b.Loop() {
					p.Write(ask)
					if _, err := io.ReadFull(p.r, got); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHandshake connects and closes under TLS 1.3, by the kind of the server's key. Both ends are in this process.
// The server's share is more than half of an RSA handshake, and less than half of an ECDSA one.
func BenchmarkHandshake(b *testing.B) {
	defer func() { secured = false }()
	for _, kind := range []string{"ECDSA-P256", "RSA-2048"} {
		b.Run(kind, func(b *testing.B) {
			secured = true
			var key crypto.Signer
			var err error
			if kind == "RSA-2048" {
				key, err = rsa.GenerateKey(rand.Reader, 2048)
			} else {
				key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			}
			if err != nil {
				b.Fatal(err)
			}
			made, err := authority.SelfSigned(&x509.Certificate{}, key)
			if err != nil {
				b.Fatal(err)
			}
			r, addr := serveHandler(b, newTestHandler(), Options{})
			r.SetTLS(&tls.Config{Certificates: []tls.Certificate{made}})
			for b.Loop() {
				dial(b, addr).Close()
			}
		})
	}
}
