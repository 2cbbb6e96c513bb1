//go:build race

package testkit

// raceBuild has the flags for building the servers when the tests run under the race detector.
var raceBuild = []string{"-race"}

// Race reports that servers run under the race detector, where memory comes from the Go heap.
const Race = true
