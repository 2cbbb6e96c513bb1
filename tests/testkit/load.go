package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"spindle/protocol/respclient"
)

// window is the number of requests that Pipe has in flight.
const window = 500

// Pipe sends n requests, many at a time. It fails the test on the first error or error reply.
func Pipe(t testing.TB, c *respclient.Client, n int, request func(i int) []any) {
	t.Helper()
	for from := 0; from < n; from += window {
		to := min(n, from+window)
		for i := from; i < to; i++ {
			c.Send(request(i)...)
		}
		for i := from; i < to; i++ {
			v, err := c.Receive()
			if err == nil {
				err = v.Err()
			}
			if err != nil {
				t.Fatalf("%.200v: %v", request(i), err)
			}
		}
	}
}

// Sum returns a fingerprint of a file's bytes.
func Sum(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
