package dashboard

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestTrialOfThePage follows the trial of doc/dashboard.md to the letter, except for the ports and the store's folder.
func TestTrialOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../doc/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	_, trial, _ := strings.Cut(string(page), "## A trial\n\n```sh\n")
	trial, _, found := strings.Cut(trial, "```")
	if !found {
		t.Fatal("doc/dashboard.md has no trial")
	}
	dir, address := t.TempDir(), "127.0.0.1:"+strconv.Itoa(testkit.FreePort(t))
	if err := os.Symlink(testkit.Spindle(t), filepath.Join(dir, "spindle")); err != nil {
		t.Fatal(err)
	}
	testkit.Program(t, "redis-server")
	script := strings.ReplaceAll(trial, "folder:/tmp/store", "folder:"+filepath.Join(dir, "store"))
	script = strings.ReplaceAll(script, "spindle --dashboard ", "spindle --dashboard --dashboard-address "+address+" ")
	for _, port := range []string{"7001", "7002"} {
		ours := testkit.FreePort(t)
		script = strings.ReplaceAll(script, port, strconv.Itoa(ours))
		t.Cleanup(func() { testkit.ShutDown(t, ours) })
	}
	script = "set -e\ncd " + dir + "\nPATH=$PWD:$PATH\nexport SPINDLE_DASHBOARD_URL=http://" + address +
		"\ntrap 'kill $!; wait $!' EXIT\n" + script
	out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), script, "/bin/sh")
	if code != 0 {
		t.Fatalf("the trial ends with %d: %s", code, out)
	}
	_, groups, _ := strings.Cut(out, "done")
	for _, group := range []string{"a", "b"} {
		if !strings.Contains(groups, "\n"+group+" ") {
			t.Errorf("the last command does not show group %s: %s", group, out)
		}
	}
	t.Log(out)
}
