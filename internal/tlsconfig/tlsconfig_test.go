package tlsconfig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/internal/setting"
	"spindle/tests/testkit/authority"
)

// A pair is the files of a certificate and its key.
type pair struct {
	cert, key string
	tls       tls.Certificate
}

// An issuer signs certificates for this test run.
type issuer struct {
	t    *testing.T
	dir  string
	own  tls.Certificate
	file string // the issuer's own certificate
}

func newAuthority(t *testing.T) *issuer {
	a := &issuer{t: t, dir: t.TempDir()}
	var err error
	if a.own, err = authority.New("authority"); err != nil {
		t.Fatal(err)
	}
	a.file = a.write("ca", a.own).cert
	return a
}

func (a *issuer) write(name string, c tls.Certificate) pair {
	a.t.Helper()
	p := pair{filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key"), c}
	if err := authority.Write(c, p.cert, p.key); err != nil {
		a.t.Fatal(err)
	}
	return p
}

// sign makes a certificate for key under a name.
func (a *issuer) sign(name string, key crypto.Signer) pair {
	a.t.Helper()
	return a.signFor(name, key)
}

// signFor is sign for a certificate that is valid only for these usages.
func (a *issuer) signFor(name string, key crypto.Signer, usage ...x509.ExtKeyUsage) pair {
	a.t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: usage}
	c, err := authority.Sign(a.own, template, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name, c)
}

func newRSA(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newECDSA(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// settingsOf returns the defaults, changed by pairs of names and values.
func settingsOf(t *testing.T, pairs ...string) *Settings {
	t.Helper()
	s := &Settings{}
	rows := s.Rows()
	for i := 0; i < len(pairs); i += 2 {
		n := slices.IndexFunc(rows, func(r setting.Row) bool { return r.Name == pairs[i] })
		if err := rows[n].Set(pairs[i+1:i+2], setting.FromCommand); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// shake connects a client to a server and returns the negotiated state.
func shake(server, client *tls.Config) (state tls.ConnectionState, err error) {
	a, b := connection()
	defer a.Close()
	defer b.Close()
	a.SetDeadline(time.Now().Add(10 * time.Second))
	b.SetDeadline(time.Now().Add(10 * time.Second))
	done := make(chan error, 1)
	s, c := tls.Server(a, server), tls.Client(b, client)
	go func() {
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // the tickets come after it
		}
		if err != nil {
			a.Close()
		}
		done <- err
	}()
	if err = c.Handshake(); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		b.Close()
	}
	return c.ConnectionState(), errors.Join(err, <-done)
}

// connection returns the two ends of a connection with buffers, so that both may write at a time.
func connection() (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	if b, err = net.Dial("tcp", l.Addr().String()); err != nil {
		panic(err)
	}
	if a, err = l.Accept(); err != nil {
		panic(err)
	}
	return a, b
}

func client() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10}
}

