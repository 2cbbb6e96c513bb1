package tlsconfig

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"spindle/internal/reason"
)

// Log texts for an invalid configuration, as monitoring matches them.
var (
	errNoCertificate = errors.New("No tls-cert-file configured!")
	errNoKey         = errors.New("No tls-key-file configured!")
	errNoAuthority   = errors.New("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, " +
		"tls-replication or tls-auth-clients are enabled!")
	errProtocols = errors.New("Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' " +
		"and 'TLSv1.3'.")
)

// Configs are the TLS configurations of both ends of connections.
type Configs struct {
	Server *tls.Config // for connections that clients open
	Client *tls.Config // for connections that this server opens
	Ends   Ends
}

// Build reads the files and makes the configurations, with the current settings. Only Auth is read later.
//
// Errors: a line for the operator; then there are no configurations.
func Build(s *Settings) (*Configs, error) {
	switch {
	case s.Cert.Get() == "":
		return nil, errNoCertificate
	case s.Key.Get() == "":
		return nil, errNoKey
	case (s.Auth.Get() != AuthNo || s.Replication.Get() || s.Cluster.Get()) && s.CAFile.Get() == "" && s.CADir.Get() == "":
		return nil, errNoAuthority
	}
	versions, err := parseProtocols(s.Protocols.Get())
	if err != nil {
		return nil, err
	}
	certificate, err := loadPair(s.Cert.Get(), s.Key.Get(), s.KeyPass.Get())
	if err != nil {
		return nil, err
	}
	authorities, first, err := loadAuthorities(s.CAFile.Get(), s.CADir.Get())
	if err != nil {
		return nil, err
	}
	suites, err := parseCiphers(s.Ciphers.Get())
	if err != nil {
		return nil, err
	}
	if err := checkSuites13(s.Suites.Get()); err != nil {
		return nil, err
	}
	ends, shown := Ends{Server: certificate.Leaf, Authority: first}, certificate
	if s.ClientCert.Get() != "" && s.ClientKey.Get() != "" {
		if shown, err = loadPair(s.ClientCert.Get(), s.ClientKey.Get(), s.ClientPass.Get()); err != nil {
			return nil, err
		}
		ends.Client = shown.Leaf
	}
	base := &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientCAs: authorities, CipherSuites: suites,
		MinVersion: versions[0], MaxVersion: versions[len(versions)-1],
		DynamicRecordSizingDisabled: true, SessionTicketsDisabled: !s.Caching.Get(),
	}
	if s.Caching.Get() {
		kept := newSessions(int(s.CacheSize.Get()), time.Duration(s.CacheTimeout.Get())*time.Second)
		base.WrapSession, base.UnwrapSession = kept.wrap, kept.unwrap
	}
	server := newChooser(base, s, versions, suites).config()
	return &Configs{server, clientConfig(shown, authorities, versions, suites), ends}, nil
}

// A chooser chooses a variant of the configuration for each client. crypto/tls can express neither which end's cipher
// order has precedence, nor a gap between versions. So a variant has one cipher, or one version.
type chooser struct {
	base         *tls.Config
	settings     *Settings // for Auth
	versions     []uint16  // ascending
	gap          bool      // some version between them is not allowed
	suites       []uint16  // up to TLS 1.2, the preferred first
	preferServer bool
	signs        int // the kinds of the certificate's key: ecdsaKey or rsaKey

	mu       sync.Mutex
	variants map[variant]*tls.Config
}

// A variant is everything on which a client's configuration depends.
type variant struct {
	auth    Auth
	version uint16 // 0: as in base
	suite   uint16 // 0: as in base
}

const (
	rsaKey = iota
	ecdsaKey
)

func newChooser(base *tls.Config, s *Settings, versions, suites []uint16) *chooser {
	c := &chooser{
		base: base, settings: s, versions: versions, suites: suites, preferServer: s.PreferServer.Get(),
		gap:      int(versions[len(versions)-1]-versions[0]) != len(versions)-1,
		variants: map[variant]*tls.Config{},
	}
	switch base.Certificates[0].Leaf.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		c.signs = ecdsaKey
	}
	return c
}

