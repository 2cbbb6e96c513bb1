package store

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"spindle/internal/setting"
)

// Settings are the directives about the store, which proxies and dashboards share.
type Settings struct {
	Address        setting.String // store
	Prefix         setting.String
	User, Password setting.String
	CAFile         setting.String
	Cert, Key      setting.String
	TimeoutMs      setting.Int
}

// Rows returns the settings' rows. It sets every setting to its default.
func (s *Settings) Rows() []setting.Row {
	return []setting.Row{
		setting.NewString("store", &s.Address, "", setting.Immutable, setting.CheckString(checkStore)),
		setting.NewString("store-prefix", &s.Prefix, "/spindle", setting.Immutable, setting.CheckString(checkPrefix)),
		setting.NewString("store-user", &s.User, "", setting.Immutable),
		setting.NewString("store-password", &s.Password, "", setting.Immutable, setting.Sensitive),
		setting.NewString("store-ca-cert-file", &s.CAFile, "", setting.Immutable),
		setting.NewString("store-cert-file", &s.Cert, "", setting.Immutable),
		setting.NewString("store-key-file", &s.Key, "", setting.Immutable),
		setting.NewInt("store-timeout", &s.TimeoutMs, 3000, setting.Immutable, setting.Between(100, 60000)),
	}
}

// The directive store has one of these schemes.
const (
	plain   = "etcd://"
	secured = "etcds://"
	folder  = "folder:"
)

var errStore = errors.New("a store is etcd://HOST:PORT,…, etcds://HOST:PORT,… or folder:/PATH")

func checkStore(address string) error {
	if address == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(address, folder); ok && path != "" {
		return nil
	}
	_, _, err := members(address)
	return err
}

// members returns the addresses of the members of an etcd.
func members(address string) (list []string, secure bool, err error) {
	rest, ok := strings.CutPrefix(address, plain)
	if !ok {
		if rest, secure = strings.CutPrefix(address, secured); !secure {
			return nil, false, errStore
		}
	}
	list = strings.Split(rest, ",")
	for _, m := range list {
		if CheckAddress(m) != nil {
			return nil, false, errStore
		}
	}
	return list, secure, nil
}

func checkPrefix(prefix string) error {
	if !strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") || strings.Contains(prefix, "//") ||
		len(prefix) > 128 {
		return errors.New("a prefix begins with / and does not end with it")
	}
	return nil
}

// Open opens the store that the settings name. It reads the certificates but does not connect.
func Open(s *Settings) (Store, error) {
	address := s.Address.Get()
	if address == "" {
		return nil, errors.New("store is missing: " + errStore.Error())
	}
	if path, ok := strings.CutPrefix(address, folder); ok {
		return OpenFolder(path)
	}
	list, secure, err := members(address)
	if err != nil {
		return nil, err
	}
	o := Options{User: s.User.Get(), Password: s.Password.Get(),
		Timeout: time.Duration(s.TimeoutMs.Get()) * time.Millisecond}
	switch {
	case secure:
		if o.TLS, err = s.tls(); err != nil {
			return nil, err
		}
	case s.CAFile.Get() != "" || s.Cert.Get() != "":
		return nil, errors.New("store-ca-cert-file and store-cert-file need a store etcds://…")
	}
	return OpenEtcd(list, o), nil
}

// tls returns the TLS configuration for connections to etcd.
func (s *Settings) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := s.CAFile.Get(); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", file)
		}
	}
	if file := s.Cert.Get(); file != "" {
		pair, err := tls.LoadX509KeyPair(file, s.Key.Get())
		if err != nil {
			return nil, err
		}
		// Certificates are renewed while a process runs, so each handshake reads the files again. If that fails, as between
		// the renewals of the two files, the certificate of the start is used.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now, err := tls.LoadX509KeyPair(file, s.Key.Get()); err == nil {
				return &now, nil
			}
			return &pair, nil
		}
	}
	return c, nil
}
