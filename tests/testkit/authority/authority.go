// Package authority makes certificates that are valid for an hour, for tests and the bench.
//
// Owner: its caller; the package has no state.
// Never: writes any file other than those that Write names, or makes a certificate for use beyond this run.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"time"
)

// New returns a certificate authority called name. Its key is ECDSA P-256.
func New(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{IsCA: true, BasicConstraintsValid: true}
	template.Subject.CommonName = name
	return SelfSigned(template, key)
}

// SelfSigned makes a certificate for key, signed by that key.
//
// SelfSigned and Sign set the serial number. The certificate is valid for an hour, unless the template sets its end.
// Leaf is the parsed certificate.
func SelfSigned(template *x509.Certificate, key crypto.Signer) (tls.Certificate, error) {
	return sign(template, template, key, key)
}

// Sign makes a certificate for key, signed by an authority.
func Sign(by tls.Certificate, template *x509.Certificate, key crypto.Signer) (tls.Certificate, error) {
	return sign(template, by.Leaf, key, by.PrivateKey)
}

func sign(template, parent *x509.Certificate, key crypto.Signer, by crypto.PrivateKey) (tls.Certificate, error) {
	now := time.Now()
	template.SerialNumber = big.NewInt(now.UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// Write writes a certificate and its key to two files, as PEM.
func Write(c tls.Certificate, certificate, key string) error {
	secret, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