// TestBuildRefuses: invalid configurations are refused with Redis's log line, or one that names the fault.
func TestBuildRefuses(t *testing.T) {
	a := newAuthority(t)
	p, other := a.sign("server", newRSA(t)), a.sign("other", newECDSA(t))
	garbage := filepath.Join(a.dir, "garbage")
	os.WriteFile(garbage, []byte("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"), 0o600)
	base := []string{"tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file}
	for _, c := range []struct {
		change []string
		want   string
	}{
		{nil, ""},
		{[]string{"tls-cert-file", ""}, "No tls-cert-file configured!"},
		{[]string{"tls-key-file", ""}, "No tls-key-file configured!"},
		{[]string{"tls-ca-cert-file", ""}, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when"},
		{[]string{"tls-ca-cert-file", "", "tls-auth-clients", "no"}, ""},
		{[]string{"tls-cert-file", "/none"}, "Failed to load certificate: /none: open /none: No such file or directory"},
		{[]string{"tls-cert-file", garbage}, "Failed to load certificate: "},
		{[]string{"tls-key-file", "/none"}, "Failed to load private key: /none: "},
		{[]string{"tls-key-file", p.cert}, "Failed to load private key: " + p.cert + ": no private key in it"},
		{[]string{"tls-key-file", other.key}, "Failed to load private key: " + other.key +
			": the key is not the certificate's"},
		{[]string{"tls-ca-cert-file", garbage}, "Failed to configure CA certificate(s) file/directory: "},
		{[]string{"tls-ca-cert-dir", "/none"}, "Failed to configure CA certificate(s) file/directory: "},
		{[]string{"tls-ca-cert-dir", a.dir}, ""},
		{[]string{"tls-protocols", "TLSv1.4"}, "Invalid tls-protocols specified."},
		{[]string{"tls-protocols", " "}, "Invalid tls-protocols specified."},
		{[]string{"tls-protocols", "tlsV1 TLSv1.3"}, ""},
		{[]string{"tls-ciphers", "NONSENSE"}, "Failed to configure ciphers: NONSENSE"},
		{[]string{"tls-ciphers", "!!!"}, "Failed to configure ciphers: "},
		{[]string{"tls-ciphersuites", "TLS_NONSENSE"}, "Failed to configure ciphersuites: TLS_NONSENSE"},
		{[]string{"tls-ciphersuites", "TLS_AES_256_GCM_SHA384"}, "tls-ciphersuites: crypto/tls always offers"},
		{[]string{"tls-ciphersuites", "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"}, ""},
		{[]string{"tls-client-cert-file", other.cert, "tls-client-key-file", p.key}, "Failed to load private key: "},
		{[]string{"tls-client-cert-file", other.cert, "tls-client-key-file", other.key}, ""},
	} {
		_, err := buildServer(settingsOf(t, append(slices.Clone(base), c.change...)...))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q: %v", c.change, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%q: %v, want %q", c.change, err, c.want)
		}
	}
}

// buildServer returns Build's configuration for connections that clients open.
func buildServer(s *Settings) (*tls.Config, error) {
	made, err := Build(s)
	if err != nil {
		return nil, err
	}
	return made.Server, nil
}

// TestClientCertificates: the current tls-auth-clients decides about clients' certificates, without a new Build.
func TestClientCertificates(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	p := a.sign("server", newECDSA(t))
	s := settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file)
	server, err := buildServer(s)
	if err != nil {
		t.Fatal(err)
	}
	known, stranger := a.sign("client", newECDSA(t)).tls, foreign.sign("client", newECDSA(t)).tls
	for _, c := range []struct {
		auth                  Auth
		none, known, stranger bool
	}{
		{AuthYes, false, true, false}, {AuthOptional, true, true, false}, {AuthNo, true, true, true},
		{AuthYes, false, true, false},
	} {
		s.Auth.Set(c.auth)
		for name, x := range map[string]struct {
			shown []tls.Certificate
			want  bool
		}{"none": {nil, c.none}, "known": {[]tls.Certificate{known}, c.known},
			"stranger": {[]tls.Certificate{stranger}, c.stranger}} {
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				config := client()
				config.MaxVersion = version
				// The certificate is shown whatever authorities the server names.
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					if len(x.shown) == 0 {
						return &tls.Certificate{}, nil
					}
					return &x.shown[0], nil
				}
				if _, err := shake(server, config); (err == nil) != x.want {
					t.Errorf("tls-auth-clients %d, certificate %s, version %x: %v", c.auth, name, version, err)
				}
			}
		}
	}
	// Without an authority no certificate is trusted, not even those of the system's authorities.
	s = settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-auth-clients", "no")
	if server, err = buildServer(s); err != nil {
		t.Fatal(err)
	}
	s.Auth.Set(AuthYes)
	config := client()
	config.Certificates = []tls.Certificate{known}
	if _, err := shake(server, config); err == nil {
		t.Error("a certificate is trusted though there is no authority")
	}
}

