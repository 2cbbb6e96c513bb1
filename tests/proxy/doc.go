// Package proxy tests the proxy from outside: real clients, in front of real servers.
//
// Owner: each test.
package proxy