// config returns a configuration that asks the chooser at each handshake.
func (c *chooser) config() *tls.Config {
	outer := c.base.Clone()
	outer.GetConfigForClient = c.forClient
	return outer
}

func (c *chooser) forClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	v := variant{auth: c.settings.Auth.Get()}
	spoken := uint16(0)
	for _, version := range c.versions {
		if slices.Contains(hello.SupportedVersions, version) {
			spoken = version
		}
	}
	if c.gap {
		if v.version = spoken; spoken == 0 { // without an allowed version, crypto/tls shall return the error
			v.version = c.versions[len(c.versions)-1]
		}
	}
	if spoken != 0 && spoken < tls.VersionTLS13 {
		v.suite = c.choose(hello, spoken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	config := c.variants[v]
	if config == nil {
		config = c.make(v)
		c.variants[v] = config
	}
	return config, nil
}

func (c *chooser) make(v variant) *tls.Config {
	config := c.base.Clone()
	switch v.auth {
	case AuthNo:
		config.ClientAuth = tls.NoClientCert
	case AuthOptional:
		config.ClientAuth = tls.VerifyClientCertIfGiven
	default:
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if v.version != 0 {
		config.MinVersion, config.MaxVersion = v.version, v.version
	}
	if v.suite != 0 {
		config.CipherSuites = []uint16{v.suite}
	}
	return config
}

// choose returns the first suite that both ends can use, in the order of the preferred end, or 0 if there is none.
func (c *chooser) choose(hello *tls.ClientHelloInfo, version uint16) uint16 {
	first, other := hello.CipherSuites, c.suites
	if c.preferServer {
		first, other = other, first
	}
	curves := slices.ContainsFunc(hello.SupportedCurves, func(id tls.CurveID) bool {
		return id == tls.X25519 || id == tls.CurveP256 || id == tls.CurveP384 || id == tls.CurveP521
	})
	for _, id := range first {
		known := cipherByID(id)
		switch {
		case known == nil || !slices.Contains(other, id):
		case known.ephemeral && (!curves || known.signs != c.signs):
		case !known.ephemeral && c.signs != rsaKey:
		case known.since > version:
		default:
			return id
		}
	}
	return 0
}

// parseProtocols reads tls-protocols into versions in ascending order.
func parseProtocols(text string) (versions []uint16, err error) {
	if text == "" {
		return []uint16{tls.VersionTLS12, tls.VersionTLS13}, nil
	}
	for word := range strings.SplitSeq(text, " ") {
		version, known := map[string]uint16{
			"tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13,
		}[strings.ToLower(word)]
		if !known {
			return nil, errProtocols
		}
		versions = append(versions, version)
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

// hashed matches the file names in a directory of authorities: the hash of the subject, and a number.
var hashed = regexp.MustCompile(`^[0-9a-f]{8}\.[0-9]+$`)

// loadAuthorities reads the authorities in a file, and in the files of a directory that openssl-rehash(1) has named. It
// ignores other files, as OpenSSL does not find them either. Without a file and a directory there is no authority.
// first is the authority that expires first.
func loadAuthorities(file, dir string) (pool *x509.CertPool, first *x509.Certificate, err error) {
	pool = x509.NewCertPool() // not nil: the system's authorities must not be trusted for clients
	refuse := func(err error) (*x509.CertPool, *x509.Certificate, error) {
		return nil, nil, fmt.Errorf("Failed to configure CA certificate(s) file/directory: %s", reason.InContext(err))
	}
	add := func(text []byte) (some bool) {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
				pool.AddCert(c)
				first, some = earlier(first, c), true
			}
		}
		return some
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return refuse(err)
		}
		if !add(text) {
			return refuse(fmt.Errorf("no certificate in %s", file))
		}
	}
	if dir == "" {
		return pool, first, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return refuse(err)
	}
	for _, e := range entries {
		if !hashed.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return refuse(err)
		}
		add(text)
	}
	return pool, first, nil
}
