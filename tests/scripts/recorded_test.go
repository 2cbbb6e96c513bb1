package scripts

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// recordedFile has one line for each request that the generator makes from recordedSeed: the beginning of the SHA-256
// of redis-server 7.4.1's reply. If SPINDLE_SCRIPT_RECORD and REDIS_SERVER are set, TestRecorded writes the file again.
const (
	recordedFile     = "testdata/replies-7.4.1.txt"
	recordedSeed     = 1
	recordedRequests = 3000
)

// TestRecorded: the replies to a fixed list of scripts, functions and requests about them equal those of 7.4.1. If one
// differs, TestAgainstRedis with SPINDLE_SCRIPT_SEED=1 shows both replies.
func TestRecorded(t *testing.T) {
	record := os.Getenv("SPINDLE_SCRIPT_RECORD") != ""
	var server *testkit.Server
	var want []string
	if record {
		old := false
		if server, old = reference(t); old {
			t.Fatal("REDIS_SERVER is older than 7.4")
		}
	} else {
		server = testkit.Start(t)
		text, err := os.ReadFile(recordedFile)
		if err != nil {
			t.Fatal(err)
		}
		if want = strings.Fields(string(text)); len(want) != recordedRequests {
			t.Fatalf("%s has %d lines", recordedFile, len(want))
		}
	}
	c := server.Dial()
	g := &generator{Rand: rand.New(rand.NewPCG(recordedSeed, 1))}
	var lines bytes.Buffer
	differ := 0
	for i := range recordedRequests {
		args := g.request()
		reply := normalise(args, ask(t, c, args))
		line := fmt.Sprintf("%x", sha256.Sum256([]byte(reply)))[:12]
		lines.WriteString(line + "\n")
		if !record && line != want[i] {
			if differ++; differ <= 3 {
				t.Errorf("request %d: %q\nanswered otherwise: %q", i,
					strings.Replace(strings.Join(args, " "), prelude, "", 1), reply)
			}
		}
	}
	t.Logf("%d requests, %d calls of the API, %d differ", recordedRequests, g.calls, differ)
	if record {
		if err := os.WriteFile(recordedFile, lines.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
