package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// TestDoctor plants one fault of a host at a time.
func TestDoctor(t *testing.T) {
	const gb = 1 << 30
	healthy := map[string]string{
		"proc/meminfo":                               "MemTotal:       16777216 kB\nMemFree:  1 kB\n",
		"proc/swaps":                                 "Filename Type Size Used Priority\n",
		"proc/sys/vm/overcommit_memory":              "1\n",
		"proc/sys/vm/swappiness":                     "60\n",
		"proc/sys/net/core/somaxconn":                "4096\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
		"sys/fs/cgroup/cpu.max":                      "max 100000\n",
		"sys/fs/cgroup/memory.max":                   "max\n",
	}
	suits := Plan{MaxMemory: 8 * gb, MaxClients: 10000, Files: 32, Backlog: 511, Folder: t.TempDir()}
	unlimited := func(int) (unix.Rlimit, error) {
		return unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil
	}
	files := func(most uint64) func(int) (unix.Rlimit, error) {
		return func(resource int) (unix.Rlimit, error) {
			if resource == unix.RLIMIT_NOFILE {
				return unix.Rlimit{Cur: most, Max: most}, nil
			}
			return unlimited(resource)
		}
	}
	large := t.TempDir()
	if f, err := os.Create(filepath.Join(large, "dump.rdb")); err != nil || f.Truncate(1<<43) != nil || f.Close() != nil {
		t.Fatal("no sparse file of 8 TB can be made: ", err)
	}
	for _, c := range []struct {
		name    string // of the finding
		file    string
		text    string // of file
		change  func(h *host, p *Plan)
		verdict Verdict
		sees    string
	}{
		{"THP", "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]", nil, Fine, "never"},
		{"THP", "sys/kernel/mm/transparent_hugepage/enabled", "", nil, Unknown, "has no"},
		{"overcommit", "proc/sys/vm/overcommit_memory", "2", nil, Problem, "is 2"},
		{"overcommit", "proc/sys/vm/overcommit_memory", "", nil, Unknown, "cannot be read"},
		{"memory", "", "", func(_ *host, p *Plan) { p.MaxMemory = 17 * gb }, Problem,
			"maxmemory is 17 GB, the host has 16 GB"},
		{"memory", "", "", func(_ *host, p *Plan) { p.MaxMemory = 15 * gb }, Advice, "maxmemory is 15 GB"},
		{"memory", "", "", func(_ *host, p *Plan) { p.MaxMemory = 0 }, Advice, "not set"},
		{"memory", "sys/fs/cgroup/memory.max", "4294967296", nil, Problem, "the control group has 4 GB"},
		{"memory", "proc/meminfo", "", nil, Unknown, "cannot be read"},
		{"swap", "proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 2097152 0 -2\n", nil, Advice, "2 GB"},
		{"open files", "", "", func(h *host, _ *Plan) {
			h.limit = files(4096)
		}, Advice, "4096 are allowed, 10000 clients need 10032"},
		{"open files", "", "", func(h *host, _ *Plan) {
			h.root = true
			h.limit = files(4096)
		}, Fine, "root raises"},
		{"address space", "", "", func(h *host, _ *Plan) {
			h.limit = func(int) (unix.Rlimit, error) { return unix.Rlimit{Cur: gb, Max: gb}, nil }
		}, Problem, "is 1 GB"},
		{"backlog", "proc/sys/net/core/somaxconn", "128", nil, Advice, "somaxconn is 128"},
		{"processors", "sys/fs/cgroup/cpu.max", "50000 100000", nil, Advice, "0.5 processors"},
		{"processors", "sys/fs/cgroup/cpu.max", "400000 100000", nil, Fine, "4 processors"},
		{"time", "", "", func(h *host, _ *Plan) { h.clock = func() (int, error) { return 5, nil } }, Advice, "no service"},
		{"time", "", "", func(h *host, _ *Plan) {
			h.clock = func() (int, error) { return -1, errors.New("denied") }
		}, Unknown, "does not say"},
		{"folder", "", "", func(_ *host, p *Plan) { p.Persists, p.Folder = true, "/no/such/folder" }, Problem,
			"no such file"},
		{"folder", "", "", func(_ *host, p *Plan) { p.Persists, p.Folder = true, large }, Advice, "take 8 TB"},
		{"file system", "", "", func(_ *host, p *Plan) { p.Persists, p.Folder = true, "/dev/shm" }, Problem, "tmpfs"},
		{"sync", "", "", func(_ *host, p *Plan) { p.Persists, p.Syncs = true, true }, Fine, " ms, at most "},
	} {
		files := fstest.MapFS{}
		for path, text := range healthy {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if c.file != "" {
			files[c.file] = &fstest.MapFile{Data: []byte(c.text)}
		}
		h, p := host{files: files, limit: unlimited, clock: func() (int, error) { return 0, nil }}, suits
		if c.change != nil {
			c.change(&h, &p)
		}
		var out bytes.Buffer
		all := h.examine(p)
		code := Print(&out, all)
		found := false
		for _, f := range all {
			switch {
			case f.Name == c.name:
				found = true
				slowDisk := f.Name == "sync" && f.Verdict == Advice // of the machine that tests
				if f.Verdict != c.verdict && !slowDisk || !strings.Contains(f.Sees, c.sees) {
					t.Errorf("%s %s: %+v, want %s %q", c.name, c.text, f, c.verdict, c.sees)
				}
			case f.Verdict == Problem:
				t.Errorf("%s %s: also %+v", c.name, c.text, f)
			}
			if (f.Change == "") != (f.Verdict <= Unknown) || (f.Why == "") != (f.Change == "") {
				t.Errorf("%+v tells not what to change and why", f)
			}
		}
		if want := c.verdict == Problem; !found || (code == 1) != want {
			t.Errorf("%s %s: found %v, exit code %d\n%s", c.name, c.text, found, code, &out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(suits.Folder, "*")); len(left) > 0 {
		t.Errorf("the doctor left %v", left)
	}
}
