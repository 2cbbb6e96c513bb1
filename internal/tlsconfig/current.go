package tlsconfig

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
)

// A Current has the certificates in use. Handshakes read it on any goroutine.
type Current struct {
	Settings *Settings
	Wanted   func() bool // reports whether there are TLS connections; without any, no certificate is read
	Warn     func(err error)
	Begins   func() // a handshake of a connection that this server opens begins

	primary atomic.Pointer[tls.Config] // of the link to a primary; nil: without TLS
	bus     atomic.Pointer[Configs]    // of the cluster bus; nil: without TLS
	admin   atomic.Pointer[tls.Config]
	client  atomic.Pointer[tls.Config]
	ends    atomic.Pointer[Ends]
	read    atomic.Pointer[[sha256.Size]byte] // checksum of the files as they were last read
	loads   atomic.Int64                      // how often Load was called
}

// Load reads the certificates if any are needed, and returns the configuration for clients. It logs an error as a
// warning.
func (c *Current) Load() (*tls.Config, error) {
	c.loads.Add(1)
	sum := c.Settings.sum()
	c.read.Store(&sum)
	if !c.Wanted() {
		c.primary.Store(nil)
		c.bus.Store(nil)
		c.ends.Store(nil)
		return nil, nil
	}
	configs, err := Build(c.Settings)
	if err != nil {
		c.Warn(err)
		return nil, err
	}
	c.install(configs)
	return configs.Server, nil
}

// errRenew is the error that clients get when TLS cannot be configured. The log has the cause.
var errRenew = errors.New("Unable to update TLS configuration. Check server logs.")

// Renew reads the certificates again after a CONFIG SET. use makes them the configuration for clients.
func (c *Current) Renew(use func(server *tls.Config)) error {
	server, err := c.Load()
	if err != nil {
		return errRenew
	}
	if server != nil {
		use(server)
	}
	return nil
}

// install makes configs the configurations of later handshakes.
func (c *Current) install(configs *Configs) {
	if c.Settings.Replication.Get() {
		c.primary.Store(configs.Client)
	} else {
		c.primary.Store(nil)
	}
	if c.Settings.Cluster.Get() {
		c.bus.Store(configs)
	} else {
		c.bus.Store(nil)
	}
	c.admin.Store(configs.Server)
	c.client.Store(configs.Client)
	c.ends.Store(&configs.Ends)
}

// Client returns the configuration of connections that a proxy or a dashboard opens to servers. Load must come first.
func (c *Current) Client() *tls.Config { return c.client.Load() }

// Admin returns the configuration of the admin address, and of a dashboard. Load must come before its first handshake.
func (c *Current) Admin() *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		current := c.admin.Load()
		if current.GetConfigForClient != nil {
			if chosen, err := current.GetConfigForClient(hello); chosen != nil || err != nil {
				return chosen, err
			}
		}
		return current, nil
	}}
}

// Bus returns the configurations of the two ends of the cluster bus. Both are nil without TLS.
func (c *Current) Bus() (server, client *tls.Config) {
	if configs := c.bus.Load(); configs != nil {
		return configs.Server, configs.Client
	}
	return nil, nil
}

// SecurePrimary does the handshake with a primary, if tls-replication asks for it. An error closes conn.
func (c *Current) SecurePrimary(ctx context.Context, conn net.Conn) (net.Conn, error) {
	return c.secure(ctx, conn, c.primary.Load())
}

// SecureNode does the handshake with a node of the cluster, if tls-cluster asks for it. An error closes conn.
func (c *Current) SecureNode(ctx context.Context, conn net.Conn) (net.Conn, error) {
	_, client := c.Bus()
	return c.secure(ctx, conn, client)
}

func (c *Current) secure(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return conn, nil
	}
	c.Begins()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}
