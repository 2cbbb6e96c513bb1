package backup

import (
	"testing"

	"spindle/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Waiting(m) }
