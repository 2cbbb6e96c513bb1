package server

import (
	"context"
	"net"

	"spindle/cluster/migrate"
)

// joinMigrate connects the core with MIGRATE.
func (in *instance) joinMigrate() {
	in.migrator = migrate.New(migrate.Parts{
		Core: in.core, Dumper: in.saver.Dumper, Dial: in.dialNode, Begun: in.countThreads,
	})
	in.sections = append(in.sections, in.migrator.Section())
}

// dialNode opens a connection to another server's port for clients. Any goroutine.
func (in *instance) dialNode(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
