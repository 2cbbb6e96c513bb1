package process

import (
	"fmt"
	"os"
	"testing"

	"spindle/tests/testkit"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(forbidden); program != "" {
		fmt.Fprintln(os.Stderr, becomeForbidden(program))
		os.Exit(1)
	}
	testkit.Waiting(m)
}
