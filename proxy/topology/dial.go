package topology

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"spindle/protocol/respclient"
)

// Access configures how a Finder connects to servers.
type Access struct {
	User     string             // "" means the default user
	Password string             // "" means that none is sent
	TLS      func() *tls.Config // the configuration of a handshake; nil means bare connections
	Timeout  time.Duration      // the time limit of a connection, and of each reply; 0 means 2 s
}

const usualTimeout = 2 * time.Second

// Dial connects to addr and authenticates.
func (a Access) Dial(addr string) (*respclient.Client, error) {
	if a.Timeout == 0 {
		a.Timeout = usualTimeout
	}
	conn, err := net.DialTimeout("tcp", addr, a.Timeout)
	if err != nil {
		return nil, err
	}
	if a.TLS != nil {
		config := a.TLS()
		if config.ServerName == "" && !config.InsecureSkipVerify {
			config = config.Clone()
			config.ServerName = hostOf(addr)
		}
		secure := tls.Client(conn, config)
		err = conn.SetDeadline(time.Now().Add(a.Timeout))
		if err == nil {
			err = secure.Handshake()
		}
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		conn = secure
	}
	c := respclient.New(conn)
	c.SetTimeout(a.Timeout)
	if a.Password == "" {
		return c, nil
	}
	request := []any{"AUTH", a.Password}
	if a.User != "" {
		request = []any{"AUTH", a.User, a.Password}
	}
	v, err := c.Do(request...)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("AUTH: %w", err)
	}
	return c, nil
}
