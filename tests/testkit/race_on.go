//go:build race

package testkit

// raceBuild is how the servers are built when the tests are watched by the race detector.
var raceBuild = []string{"-race"}

// Race says that servers run under the race detector, where memory comes from the Go heap.
const Race = true
