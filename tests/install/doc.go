// Package install tests the files that `make install` puts on a host: programs, units, configuration.
//
// Owner: none; each test installs into its own folder.
package install
