package server

import (
	"context"
	"crypto/tls"
	"net"

	"spindle/cluster/migrate"
)

// joinMigrate connects the core with MIGRATE.
func (in *instance) joinMigrate() {
	in.migrator = migrate.New(migrate.Parts{
		Core: in.core, Dumper: in.set.Saver.Dumper, Dial: in.dialNode, Begun: in.countThreads,
		Cluster: in.clustering.Enabled.Get(),
	})
}

// dialNode opens a connection to another server's port for clients, under TLS if tls-cluster says so. Any goroutine.
func (in *instance) dialNode(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	configs := in.busTLS.Load()
	if err != nil || configs == nil {
		return conn, err
	}
	in.handshaking()
	secured := tls.Client(conn, configs.Client)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}
