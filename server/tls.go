package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"spindle/internal/config"
	"spindle/internal/tlsconfig"
	"spindle/reactor"
	"spindle/replication"
)

// errTLS is what clients read of a TLS configuration that cannot be. The log has the cause.
var errTLS = errors.New("Unable to update TLS configuration. Check server logs.")

// joinTLS has connections go by the tls-* directives.
func (in *instance) joinTLS() {
	in.registry.OnChange(in.renewTLS, tlsconfig.Reread()...)
	in.registry.OnChange(func() error {
		if err := in.renewTLS(); err != nil {
			return err
		}
		return in.rebind(errNoPort)
	}, "tls-port")
}

// wantsTLS says whether any connection is a TLS connection. Without one no certificate is read.
func (in *instance) wantsTLS() bool {
	return in.sockets.TLSPort.Get() != 0 || in.tls.Replication.Get() || in.tls.Cluster.Get() || in.own.AdminTLS.Get()
}

// renewTLS reads the certificates and gives them to the handshakes that begin from now on.
func (in *instance) renewTLS() error {
	if !in.wantsTLS() {
		in.primaryTLS.Store(nil)
		in.busTLS.Store(nil)
		return nil
	}
	configs, err := in.buildTLS()
	if err != nil {
		return errTLS
	}
	in.reactor.SetTLS(configs.Server)
	return nil
}

// startTLS reads the certificates for the first time.
func (in *instance) startTLS(o *reactor.Options) error {
	if !in.wantsTLS() {
		return nil
	}
	configs, err := in.buildTLS()
	if err != nil {
		in.log.Warning("Failed to configure TLS. Check logs for more info.")
		return config.ErrLogged
	}
	o.TLS = configs.Server
	return nil
}

// buildTLS reads the certificates, and has the link to a primary go by them. The log has the cause of an error.
func (in *instance) buildTLS() (*tlsconfig.Configs, error) {
	configs, err := tlsconfig.Build(&in.tls)
	if err != nil {
		in.log.Warning("%s", err)
		return nil, err
	}
	if in.tls.Replication.Get() {
		in.primaryTLS.Store(configs.Client)
	} else {
		in.primaryTLS.Store(nil)
	}
	if in.tls.Cluster.Get() {
		in.busTLS.Store(configs)
	} else {
		in.busTLS.Store(nil)
	}
	in.adminTLS.Store(configs.Server)
	return configs, nil
}

// adminConfig has each handshake on the admin address go by the certificates of its time.
func (in *instance) adminConfig() *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		current := in.adminTLS.Load() // startTLS comes before the admin address
		if current.GetConfigForClient != nil {
			if chosen, err := current.GetConfigForClient(hello); chosen != nil || err != nil {
				return chosen, err
			}
		}
		return current, nil
	}}
}

// dialPrimary opens the connection to a primary, under TLS if tls-replication says so. Any goroutine.
func (in *instance) dialPrimary(ctx context.Context, address, source string) (net.Conn, error) {
	conn, err := replication.Dial(ctx, address, source)
	secure := in.primaryTLS.Load()
	if err != nil || secure == nil {
		return conn, err
	}
	in.handshaking()
	secured := tls.Client(conn, secure)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// replicaPort is the port that this server names to its primary.
func (in *instance) replicaPort() int {
	if port := in.sockets.TLSPort.Get(); port != 0 && in.tls.Replication.Get() {
		return int(port)
	}
	return int(in.sockets.Port.Get())
}

// handshaking has threads beside the loops while TLS handshakes compute.
func (in *instance) handshaking() {
	in.core.Do(func() {
		in.threads.Greet(reactor.Handshakers())
		in.countThreads()
	})
}
