// Package install tests what `make install` puts on a host: files, units, configuration.
//
// Owner: none; each test installs into its own folder.
package install