// TestOpenedLinks: a link that this server opens shows the client's certificate, or else the server's. It requires a
// server's certificate of a trusted authority, with any name, and an allowed version.
func TestOpenedLinks(t *testing.T) {
	a, foreign := newAuthority(t), newAuthority(t)
	own, shown, primary := a.sign("server", newECDSA(t)), a.sign("client", newECDSA(t)), a.sign("elsewhere", newECDSA(t))
	for _, c := range []struct {
		name    string
		change  []string
		primary tls.Certificate
		version uint16
		shown   pair
		want    bool
	}{
		{"both", []string{"tls-client-cert-file", shown.cert, "tls-client-key-file", shown.key}, primary.tls, 0, shown, true},
		{"without the client's", nil, primary.tls, 0, own, true},
		{"a file alone", []string{"tls-client-cert-file", shown.cert}, primary.tls, 0, own, true},
		{"TLS 1.2", nil, primary.tls, tls.VersionTLS12, own, true},
		{"foreign", nil, foreign.sign("server", newECDSA(t)).tls, 0, own, false},
		{"a client's alone", nil, a.signFor("wrong", newECDSA(t), x509.ExtKeyUsageClientAuth).tls, 0, own, false},
		{"a server's alone", nil, a.signFor("right", newECDSA(t), x509.ExtKeyUsageServerAuth).tls, 0, own, true},
		{"in the gap", []string{"tls-protocols", "TLSv1.1 TLSv1.3"}, primary.tls, tls.VersionTLS12, own, false},
		{"beside the gap", []string{"tls-protocols", "TLSv1.1 TLSv1.3"}, primary.tls, tls.VersionTLS13, own, true},
	} {
		made, err := Build(settingsOf(t, append([]string{"tls-cert-file", own.cert, "tls-key-file", own.key,
			"tls-ca-cert-file", a.file,
			"tls-replication", "yes"}, c.change...)...))
		if err != nil {
			t.Fatal(err)
		}
		others := x509.NewCertPool()
		others.AddCert(foreign.own.Leaf)
		var seen [][]byte
		server := &tls.Config{
			Certificates: []tls.Certificate{c.primary}, ClientAuth: tls.RequireAnyClientCert, ClientCAs: others,
			MinVersion: tls.VersionTLS10, MaxVersion: c.version,
			VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
				seen = raw
				return nil
			},
		}
		if _, err := shake(server, made.Client); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want && (len(seen) != 1 || !bytes.Equal(seen[0], c.shown.tls.Certificate[0])) {
			t.Errorf("%s: %d certificates are shown, or another one", c.name, len(seen))
		}
	}
	s := settingsOf(t, "tls-cert-file", own.cert, "tls-key-file", own.key, "tls-auth-clients", "no",
		"tls-replication", "yes")
	if _, err := Build(s); err != errNoAuthority {
		t.Errorf("without an authority: %v", err)
	}
}

// TestAuthorityDirectory: only files whose names OpenSSL looks for are read from a directory.
func TestAuthorityDirectory(t *testing.T) {
	a := newAuthority(t)
	p := a.sign("server", newECDSA(t))
	text, _ := os.ReadFile(a.file)
	for name, want := range map[string]bool{"0a1b2c3d.0": true, "0a1b2c3d.12": true, "ca.pem": false,
		"0a1b2c3d.r0": false} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, name), text, 0o600)
		server, err := buildServer(settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-dir", dir))
		if err != nil {
			t.Fatal(err)
		}
		config := client()
		known := a.sign("client", newECDSA(t)).tls
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &known, nil }
		if _, err := shake(server, config); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProtocols: the versions are those in tls-protocols, also with gaps.
