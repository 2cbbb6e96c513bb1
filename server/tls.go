package server

import (
	"errors"

	"spindle/internal/tlsconfig"
	"spindle/reactor"
)

// errTLS is what clients read of a TLS configuration that cannot be. The log has the cause.
var errTLS = errors.New(tlsRefusal)

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

// renewTLS reads the certificates and gives them to the handshakes that begin from now on. Without a tls-port there are
// none, and nothing is read.
func (in *instance) renewTLS() error {
	if in.sockets.TLSPort.Get() == 0 {
		return nil
	}
	config, err := tlsconfig.Build(&in.tls)
	if err != nil {
		in.log.Warning("%s", err)
		return errTLS
	}
	in.reactor.SetTLS(config)
	return nil
}

// startTLS reads the certificates for the first time.
func (in *instance) startTLS(o *reactor.Options) (err error) {
	if in.sockets.TLSPort.Get() == 0 {
		return nil
	}
	if o.TLS, err = tlsconfig.Build(&in.tls); err != nil {
		in.log.Warning("%s", err)
		in.log.Warning("Failed to configure TLS. Check logs for more info.")
		return errLogged
	}
	return nil
}

// handshaking has threads beside the loops while TLS handshakes compute.
func (in *instance) handshaking() {
	in.core.Do(func() {
		in.threads.greet(reactor.Handshakers())
		in.countThreads()
	})
}
