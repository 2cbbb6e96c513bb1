package server

import (
	"context"
	"net"

	"spindle/cluster/migrate"
)

// joinMigrate connects the core with MIGRATE.
func (in *instance) joinMigrate() {
	in.migrator = migrate.New(migrate.Parts{
		Core: in.core, Dumper: in.set.Saver.Dumper, Begun: in.threads.count,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", address)
			if err != nil {
				return conn, err
			}
			return in.certificates.SecureNode(ctx, conn)
		},
		Cluster: in.clustering.Enabled.Get(),
	})
}
