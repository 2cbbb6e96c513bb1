package aof

import (
	"testing"

	"spindle/tests/testkit"
)

// Most of these tests wait for the writer's second or for a rewrite.
func TestMain(m *testing.M) { testkit.Waiting(m) }
