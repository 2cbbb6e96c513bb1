package dashboard

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"spindle/internal/config"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/tlsconfig"
	"spindle/proxy/store"
)

// settings are all directives of a dashboard.
type settings struct {
	process process.Settings
	store   store.Settings
	tls     tlsconfig.Settings

	Address, URL, Host         setting.String
	TLS                        setting.Bool
	ReadToken, WriteToken      setting.String
	LeaseSeconds               setting.Int
	ServerUser, ServerPassword setting.String
	SentinelPassword           setting.String
	ServerTLS                  setting.Bool
	ServerTimeoutMs            setting.Int
}

// rows returns the rows of the settings that only a dashboard has. The call sets every value to its default.
func (s *settings) rows() []setting.Row {
	return []setting.Row{
		setting.NewString("dashboard-address", &s.Address, "127.0.0.1:6390", setting.Immutable,
			setting.CheckString(store.CheckAddress)),
		setting.NewString("dashboard-url", &s.URL, "", setting.Immutable, setting.CheckString(checkURL)),
		setting.NewString("dashboard-host", &s.Host, "", setting.Immutable),
		setting.NewBool("dashboard-tls", &s.TLS, false, setting.Immutable),
		setting.NewString("dashboard-read-token", &s.ReadToken, "", setting.Immutable, setting.Sensitive),
		setting.NewString("dashboard-write-token", &s.WriteToken, "", setting.Immutable, setting.Sensitive),
		setting.NewInt("dashboard-lease", &s.LeaseSeconds, 10, setting.Immutable, setting.Between(2, 600)),
		setting.NewString("server-user", &s.ServerUser, "", setting.Immutable),
		setting.NewString("server-password", &s.ServerPassword, "", setting.Immutable, setting.Sensitive),
		setting.NewString("sentinel-password", &s.SentinelPassword, "", setting.Immutable, setting.Sensitive),
		setting.NewBool("server-tls", &s.ServerTLS, false, setting.Immutable),
		setting.NewInt("server-timeout", &s.ServerTimeoutMs, 15000, setting.Immutable, setting.Between(100, 600000)),
	}
}

// registry returns the registry of all settings.
func (s *settings) registry() (*setting.Registry, error) {
	rows := slices.Concat(s.process.Rows(), s.store.Rows(), s.tls.Rows(), s.rows())
	config.OfServers(rows)
	return setting.NewRegistry(rows)
}

func checkURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" ||
		u.User != nil {
		return errors.New("it is no http://host:port or https://host:port")
	}
	return nil
}

// url returns the URL under which other machines reach a dashboard that listens on at.
func (s *settings) url(at net.Addr) string {
	if text := s.URL.Get(); text != "" {
		return text
	}
	scheme := "http"
	if s.TLS.Get() {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, at)
}

// title returns the values of proc-title-template. program is argv[0].
func (s *settings) title(program, file string) process.Title {
	host, port, _ := net.SplitHostPort(s.Address.Get()) // the row has checked it
	n, _ := strconv.ParseInt(port, 10, 64)
	return process.Title{Program: program, Bind: host, Port: n, Mode: "[dashboard]", ConfigFile: file}
}

// errOpen refuses an address that other machines can reach without a token.
var errOpen = errors.New("dashboard-address is reached from other machines and needs dashboard-read-token")

// listen opens the dashboard's address. Only a loopback address may be open without a read token.
func (s *settings) listen() (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", s.Address.Get())
	if err != nil {
		return nil, err
	}
	if !at.IP.IsLoopback() && s.ReadToken.Get() == "" {
		return nil, errOpen
	}
	return net.ListenTCP("tcp", at)
}
