package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

var offset = regexp.MustCompile(`offset \d+`)

// TestDamagedFiles: a server with a damaged file exits at start with code 1. The log says what is wrong, where, and
// what to do. The file stays unchanged, so that an operator can repair it.
func TestDamagedFiles(t *testing.T) {
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any {
		return []any{"SET", fmt.Sprint("key:", i), strings.Repeat("v", i%200), "PXAT", 4102444800000 + i}
	})
	s.Do("SAVE")
	if code := s.Terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	whole, err := os.ReadFile(s.File("dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	half := len(whole) / 2
	changed := func(at int, with ...byte) []byte {
		b := bytes.Clone(whole)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name  string
		file  []byte
		where bool // the message names an offset
		says  string
	}{
		{"empty", nil, false, ""},
		{"only the signature", whole[:9], true, "hort read"},
		{"cut in the header", whole[:30], true, "hort read"},
		{"cut in the middle", whole[:half], true, "hort read"},
		{"cut in the checksum", whole[:len(whole)-3], true, "hort read"},
		{"another checksum", changed(len(whole)-1, ^whole[len(whole)-1]), true, "checksum"},
		{"zeros in the middle", append(append(bytes.Clone(whole[:half]), make([]byte, 4096)...),
			whole[min(len(whole), half+4096):]...), true, ""},
		{"0xFF in the middle", append(append(bytes.Clone(whole[:half]), bytes.Repeat([]byte{0xff}, 4096)...),
			whole[min(len(whole), half+4096):]...), true, ""},
		{"a version to come", changed(5, []byte("0099")...), false, "version"},
		{"no number for a version", changed(5, []byte("zzzz")...), false, "version"},
		{"a text", []byte(strings.Repeat("to be or not to be\n", 200)), false, "signature"},
		{"an append-only file", []byte("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"), false, "signature"},
		{"two signatures", append([]byte("REDIS0010"), whole...), true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := dir + "/dump.rdb"
			if err := os.WriteFile(path, c.file, 0o644); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, path, c.where, c.says)
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, c.file) {
				t.Errorf("the file did not stay as it was: %v", err)
			}
		})
	}
}

// TestDamageAnywhere: a file with every type is truncated at any place, or has one byte changed anywhere after its
// version. The server must refuse to start.
func TestDamageAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any {
		key := fmt.Sprint(i%6, ":", i%300)
		switch i % 6 {
		case 0:
			return []any{"SET", key, strings.Repeat("v", i%200)}
		case 1:
			return []any{"RPUSH", key, i, "x"}
		case 2:
			return []any{"SADD", key, i, fmt.Sprint("m", i%7)}
		case 3:
			return []any{"ZADD", key, i, fmt.Sprint("m", i)}
		case 4:
			return []any{"HSET", key, fmt.Sprint("f", i), i}
		}
		return []any{"XADD", key, "*", "f", i}
	})
	s.Do("SAVE")
	s.Kill()
	whole, err := os.ReadFile(s.File("dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 10 * testkit.Scale() {
		at := len("REDIS0011") + rng.IntN(len(whole)-len("REDIS0011"))
		file := whole[:at]
		if round%2 == 0 {
			file = bytes.Clone(whole)
			file[at] ^= byte(1 + rng.IntN(255))
		}
		dir := t.TempDir()
		path := dir + "/dump.rdb"
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, path, true, "")
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, file) {
			t.Errorf("the file did not stay as it was: %v", err)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d: byte %d of %d", seed, round, at, len(whole))
		}
	}
}

// refused starts a server on dir. It must exit with code 1 and log the reason.
func refused(t *testing.T, dir, path string, where bool, says string) {
	t.Helper()
	r := testkit.Launch(t, testkit.Spec{Dir: dir, NoWait: true})
	if code := r.Wait(testkit.Slowly(20 * time.Second)); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	log := r.Log()
	if strings.Contains(log, "Ready to accept") {
		t.Error("it served before it refused")
	}
	if where && !offset.MatchString(log) {
		t.Error("no offset is named")
	}
	for _, word := range []string{says, "What to do", filepath.Base(path)} {
		if !strings.Contains(strings.ToLower(log), strings.ToLower(word)) {
			t.Errorf("the log does not say %q", word)
		}
	}
}

// TestForeignFile: a file of redis-server is loaded and gives the same digest.
func TestForeignFile(t *testing.T) {
	r := testkit.Redis(t)
	testkit.Pipe(t, r.Dial(), 2000, func(i int) []any { return []any{"SET", fmt.Sprint("key:", i), i * 7} })
	r.Do("SELECT", "3")
	r.Do("SET", "volatile", strings.Repeat("x", 100_000), "EX", "100000")
	digest := r.Do("DEBUG", "DIGEST").Text
	r.Do("SAVE")
	s := testkit.Launch(t, testkit.Spec{Dir: r.Dir})
	if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
		t.Errorf("digest %s, redis-server has %s", got, digest)
	}
}

// TestFileThatCannotBeRead: if a folder has the name of the file, the server refuses to start instead of starting
// empty.
func TestFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/dump.rdb", 0o755); err != nil {
		t.Fatal(err)
	}
	r := testkit.Launch(t, testkit.Spec{Dir: dir, NoWait: true})
	if code := r.Wait(testkit.Slowly(20 * time.Second)); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}
