//go:build !race

package testkit

var raceBuild []string

const Race = false
