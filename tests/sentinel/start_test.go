package sentinel

import (
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// launch starts spindle as a Sentinel with a file of this text, and returns its exit code and log.
func launch(t *testing.T, text string, args ...string) (code int, log string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/sentinel.conf", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if args == nil {
		args = []string{"--sentinel", dir + "/sentinel.conf"}
	}
	s := testkit.Launch(t, testkit.Spec{Bare: true, Dir: dir, NoWait: true, Args: args})
	code = s.Wait(30 * time.Second)
	return code, s.Log()
}

// TestRefusedStart: for an error in the file, the Sentinel reports the line and exits. It does not start without a
// file.
func TestRefusedStart(t *testing.T) {
	t.Parallel()
	const monitor = "sentinel monitor m 127.0.0.1 1 1\n"
	for text, want := range map[string]string{
		"sentinel monitor m 127.0.0.1 1 0\n":                  "Quorum must be 1 or greater.",
		"sentinel monitor m 127.0.0.1 70000 1\n":              "Invalid port number.",
		"sentinel monitor m localhost 1 1\n":                  "Can't resolve instance hostname.",
		monitor + monitor:                                     "Duplicate master name.",
		"sentinel down-after-milliseconds m 1\n":              "No such master with specified name.",
		monitor + "sentinel down-after-milliseconds m 0\n":    "negative or zero time parameter.",
		monitor + "sentinel notification-script m /nowhere\n": "Notification script seems non existing or non executable.",
		"sentinel myid short\n":                               "Malformed Sentinel id in myid option.",
		"sentinel nonsense\n":                                 "Unrecognized sentinel configuration statement.",
		"sentinel resolve-hostnames perhaps\n":                "Please specify yes or no for the resolve-hostnames option.",
	} {
		code, log := launch(t, text)
		if code != 1 || !strings.Contains(log, want) || !strings.Contains(log, "FATAL CONFIG FILE ERROR") {
			t.Errorf("%q: exit code %d, %s", text, code, log)
		}
	}
	code, log := launch(t, "", "--sentinel")
	if code != 1 || !strings.Contains(log, "Sentinel needs config file on disk to save state. Exiting...") {
		t.Errorf("without a file: exit code %d, %s", code, log)
	}
}

// TestStateSurvives: a Sentinel writes its state to its file, next to the operator's lines, and reads it after a
// restart.
func TestStateSurvives(t *testing.T) {
	t.Parallel()
	s := sentinel(t, testkit.Ours, "# mine", "sentinel monitor m 127.0.0.1 1 2", "SENTINEL down-after-milliseconds m 5000")
	id := s.Do("SENTINEL", "MYID").Text
	if len(id) != 40 {
		t.Fatalf("the id: %q", id)
	}
	const peer, candidate = "0123456789abcdef0123456789abcdef01234567", "aaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbb"
	s.Do("PUBLISH", "__sentinel__:hello", "127.0.0.1,7,"+peer+",3,m,127.0.0.1,1,0")
	v := s.Do("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "127.0.0.1", 1, 5, candidate)
	if v.Elems[1].Text != candidate || v.Elems[2].Int != 5 {
		t.Fatalf("the vote: %v", v)
	}
	for _, line := range []string{"# mine\n", "sentinel myid " + id + "\n",
		"sentinel known-sentinel m 127.0.0.1 7 " + peer + "\n",
		"sentinel current-epoch 5\n", "sentinel leader-epoch m 5\n", "sentinel down-after-milliseconds m 5000\n"} {
		if text, err := os.ReadFile(s.file); err != nil || !strings.Contains(string(text), line) {
			t.Errorf("the file lacks %q: %v\n%s", line, err, text)
		}
	}
	s.Kill()
	s.Restart()
	if again := s.Do("SENTINEL", "MYID").Text; again != id {
		t.Errorf("after a restart the id is %q, not %q", again, id)
	}
	m := fields(s.Do("SENTINEL", "MASTER", "m"))
	if m["num-other-sentinels"] != "1" || m["down-after-milliseconds"] != "5000" {
		t.Errorf("after a restart: %v", m)
	}
	v = s.Do("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "127.0.0.1", 1, 5, peer)
	if v.Elems[1].Text == peer {
		t.Errorf("a second vote in the same epoch: %v", v)
	}
}
