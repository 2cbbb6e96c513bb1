package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

var (
	errNoPeerCertificate = errors.New("the server shows no certificate")
	errPeerProtocol      = errors.New("the server speaks a version that tls-protocols leaves out")
)

// clientConfig returns the configuration for connections that this server opens. The other end must show a certificate
// that one of the configured authorities has signed. Its name is not checked, because primaries are known by addresses.
func clientConfig(shown tls.Certificate, authorities *x509.CertPool, versions, suites []uint16) *tls.Config {
	return &tls.Config{
		MinVersion: versions[0], MaxVersion: versions[len(versions)-1], CipherSuites: suites,
		DynamicRecordSizingDisabled: true,
		// The certificate is also shown to a server that names other authorities, because it may still know the one
		// that signed this certificate.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil },
		InsecureSkipVerify:   true, // crypto/tls would check the name; VerifyConnection checks the rest
		VerifyConnection: func(state tls.ConnectionState) error {
			if !slices.Contains(versions, state.Version) {
				return errPeerProtocol // crypto/tls cannot express a gap between versions
			}
			return verifyServer(state.PeerCertificates, authorities)
		},
	}
}

// verifyServer checks that chain leads from a server's certificate to one of authorities.
func verifyServer(chain []*x509.Certificate, authorities *x509.CertPool) error {
	if len(chain) == 0 {
		return errNoPeerCertificate
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}
