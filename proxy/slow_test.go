package proxy

import (
	"bytes"
	"testing"
)

// TestRedacted: SLOWLOG has no password of MIGRATE.
func TestRedacted(t *testing.T) {
	for request, want := range map[string]string{
		"MIGRATE h 1 k 0 9 COPY AUTH pw":            "MIGRATE h 1 k 0 9 COPY AUTH (redacted)",
		"migrate h 1 _ 0 9 auth2 me pw keys auth a": "migrate h 1 _ 0 9 auth2 (redacted) (redacted) keys auth a",
		"MIGRATE h 1 k 0 9 AUTH2 me":                "MIGRATE h 1 k 0 9 AUTH2 (redacted)",
		"MIGRATE h 1 k 0 9 AUTH":                    "MIGRATE h 1 k 0 9 AUTH",
		"SET h 1 k 0 9 AUTH pw":                     "SET h 1 k 0 9 AUTH pw",
	} {
		if got := string(bytes.Join(redacted(bytes.Fields([]byte(request))), []byte(" "))); got != want {
			t.Errorf("%s: %s", request, got)
		}
	}
}
