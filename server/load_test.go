package server

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"spindle/bgsave"
	"spindle/engine/family/introspect"
	"spindle/internal/config"
	"spindle/internal/logging"
)

// TestFailedLoadServesNoClient: after a load that fails, the server stays in the loading state until the process has
// ended. Without a file the data set is empty and complete.
func TestFailedLoadServesNoClient(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		name, file string
		fails      bool
	}{
		{"no file", "", false},
		{"damaged", "REDIS0011\xfe\x00\x00\x01a\x01b", true}, // a key, and no end
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file != "" {
				if err := os.WriteFile("dump.rdb", []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := assembled(t)
			in.core.Do(func() { in.core.SetLoading(true) })
			if err := in.set.Load(); (err != nil) != tt.fails {
				t.Fatalf("load: %v", err)
			}
			loading := false
			in.core.Do(func() { loading = in.core.Loading() })
			if loading != tt.fails {
				t.Errorf("loading is %t after it", loading)
			}
		})
	}
}

// TestReloadDuringASave: while a background save runs, DEBUG RELOAD is refused with SAVE's error, and keeps the data.
func TestReloadDuringASave(t *testing.T) {
	t.Chdir(t.TempDir())
	in := assembled(t)
	var wait func(time.Duration)
	in.core.Do(func() { // one turn: the save cannot end meanwhile
		in.space.DB(0).SetString([]byte("k"), []byte("v"), 0)
		if _, err := in.set.Scheduler.Background(false, false); err != nil {
			t.Error(err)
		}
		if err := in.set.Reload(nil, introspect.ReloadOptions{}); err != bgsave.ErrInProgress {
			t.Errorf("reload: %v", err)
		}
		if n := in.space.DB(0).Len(); n != 1 {
			t.Errorf("%d keys", n)
		}
		wait = in.set.Scheduler.AbortAndWait("the test ends")
	})
	wait(patience)
}

// TestReloadWithoutAFile: DEBUG RELOAD NOSAVE reports that there is nothing to load, as Redis does.
func TestReloadWithoutAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	in := assembled(t)
	in.core.Do(func() {
		err := in.set.Reload(nil, introspect.ReloadOptions{NoSave: true})
		if err == nil || err.Error() != "ERR Error trying to load the RDB dump, check server logs." {
			t.Errorf("%v", err)
		}
		in.space.DB(0).SetString([]byte("k"), []byte("v"), 0)
		if err := in.set.Reload(nil, introspect.ReloadOptions{}); err != nil || in.space.DB(0).Len() != 1 {
			t.Errorf("%v, %d keys", err, in.space.DB(0).Len())
		}
	})
}

// assembled returns a server that listens only on a Unix socket and runs nothing yet.
func assembled(t testing.TB, more ...string) *instance {
	t.Helper()
	log := logging.New(io.Discard)
	in, err := newInstance(log)
	if err != nil {
		t.Fatal(err)
	}
	args := config.ParseArguments(append([]string{"spindle", "--port", "0", "--unixsocket",
		filepath.Join(t.TempDir(), "s")}, more...))
	if in.config, err = config.Load(in.registry, args, bytes.NewReader(nil), config.Options{Log: log}); err != nil {
		t.Fatal(err)
	}
	if err := in.assemble(args); err != nil {
		t.Fatal(err)
	}
	if err := in.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.listening.reactor.Stop(0)
		in.lazy.Close()
	})
	return in
}
