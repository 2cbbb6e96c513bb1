//go:build race

package testkit

// raceBuild is how the servers are built when the tests are watched by the race detector.
var raceBuild = []string{"-race"}
