package scenarios

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"spindle/bench/process"
	"spindle/bench/report"
	"spindle/tests/testkit/authority"
)

// A keyKind is a kind of private key for a certificate.
type keyKind struct {
	name string
	make func() (crypto.Signer, error)
}

var keyKinds = []keyKind{
	{"ECDSA P-256", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
	{"RSA-2048", func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) }},
}

// handshakes is the number of handshakes that are measured for a figure.
const handshakes = 1000

// overTLS measures GET and SET over TLS, and the cost of a handshake.
func overTLS(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("tls", contenders,
		fmt.Sprintf("GET and SET of %s keys by `redis-benchmark --tls`, 50 connections, values of 32 bytes, a certificate "+
			"of ECDSA P-256. The CPU of a request is the server's over the whole of redis-benchmark's time, the 50 handshakes "+
			"included.", report.Thousands(float64(e.Keys))),
		fmt.Sprintf("Handshakes: %d connections one after the other by Go's crypto/tls, TLS 1.3 without resumption, each "+
			"with one PING.", handshakes))
	costs := drivenCosts{}
	greeting := map[string]report.Sample{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for _, kind := range keyKinds {
			server, roots, address, err := e.beginTLS(c, kind)
			if err != nil {
				return err
			}
			defer server.End()
			took, err := server.handshakes(address, roots)
			if err != nil {
				return err
			}
			greeting[kind.name+c.Name] = append(greeting[kind.name+c.Name], float64(took))
			if kind.name != keyKinds[0].name {
				continue
			}
			for _, p := range []int{1, 16} {
				for _, test := range []string{"set", "get"} {
					requests := 200_000 * p
					_, port, err := net.SplitHostPort(address)
					if err != nil {
						return err
					}
					d, err := server.drive("redis-benchmark", "--tls", "--insecure", "-p", port, "-t", test, "-n",
						strconv.Itoa(requests), "-P", strconv.Itoa(p),
						"-c", "50", "-d", "32", "-r", fmt.Sprint(e.Keys), "--csv")
					if err != nil {
						return err
					}
					results, err := parseRedisBenchmark(d.out)
					if err != nil {
						return err
					}
					costs.at(p)(test, c.Name).add(results[0], float64(requests), d)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tests := []string{"get", "set"}
	for _, p := range []int{1, 16} {
		at := costs.at(p)
		s.Tables = append(s.Tables, drivenTable(fmt.Sprintf("Pipeline %d", p), "max", tests, contenders, at))
		for _, test := range tests {
			base, ours := at(test, e.Reference.Name).cpu, at(test, "spindle").cpu
			ratio := ours.Ratio(base)
			s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("CPU per %s over TLS, pipeline %d",
				strings.ToUpper(test), p), Target: "≤ 1 × redis",
				Reference: base.Text(report.Micros) + " µs", Ours: fmt.Sprintf("%s µs, %s ×", ours.Text(report.Micros),
					report.Number(ratio)), Verdict: report.Judge(ratio, 1, 1)})
		}
	}
	g := report.Table{Title: "Handshakes", Columns: []string{"certificate", "server", "CPU of a connection"}}
	for _, kind := range keyKinds {
		for _, c := range contenders {
			g.Rows = append(g.Rows, []string{kind.name, c.Name, greeting[kind.name+c.Name].Text(report.Duration)})
		}
	}
	s.Tables = append(s.Tables, g)
	return s, nil
}

// beginTLS starts c with a new certificate on a second port.
func (e *Env) beginTLS(c Contender, kind keyKind) (s *Server, roots *x509.CertPool, address string, err error) {
	dir, err := os.MkdirTemp(e.Scratch, "tls-")
	if err != nil {
		return nil, nil, "", err
	}
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if roots, err = writeCertificate(kind, certificate, key); err != nil {
		return nil, nil, "", err
	}
	port, err := e.port()
	if err != nil {
		return nil, nil, "", err
	}
	address = "127.0.0.1:" + strconv.Itoa(port)
	s, err = e.Begin(c, Start{Args: []string{"--tls-port", strconv.Itoa(port), "--tls-cert-file", certificate,
		"--tls-key-file", key,
		"--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"}})
	return s, roots, address, err
}

// writeCertificate makes a key and a self-signed certificate for this machine.
func writeCertificate(kind keyKind, certificate, key string) (*x509.CertPool, error) {
	signer, err := kind.make()
	if err != nil {
		return nil, err
	}
	made, err := authority.SelfSigned(&x509.Certificate{Subject: pkix.Name{CommonName: "bench"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign},
		signer)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(made.Leaf)
	return roots, authority.Write(made, certificate, key)
}

// handshakes returns the server's average CPU time for a connection with a handshake and one PING.
func (s *Server) handshakes(address string, roots *x509.CertPool) (time.Duration, error) {
	before, err := process.CPUTime(s.PID)
	if err != nil {
		return 0, err
	}
	for range handshakes {
		if err := pingOverTLS(address, roots); err != nil {
			return 0, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	after, err := process.CPUTime(s.PID)
	return (after - before) / handshakes, err
}

func pingOverTLS(address string, roots *x509.CertPool) error {
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 7)
	if _, err := c.Read(reply); err != nil || string(reply) != "+PONG\r\n" {
		return fmt.Errorf("PING was answered with %q, %v", reply, err)
	}
	return nil
}