func TestProtocols(t *testing.T) {
	a := newAuthority(t)
	p := a.sign("server", newECDSA(t))
	all := []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13}
	for text, want := range map[string][]uint16{
		"": all[2:], "TLSv1.2": all[2:3], "tlsv1.3": all[3:], "TLSv1 TLSv1.1": all[:2], "TLSv1.3 TLSv1": {all[0], all[3]},
	} {
		server, err := buildServer(settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-auth-clients", "no",
			"tls-protocols", text, "tls-ciphers", "ALL"))
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range all {
			config := client()
			config.MinVersion, config.MaxVersion = version, version
			if _, err := shake(server, config); (err == nil) != slices.Contains(want, version) {
				t.Errorf("%q: version %x: %v", text, version, err)
			}
		}
		config := client() // which allows all of them
		if state, err := shake(server, config); err != nil || state.Version != want[len(want)-1] {
			t.Errorf("%q: %x %v", text, state.Version, err)
		}
	}
}

// TestCiphersOfAConnection: up to TLS 1.2 tls-prefer-server-ciphers selects the end that decides. A suite that is not
// listed is not used.
func TestCiphersOfAConnection(t *testing.T) {
	a := newAuthority(t)
	const aes128, aes256, old = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_RSA_WITH_AES_128_CBC_SHA256
	p := a.sign("server", newRSA(t))
	for _, c := range []struct {
		list, prefer string
		offered      []uint16
		want         uint16 // 0: none
	}{
		{"", "no", []uint16{aes128}, aes128},
		{"", "no", []uint16{old}, 0},
		{"DEFAULT", "no", []uint16{old}, old},
		{"DEFAULT:-AES128-SHA256", "no", []uint16{old}, 0},
		{"DEFAULT:-AES128-SHA256", "no", []uint16{old, aes128}, aes128},
		{"ECDHE-RSA-AES256-GCM-SHA384", "no", []uint16{aes128, aes256}, aes256},
		{"ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA256", "yes", []uint16{old, aes128}, aes128},
		{"AES128-SHA256:ECDHE-RSA-AES128-GCM-SHA256", "yes", []uint16{old, aes128}, old},
		{"ECDSA", "no", []uint16{aes128}, 0},
	} {
		server, err := buildServer(settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-auth-clients", "no",
			"tls-ciphers", c.list, "tls-prefer-server-ciphers", c.prefer, "tls-protocols", "TLSv1.2"))
		if err != nil {
			t.Fatal(err)
		}
		config := client()
		config.CipherSuites = c.offered
		state, err := shake(server, config)
		if (err == nil) != (c.want != 0) || err == nil && state.CipherSuite != c.want {
			t.Errorf("%+v: %x %v", c, state.CipherSuite, err)
		}
	}
}

// TestCipherLists: a cipher list has the meaning that openssl(1) gives it, for the ciphers that crypto/tls has.
func TestCipherLists(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed: make deps installs it")
	}
	for _, list := range []string{
		"DEFAULT", "ALL", "HIGH", "DEFAULT:!kRSA", "DEFAULT:-AES128-SHA256",
		"ECDHE+AESGCM:CHACHA20", "ECDHE:!SHA1:AES256", "AES128:AES256",
		"AESGCM:+AES256", "ALL:!aRSA", "ALL:-SHA256:AES128-SHA256", "ECDSA:RSA", "kRSA+AESGCM", "HIGH:!aNULL:!MD5",
		"AES:@STRENGTH",
		"ECDHE-RSA-AES128-GCM-SHA256 AES128-SHA,AES256-SHA", "!AES128:AES", "NONSENSE:AES256-SHA", "TLSv1.2+kRSA",
		"EECDH+AES+SHA",
		"AES128-SHA256:AES256-SHA256", "DEFAULT:!MEDIUM", "aECDSA:+CHACHA20", "AES128-SHA:DEFAULT", "DHE",
	} {
		out, _ := exec.Command(openssl, "ciphers", list).Output()
		var want []string
		for name := range strings.SplitSeq(strings.TrimSpace(string(out)), ":") {
			if slices.ContainsFunc(ciphers, func(c cipherInfo) bool { return c.name == name }) {
				want = append(want, name)
			}
		}
		ids, err := parseCiphers(list)
		var got []string
		for _, id := range ids {
			if name := cipherByID(id).name; !strings.Contains(name, "CBC3") { // it depends on how openssl was built
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) || (err != nil) != (len(want) == 0) {
			t.Errorf("%s: %v\ngot  %v\nwant %v", list, err, got, want)
		}
	}
}

