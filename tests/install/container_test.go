package install

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// Instructions are one stage of the container file: its instructions in order.
type instructions []instruction

// An instruction is one line of the container file: "COPY", "--from=build /out/spindle /spindle".
type instruction struct{ name, args string }

// containerFile returns the stages of the container file.
func containerFile(t *testing.T) (stages []instructions) {
	t.Helper()
	for line := range strings.Lines(read(t, "../../packaging/container/Dockerfile")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if name == "FROM" {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], instruction{name, args})
	}
	return stages
}

// args returns the arguments of a stage's only instruction with this name.
func (s instructions) args(t *testing.T, name string) string {
	t.Helper()
	for _, i := range s {
		if i.name == name {
			return i.args
		}
	}
	t.Fatalf("the container file has no %s", name)
	return ""
}

// words returns the words of ENTRYPOINT or CMD in their JSON form.
func (s instructions) words(t *testing.T, name string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.args(t, name)), &words); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return words
}

// built simulates a build without a container. It runs the steps of the first stage in the tree, and does the second
// stage's copies below a new root. The root holds nothing else.
//
// The build of the program itself takes a minute, and only make container-test does it. Otherwise the program that all
// tests use takes its place, with the C library that it needs.
func built(t *testing.T, stages []instructions) (root string) {
	t.Helper()
	out, root := t.TempDir(), t.TempDir()
	whole := os.Getenv("SPINDLE_CONTAINER") != ""
	for _, i := range stages[0] {
		if i.name != "RUN" {
			continue
		}
		if !whole && strings.Contains(i.args, "go build") {
			i.args = "cp " + testkit.Spindle(t) + " /out/spindle"
		}
		step := exec.Command("sh", "-ec", strings.ReplaceAll(i.args, "/out/", out+"/"))
		step.Dir = "../.."
		step.Env = append(os.Environ(), "GOFLAGS=-pgo=off")
		if text, err := step.CombinedOutput(); err != nil {
			t.Fatalf("RUN %s: %v\n%s", i.args, err, text)
		}
	}
	for _, i := range stages[1] {
		if i.name != "COPY" {
			continue
		}
		words := strings.Fields(i.args)
		from, to := words[len(words)-2], filepath.Join(root, words[len(words)-1])
		if text, err := exec.Command("cp", "-a", strings.Replace(from, "/out/", out+"/", 1), to).CombinedOutput(); err !=
			nil {
			t.Fatalf("COPY %s: %v\n%s", i.args, err, text)
		}
		for _, word := range words {
			if owner, is := strings.CutPrefix(word, "--chown="); is {
				if text, err := exec.Command("chown", owner, to).CombinedOutput(); err != nil {
					t.Fatalf("COPY %s: %v\n%s", i.args, err, text)
				}
			}
		}
	}
	if !whole {
		libraries := `ldd /out/spindle | grep -o '/[^ ]*' | xargs -r cp -L --parents -t ` + root
		if text, err := exec.Command("sh", "-c", strings.ReplaceAll(libraries, "/out/", out+"/")).CombinedOutput(); err !=
			nil {
			t.Fatalf("%s: %v\n%s", libraries, err, text)
		}
	}
	for dir := root; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// start runs the second stage's program in the root, as its user and with only its environment variables.
func (s instructions) start(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	user, group, _ := strings.Cut(s.args(t, "USER"), ":")
	uid, wrong := strconv.Atoi(user)
	gid, err := strconv.Atoi(group)
	if wrong != nil || err != nil {
		t.Fatalf("USER %s is not numbers: Kubernetes cannot tell that it is not root", s.args(t, "USER"))
	}
	words := append(s.words(t, "ENTRYPOINT"), args...)
	run := exec.Command(words[0], words[1:]...)
	run.Dir, run.Env = s.args(t, "WORKDIR"), []string{}
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true}}
	var log strings.Builder
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return run
}

// TestContainer: the container file's steps make a root in which the program runs without any other file, as a user
// that is not root. On SIGTERM the program saves its data. The steps run in a plain folder, so that the test needs no
// container engine.
func TestContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change its root")
	}
	t.Parallel()
	stages := containerFile(t)
	if len(stages) != 2 || stages[1].args(t, "FROM") != "scratch" {
		t.Fatalf("the container file has other stages: %v", stages)
	}
	root := built(t, stages)
	final := stages[1]
	port := testkit.FreePort(t)
	args := append(final.words(t, "CMD"), "--port", strconv.Itoa(port), "--bind", "127.0.0.1")
	run := final.start(t, root, args...)
	c := dialled(t, port)
	if v := c.Must("SET", "k", "kept"); v.Text != "OK" {
		t.Error(v)
	}
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("SIGTERM: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "data/dump.rdb")); err != nil {
		t.Error(err)
	}
	final.start(t, root, args...)
	if v := dialled(t, port).Must("GET", "k"); v.Text != "kept" {
		t.Errorf("after a restart: %v", v)
	}
}

// dialled returns a client of a server, and waits if the server is still starting.
func dialled(t *testing.T, port int) (c *respclient.Client) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(30*time.Second), "the server answers", func() (err error) {
		if c, err = respclient.Dial(fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			return err
		}
		v, err := c.Do("PING")
		if err == nil && v.Text != "PONG" && !strings.HasPrefix(v.Text, "NOAUTH") {
			err = v.Err()
		}
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
