package testkit

import (
	"fmt"
	"testing"
	"time"
)

// Until calls ask repeatedly until it returns nil. After limit it fails the test with the last error.
func Until(t testing.TB, limit time.Duration, what string, ask func() error) {
	t.Helper()
	if err := Poll(limit, ask); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// Poll calls ask repeatedly until it returns nil. After limit it returns the last error.
func Poll(limit time.Duration, ask func() error) error {
	pause := time.Millisecond
	for deadline := time.Now().Add(limit); ; {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
		pause = min(pause*2, 50*time.Millisecond)
	}
}

// Equal returns nil if got is want, else an error. It is meant for Until.
func Equal[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}
