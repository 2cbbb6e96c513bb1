package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"spindle/internal/config"
	"spindle/server"
)

// made writes all files to a folder.
func made(t *testing.T) (folder string, chapters []config.Chapter) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "spindle.conf"))
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	if err := write(folder, string(page)); err != nil {
		t.Fatal(err)
	}
	registry, err := server.Registry()
	if err != nil {
		t.Fatal(err)
	}
	if _, chapters, err = config.Chapters(registry, string(page)); err != nil {
		t.Fatal(err)
	}
	return folder, chapters
}

// TestPages: every directive is in spindle.conf(5), and man can show every page.
func TestPages(t *testing.T) {
	folder, chapters := made(t)
	text, err := os.ReadFile(filepath.Join(folder, "man", "spindle.conf.5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chapters {
		for _, d := range c.Directives {
			if !strings.Contains(string(text), "\n\\fB"+escape(d.Name)+" ") {
				t.Errorf("spindle.conf(5) lacks %s", d.Name)
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.Contains(line, ". # ") {
			t.Errorf("spindle.conf(5) shows a comment mark: %s", line)
		}
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed: apt install man-db")
	}
	for _, page := range []string{"spindle.1", "spindle-sentinel.1", "spindle-proxy.1", "spindle-dashboard.1",
		"spindle.conf.5", "spindle-proxy.conf.5", "spindle-dashboard.conf.5"} {
		show := exec.Command("man", "--warnings", "-l", filepath.Join(folder, "man", page))
		show.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80", "MANROFFOPT=", "PAGER=cat", "MANPAGER=cat")
		var complaints strings.Builder
		show.Stderr = &complaints
		out, err := show.Output()
		if err != nil || complaints.Len() > 0 || len(out) < 500 {
			t.Errorf("%s: %v, %s, %d bytes", page, err, complaints.String(), len(out))
		}
	}
}

// TestBash completes as bash does: directives, their possible values, tools, and files.
func TestBash(t *testing.T) {
	folder, _ := made(t)
	for _, c := range []struct{ line, want string }{
		{"spindle --appendf", "--appendfilename --appendfsync"},
		{"spindle --appendfsync e", "everysec"},
		{"spindle --appendonly ", "yes no"},
		{"spindle x.conf --maxmemory-p", "--maxmemory-policy"},
		{"spindle --port ", ""},
		{"spindle check", "check-aof check-rdb"},
		{"spindle check-rdb --k", "--keys"},
		{"spindle cluster ", "demo"},
		{"spindle cluster demo --re", "--replicas"},
		{"spindle proxy ", "demo"},
		{"spindle backup p", "push pull prune"},
		{"spindle backup prune --keep-", "--keep-last --keep-days"},
		{"spindle backup list --j", "--json"},
		{"spindle proxy demo --st", "--store"},
		{"spindle --help maxmemory-p", "maxmemory-policy"},
		{"spindle --check-c", "--check-config"},
		{"spindle --dir /et", "/etc"},
	} {
		script := `source "$1"; IFS=' ' read -ra COMP_WORDS <<<"$2"; [[ $2 == *' ' ]] && COMP_WORDS+=("")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _spindle; echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", "-c", script, "bash", filepath.Join(folder, "bash", "spindle"),
			c.line).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}

// TestZsh: zsh accepts the completion file. The test needs zsh.
func TestZsh(t *testing.T) {
	folder, chapters := made(t)
	path := filepath.Join(folder, "zsh", "_spindle")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chapters {
		for _, d := range c.Directives {
			if !strings.Contains(string(text), "'*--"+d.Name+"[") {
				t.Errorf("zsh's completion lacks %s", d.Name)
			}
		}
	}
	if _, err := exec.LookPath("zsh"); err != nil {
		t.Skip("zsh is not installed: apt install zsh")
	}
	if out, err := exec.Command("zsh", "-n", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("zsh: %v %s", err, out)
	}
}
