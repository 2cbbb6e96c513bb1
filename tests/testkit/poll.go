package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// slack is the factor by which a test waits longer than its limit. The host of a test may be slow, and busy with other
// tests.
const slack = 4

// Until calls ask repeatedly until it returns nil. After slack times limit, Until fails the test with the last error.
func Until(t testing.TB, limit time.Duration, what string, ask func() error) {
	t.Helper()
	limit *= slack
	if err := Poll(limit, ask); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// Poll calls ask repeatedly until it returns nil. After limit, Poll returns the last error.
func Poll(limit time.Duration, ask func() error) error {
	pause := 200 * time.Microsecond
	for deadline := time.Now().Add(limit); ; {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
		pause = min(pause*2, 50*time.Millisecond)
	}
}

// Await calls holds repeatedly until it returns true. After slack times limit, Await fails the test.
func Await(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	limit *= slack
	if !Holds(limit, holds) {
		t.Fatalf("%s: not within %v", what, limit)
	}
}

// Holds calls holds repeatedly until it returns true. After limit, Holds returns false.
func Holds(limit time.Duration, holds func() bool) bool {
	return Poll(limit, func() error {
		if !holds() {
			return errNotYet
		}
		return nil
	}) == nil
}

var errNotYet = errors.New("not yet")

// Moment waits for a random part of most, so that the next step comes at a random time.
func Moment(rng *rand.Rand, most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
	}
}

// Lapse waits until a deadline that is at most ttl away has passed. A test cannot poll for the deadline, because an
// access would delete the key.
func Lapse(ttl time.Duration) { time.Sleep(ttl + time.Millisecond) }

// Equal returns nil if got equals want, and otherwise an error. It is for use with Until.
func Equal[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}
