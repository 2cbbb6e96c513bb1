// Package install holds tests of what `make install` puts on a host: files, units, configuration.
//
// Owner: none; the installation goes into a folder of the test's own.
package install
