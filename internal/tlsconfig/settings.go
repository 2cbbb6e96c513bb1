// Package tlsconfig makes a tls.Config from the tls-* directives.
//
// Owner: its caller. Build reads files, and any goroutine may call it; its result never changes.
// Never: listens, or keeps a file open.
// Start at Build; ciphers.go reads OpenSSL's cipher lists, key.go encrypted keys, sessions.go stores sessions. names.go
// finds a client's user, watch.go notices changed files, ends.go tells when certificates expire.
package tlsconfig

import (
	"math"

	"spindle/internal/setting"
)

// Settings are the directives. Auth is read at each handshake, User after it, Reload by a Watch, the others by Build.
type Settings struct {
	Cert, Key, KeyPass                setting.String
	ClientCert, ClientKey, ClientPass setting.String // for links that this server opens; "": the others are used
	CAFile, CADir                     setting.String
	Auth                              setting.Enum[Auth]
	User                              setting.Enum[User]
	Protocols, Ciphers, Suites        setting.String
	PreferServer                      setting.Bool
	Caching                           setting.Bool
	CacheSize                         setting.Int  // sessions; 0: no bound
	CacheTimeout                      setting.Int  // seconds
	Replication                       setting.Bool // links to primaries use TLS
	Cluster                           setting.Bool // links of the cluster bus use TLS
	Reload                            setting.Int  // seconds between two looks at the files; 0: none
}

// Auth says which certificate a client must show.
type Auth int

// The values of tls-auth-clients.
const (
	AuthNo       Auth = iota // none is requested
	AuthYes                  // a certificate signed by a configured authority
	AuthOptional             // none, or one signed by a configured authority
)

// User says which part of a client's certificate names its ACL user.
type User int

// The values of tls-auth-clients-user.
const (
	UserOff User = iota // no part
	UserCN              // the first common name
	UserURI             // a URI of the other names
)

// Rows returns the settings' rows. It gives every setting its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewString("tls-cert-file", &s.Cert, "", setting.Volatile),
		setting.NewString("tls-key-file", &s.Key, "", setting.Volatile),
		setting.NewString("tls-key-file-pass", &s.KeyPass, "", setting.Sensitive),
		setting.NewString("tls-client-cert-file", &s.ClientCert, "", setting.Volatile),
		setting.NewString("tls-client-key-file", &s.ClientKey, "", setting.Volatile),
		setting.NewString("tls-client-key-file-pass", &s.ClientPass, "", setting.Sensitive),
		setting.NewString("tls-ca-cert-file", &s.CAFile, "", setting.Volatile),
		setting.NewString("tls-ca-cert-dir", &s.CADir, "", setting.Volatile),
		setting.NewEnum("tls-auth-clients", &s.Auth, AuthYes, []setting.Choice[Auth]{
			{Name: "no", Value: AuthNo}, {Name: "yes", Value: AuthYes}, {Name: "optional", Value: AuthOptional},
		}),
		setting.NewEnum("tls-auth-clients-user", &s.User, UserOff, []setting.Choice[User]{
			{Name: "CN", Value: UserCN}, {Name: "URI", Value: UserURI}, {Name: "off", Value: UserOff},
		}),
		setting.NewInt("tls-auto-reload-interval", &s.Reload, 0, setting.Between(0, math.MaxInt32)),
		setting.NewString("tls-protocols", &s.Protocols, ""),
		setting.NewString("tls-ciphers", &s.Ciphers, ""),
		setting.NewString("tls-ciphersuites", &s.Suites, ""),
		setting.NewBool("tls-prefer-server-ciphers", &s.PreferServer, false),
		setting.NewBool("tls-session-caching", &s.Caching, true),
		setting.NewInt("tls-session-cache-size", &s.CacheSize, 20480, setting.Between(0, math.MaxInt32)),
		setting.NewInt("tls-session-cache-timeout", &s.CacheTimeout, 300, setting.Between(0, math.MaxInt32)),
		setting.NewBool("tls-replication", &s.Replication, false),
		setting.NewBool("tls-cluster", &s.Cluster, false),
	}
}

// Reread returns the names of the rows that Build reads. After a change of one, Build must be called again.
func Reread() []string {
	return []string{
		"tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-client-cert-file", "tls-client-key-file",
		"tls-client-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-protocols", "tls-ciphers",
		"tls-ciphersuites", "tls-prefer-server-ciphers", "tls-session-caching", "tls-session-cache-size",
		"tls-session-cache-timeout", "tls-replication", "tls-cluster",
	}
}
