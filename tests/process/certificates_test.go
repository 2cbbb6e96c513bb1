package process

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestCertificateNamesUser: with tls-auth-clients-user a field of a client's certificate names the client's ACL user,
// as in Valkey 9.1. If the field names no enabled user, the client stays the default user, and ACL LOG gets an entry.
func TestCertificateNamesUser(t *testing.T) {
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	names := func(all ...string) pkix.Name {
		var n pkix.Name
		for _, text := range all {
			n.ExtraNames = append(n.ExtraNames, pkix.AttributeTypeAndValue{Type: cn, Value: text})
		}
		return n
	}
	certs := testkit.NewCertificates(t)
	for name, subject := range map[string]pkix.Name{
		"alice": names("alice"), "off": names("off"), "stranger": names("stranger"), "two": names("alice", "bob"),
		"none": {Organization: []string{"alice"}}, "longer": names("alice2"), "zero": names("alice\x00.example"),
	} {
		certs.IssueAs(t, name, &x509.Certificate{Subject: subject})
	}
	uri := &x509.Certificate{Subject: names("alice"), URIs: []*url.URL{{Scheme: "urn", Opaque: "off"},
		{Scheme: "urn", Opaque: "bob"}}}
	certs.IssueAs(t, "uris", uri)
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			spec, port := testkit.Kind(t, kind), testkit.FreePort(t)
			spec.Args = append(certs.Directives(port), "--tls-auth-clients-user", "CN")
			s := testkit.Launch(t, spec)
			s.Do("ACL", "SETUSER", "alice", "on", "+@all", "-get", "~*", ">pw")
			s.Do("ACL", "SETUSER", "bob", "on", "+@all")
			s.Do("ACL", "SETUSER", "off", "off", "+@all", "nopass")
			s.Do("ACL", "SETUSER", "urn:bob", "on", "+@all")
			dial := func(name string) *respclient.Client {
				c, _, err := dialTLS(t, port, certs.ClientAs(t, name))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return c
			}
			for name, user := range map[string]string{
				"alice": "alice", "two": "alice", "off": "default", "stranger": "default", "none": "default", "longer": "default",
				"zero": "default",
			} {
				if got := dial(name).Must("ACL", "WHOAMI").Text; got != user {
					t.Errorf("%s is %s, want %s", name, got, user)
				}
			}
			if got := s.Dial().Must("ACL", "WHOAMI").Text; got != "default" {
				t.Errorf("without TLS: %s", got)
			}
			logged := map[string]int64{}
			for _, e := range s.Do("ACL", "LOG").Elems {
				if e.Elems[3].Text == "tls-cert" && e.Elems[5].Text == "toplevel" && e.Elems[7].Text == "" {
					logged[e.Elems[9].Text] = e.Elems[1].Int
				}
			}
			if n := s.InfoInt("stats", "acl_access_denied_tls_cert"); n != 4 || len(logged) != 4 || logged["off"] != 1 ||
				logged["stranger"] != 1 || logged["alice2"] != 1 || logged["alice\x00.example"] != 1 {
				t.Errorf("acl_access_denied_tls_cert:%d, ACL LOG %v", n, logged)
			}
			// The client has the user's rights. RESET makes it the default user, and AUTH with a password still works.
			c := dial("alice")
			if v, _ := c.Do("GET", "k"); !strings.HasPrefix(v.Text, "NOPERM") {
				t.Errorf("GET: %v", v)
			}
			s.Do("CONFIG", "SET", "requirepass", "secret")
			if v, _ := dial("alice").Do("SET", "k", "v"); v.Text != "OK" {
				t.Errorf("with requirepass: %v", v)
			}
			c.Must("RESET")
			if v, _ := c.Do("PING"); !strings.HasPrefix(v.Text, "NOAUTH") {
				t.Errorf("after RESET: %v", v)
			}
			s.Do("CONFIG", "SET", "requirepass", "", "tls-auth-clients-user", "URI")
			for name, want := range map[string]string{"uris": "urn:bob", "alice": "default"} {
				if got := dial(name).Must("ACL", "WHOAMI").Text; got != want {
					t.Errorf("URIs of %s: %s, want %s", name, got, want)
				}
			}
		})
	}
}

// TestCertificatesAreReadAgain: with tls-auto-reload-interval later handshakes use a new certificate, and INFO tls
// shows it, as in Valkey 9.1. If the new file is invalid, the old certificate stays in use.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			certs, spec, port := testkit.NewCertificates(t), testkit.Kind(t, kind), testkit.FreePort(t)
			spec.Args = append(certs.Directives(port), "--tls-auto-reload-interval", "1")
			s := testkit.Launch(t, spec)
			serving := func() *big.Int {
				_, conn, err := dialTLS(t, port, certs.Client(t, true))
				if err != nil {
					t.Fatal(err)
				}
				return conn.ConnectionState().PeerCertificates[0].SerialNumber
			}
			used := func(made *x509.Certificate) {
				t.Helper()
				testkit.Until(t, testkit.Slowly(30*time.Second), "the new certificate is used", func() error {
					return testkit.Equal(serving().String(), made.SerialNumber.String())
				})
				tls := s.Info("tls")
				if got := tls["tls_server_cert_serial"]; got != fmt.Sprintf("%X", made.SerialNumber.Bytes()) {
					t.Errorf("tls_server_cert_serial:%s, want %X", got, made.SerialNumber)
				}
				if n, err := strconv.Atoi(tls["tls_server_cert_expires_in_seconds"]); err != nil || n < 3000 || n > 3600 ||
					tls["tls_client_cert_serial"] != "none" {
					t.Errorf("%v", tls)
				}
			}
			made := certs.Issue(t, "server")
			used(made)
			for _, text := range []string{"nothing", ""} {
				if err := os.WriteFile(certs.File("server.crt"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				s.AwaitLog(testkit.Slowly(30*time.Second), "Failed to load certificate")
				if serving().Cmp(made.SerialNumber) != 0 {
					t.Errorf("the file is %q, and the old certificate is not used", text)
				}
			}
			used(certs.Issue(t, "server"))
		})
	}
}
