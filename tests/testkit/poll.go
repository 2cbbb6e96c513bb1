package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// slack is how many times longer than on a quiet host a state may take to come. The host of a test may be slow, and
// busy with other tests.
const slack = 4

// Until calls ask repeatedly until it returns nil. After slack times limit it fails the test with the last error.
func Until(t testing.TB, limit time.Duration, what string, ask func() error) {
	t.Helper()
	limit *= slack
	if err := Poll(limit, ask); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// Poll calls ask repeatedly until it returns nil. After limit it returns the last error.
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

// Await calls holds repeatedly until it returns true. After slack times limit it fails the test.
func Await(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	limit *= slack
	if !Holds(limit, holds) {
		t.Fatalf("%s: not within %v", what, limit)
	}
}

// Holds calls holds repeatedly until it returns true. After limit it returns false.
func Holds(limit time.Duration, holds func() bool) bool {
	return Poll(limit, func() error {
		if !holds() {
			return errNotYet
		}
		return nil
	}) == nil
}

var errNotYet = errors.New("not yet")

// Moment waits for a random part of most: chance decides when the next step comes.
func Moment(rng *rand.Rand, most time.Duration) {
	if most > 0 {
		time.Sleep(time.Duration(rng.Int64N(int64(most))))
	}
}

// Lapse waits until a deadline that is now at most ttl away is past. A test cannot poll for it: a look deletes the key.
func Lapse(ttl time.Duration) { time.Sleep(ttl + time.Millisecond) }

// Equal returns nil if got is want, else an error. It is meant for Until.
func Equal[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}
