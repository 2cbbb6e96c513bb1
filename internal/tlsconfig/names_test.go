package tlsconfig

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/internal/info"
	"spindle/tests/testkit/authority"
)

// TestNames: a certificate offers its first common name, or its URIs, as they stand in it.
func TestNames(t *testing.T) {
	a := newAuthority(t)
	named := func(all ...string) (n pkix.Name) {
		for _, text := range all {
			n.ExtraNames = append(n.ExtraNames, pkix.AttributeTypeAndValue{Type: commonName, Value: text})
		}
		return n
	}
	for what, c := range map[string]struct {
		subject pkix.Name
		uris    []string
		cn, uri []string
	}{
		"a name":        {named("alice"), nil, []string{"alice"}, nil},
		"two names":     {named("alice", "bob"), nil, []string{"alice"}, nil},
		"no name":       {pkix.Name{Organization: []string{"o"}}, nil, nil, nil},
		"an empty name": {named(""), nil, nil, nil},
		"a zero byte": {named("alice\x00.example"), []string{"urn:a\x00b", "urn:b"}, []string{"alice\x00.example"},
			[]string{"urn:a\x00b", "urn:b"}},
		"a name as it stands": {named("Alice B. é"), []string{"urn:X:%41", "bob"}, []string{"Alice B. é"},
			[]string{"urn:X:%41", "bob"}},
	} {
		template := &x509.Certificate{Subject: c.subject}
		if c.uris != nil {
			var list []asn1.RawValue
			for _, u := range c.uris {
				list = append(list, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: uriOtherName, Bytes: []byte(u)})
			}
			value, err := asn1.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			template.ExtraExtensions = []pkix.Extension{{Id: otherNames, Value: value}}
		}
		made, err := authority.Sign(a.own, template, newECDSA(t))
		leaf := made.Leaf
		if err != nil && strings.Contains(err.Error(), "URI") { // crypto/x509 refuses it, and so does a handshake
			leaf = &x509.Certificate{Subject: c.subject, Extensions: template.ExtraExtensions}
			leaf.Subject.Names = c.subject.ExtraNames
		} else if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for from, want := range map[string][]string{"CN": c.cn, "URI": c.uri, "off": nil} {
			s := settingsOf(t, "tls-auth-clients-user", from)
			if got := s.Names(leaf); !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", what, from, got, want)
			}
			if got := s.Names(nil); got != nil {
				t.Errorf("without a certificate: %q", got)
			}
		}
	}
}

// TestEnds: INFO tls shows serial numbers, and when the certificates expire. For the authorities it shows the one that
// expires first.
func TestEnds(t *testing.T) {
	a := newAuthority(t)
	p := a.sign("server", newECDSA(t))
	server, own := p.tls.Leaf, a.sign("client", newECDSA(t))
	s := settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file)
	c := &Current{Settings: s, Wanted: func() bool { return true }, Warn: func(err error) { t.Error(err) }}
	show := func() string {
		var w info.Writer
		for _, f := range c.Section().Fields {
			f.Append(&w)
		}
		return string(w.B)
	}
	const none = "tls_client_cert_serial:none\r\ntls_client_cert_expires_in_seconds:0\r\n"
	if text := show(); !strings.Contains(text, none) || !strings.Contains(text, "tls_server_cert_serial:none\r\n") {
		t.Errorf("before Load: %s", text)
	}
	if _, err := c.Load(); err != nil {
		t.Fatal(err)
	}
	if text := show(); !strings.Contains(text, none) || !strings.Contains(text, "tls_server_cert_serial:"+serial(server)) {
		t.Errorf("%s", text)
	}
	c.Settings = settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file,
		"tls-client-cert-file", own.cert, "tls-client-key-file", own.key)
	if _, err := c.Load(); err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{}
	c.Ends().Each(server.NotAfter.Add(-90*time.Second), func(name string, n int64) { left[name] = n })
	if len(left) != 3 || left["server"] != 90 || left["client"] < 90 {
		t.Errorf("%v", left)
	}
	c.Ends().Each(server.NotAfter.Add(time.Hour), func(name string, n int64) {
		if n != 0 {
			t.Errorf("an hour too late %s has %d s", name, n)
		}
	})
	sooner, later := &x509.Certificate{NotAfter: time.Unix(1, 0)}, &x509.Certificate{NotAfter: time.Unix(2, 0)}
	if earlier(nil, later) != later || earlier(later, sooner) != sooner || earlier(sooner, later) != sooner {
		t.Error("of the authorities not the one that ends first")
	}
}
