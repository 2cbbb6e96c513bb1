package dashboard

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestNewCertificate: a dashboard with HTTPS serves a certificate whose file has changed, if tls-auto-reload-interval
// says so.
func TestNewCertificate(t *testing.T) {
	t.Parallel()
	certs, port := testkit.NewCertificates(t), testkit.FreePort(t)
	first := certs.Issue(t, "server").SerialNumber.String()
	testkit.Launch(t, testkit.Spec{Bare: true, NoWait: true, Port: port, Args: []string{"--dashboard",
		"--dashboard-address", fmt.Sprint("127.0.0.1:", port), "--store", "folder:" + testkit.MemoryDir(t),
		"--dashboard-tls", "yes", "--tls-cert-file", certs.File("server.crt"), "--tls-key-file", certs.File("server.key"),
		"--tls-auth-clients", "no", "--tls-auto-reload-interval", "1"}})
	serves := func(serial string) func() error {
		return func() error {
			conn, err := tls.Dial("tcp", fmt.Sprint("127.0.0.1:", port), certs.Client(t, false))
			if err != nil {
				return err
			}
			defer conn.Close()
			return testkit.Equal(conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), serial)
		}
	}
	patience := testkit.Slowly(30 * time.Second)
	testkit.Until(t, patience, "the dashboard serves", serves(first))
	testkit.Until(t, patience, "the changed file is used", serves(certs.Issue(t, "server").SerialNumber.String()))
}