// TestEncryptedKeys: keys in the forms that tools write can be read, encrypted and not.
func TestEncryptedKeys(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed: make deps installs it")
	}
	a := newAuthority(t)
	for kind, p := range map[string]pair{"rsa": a.sign("rsa", newRSA(t)), "ec": a.sign("ec", newECDSA(t))} {
		for _, how := range [][]string{
			{kind, "-aes256"}, {kind, "-aes128", "-traditional"}, {kind, "-des3", "-traditional"},
			{"pkcs8", "-topk8", "-v2", "aes-128-cbc"}, {"pkcs8", "-topk8", "-v2", "aes192", "-v2prf", "hmacWithSHA1"},
			{"pkcs8", "-topk8", "-v2", "des3"}, {"pkcs8", "-topk8", "-v2", "aes256", "-v2prf", "hmacWithSHA512"},
		} {
			file := filepath.Join(a.dir, "encrypted")
			args := append(slices.Clone(how), "-in", p.key, "-out", file, "-passout", "pass:12 34")
			if kind == "ec" && slices.Contains(how, "-traditional") {
				args = slices.DeleteFunc(args, func(s string) bool { return s == "-traditional" })
			}
			if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", args, out)
			}
			for pass, want := range map[string]bool{"12 34": true, "1234": false, "": false} {
				_, err := buildServer(settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", file, "tls-key-file-pass", pass,
					"tls-auth-clients", "no"))
				if (err == nil) != want {
					t.Errorf("%v, password %q: %v", how, pass, err)
				}
			}
		}
	}
}

// TestSessions: sessions are resumed while they are stored: as many and as long as the settings allow.
func TestSessions(t *testing.T) {
	a := newAuthority(t)
	p := a.sign("server", newECDSA(t))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			caching, size, timeout string
			between                int // connections of others in between
			want                   bool
		}{
			{"yes", "100", "300", 0, true},
			{"yes", "100", "300", 99, true},
			{"yes", "100", "300", 100, false},
			{"yes", "0", "300", 300, true},
			{"yes", "100", "0", 0, false},
			{"no", "100", "300", 0, false},
		} {
			server, err := buildServer(settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-auth-clients", "no",
				"tls-session-caching", c.caching, "tls-session-cache-size", c.size, "tls-session-cache-timeout", c.timeout))
			if err != nil {
				t.Fatal(err)
			}
			connect := func(cache tls.ClientSessionCache) bool {
				config := client()
				config.ServerName, config.MaxVersion, config.ClientSessionCache = "server", version, cache
				state, err := shake(server, config)
				if err != nil {
					t.Fatalf("version %x, %+v: %v", version, c, err)
				}
				return state.DidResume
			}
			cache := tls.NewLRUClientSessionCache(10)
			connect(cache)
			for range c.between {
				connect(tls.NewLRUClientSessionCache(10))
			}
			time.Sleep(2 * time.Millisecond)
			if got := connect(cache); got != c.want {
				t.Errorf("version %x, %+v: resumed %t", version, c, got)
			}
		}
	}
}

// FuzzFiles: certificates and keys of any bytes are refused without a panic.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "x")
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), "")
	f.Add([]byte{0x30, 0x80}, "pass")
	f.Fuzz(func(t *testing.T, text []byte, word string) {
		_, _ = parseKey(text, word)
		_, _, _ = parseChain(text)
		_, _ = decryptPKCS8(text, word)
		if ids, err := parseCiphers(word); err == nil && len(ids) == 0 {
			t.Errorf("%q allows no cipher", word)
		}
		if versions, err := parseProtocols(word); err == nil && len(versions) == 0 {
			t.Errorf("%q allows no version", word)
		}
	})
}
