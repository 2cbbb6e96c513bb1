package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// needs are the programs of a run and the Debian packages that contain them.
var needs = []struct{ program, pkg string }{
	{"redis-server", "redis-server"}, {"redis-cli", "redis-tools"}, {"dpkg-source", "dpkg-dev"}, {"tclsh", "tcl"},
	{"ps", "procps"}, {"ip", "iproute2"}, {"unshare", "util-linux"},
}

var errNoApt = errors.New("the suite comes from Debian's redis source package, and there is no apt-get here")

// fetchSource returns the unpacked source package of the redis that Debian has installed, and its version.
//
// The package is downloaded once, into the user's cache folder. apt reads our own source list, so the machine's apt
// configuration, lists and cache do not change.
func fetchSource(ctx context.Context) (dir, version string, err error) {
	if err := install(ctx); err != nil {
		return "", "", err
	}
	out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version}", "redis-server").Output()
	if err != nil {
		return "", "", fmt.Errorf("asking dpkg for the version of redis-server: %w", err)
	}
	version = string(out)
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	home := filepath.Join(cache, strings.NewReplacer(":", "_", "~", "_", "/", "_").Replace(version))
	if dir, err := unpacked(home); err == nil {
		return dir, version, nil
	}
	if err := aptSource(ctx, home, version); err != nil {
		return "", "", err
	}
	dir, err = unpacked(home)
	return dir, version, err
}

// install installs the missing programs, as the Makefile's deps target does.
func install(ctx context.Context) error {
	var missing []string
	for _, n := range needs {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w (missing: %s)", errNoApt, strings.Join(missing, " "))
	}
	if err := asRoot(ctx, "apt-get", "update", "-q"); err != nil {
		return err
	}
	return asRoot(ctx, "apt-get", append([]string{"install", "-yq"}, missing...)...)
}

func asRoot(ctx context.Context, program string, args ...string) error {
	if os.Getuid() != 0 {
		args, program = append([]string{program}, args...), "sudo"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return nil
}

func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no HOME, as for a container's build user
	}
	cache = filepath.Join(cache, "spindle", "conformance")
	return cache, os.MkdirAll(cache, 0o755)
}

// unpacked returns the folder below home that holds a suite.
func unpacked(home string) (string, error) {
	found, err := filepath.Glob(filepath.Join(home, "*", "tests", "test_helper.tcl"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no Tcl suite below %s", home)
	}
	return filepath.Dir(filepath.Dir(found[0])), nil
}

// aptSource runs apt-get source in home, with its own lists, cache and sources for this run.
func aptSource(ctx context.Context, home, version string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errNoApt
	}
	apt := filepath.Join(home, "apt")
	for _, dir := range []string{"parts", "lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(apt, dir), 0o755); err != nil {
			return err
		}
	}
	defer os.RemoveAll(apt)
	archives, err := archivesOf(ctx, "redis-server")
	if err != nil {
		return err
	}
	if err := writeSources(filepath.Join(apt, "parts"), archives); err != nil {
		return err
	}
	own := []string{
		"-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + filepath.Join(apt, "parts"),
		"-o", "Dir::State::lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + filepath.Join(apt, "cache"),
		"-o", "APT::Sandbox::User=root", "-q",
	}
	get := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "apt-get", slices.Concat(own, args)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = home, os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s in %s: %w", strings.Join(args, " "), home, err)
		}
		return nil
	}
	if err := get("update"); err != nil {
		return err
	}
	return get("source", "redis="+version)
}

// archivesOf returns the archives that pkg may come from, as apt-cache policy lists them.
func archivesOf(ctx context.Context, pkg string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-cache", "policy", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("apt-cache policy %s: %w", pkg, err)
	}
	var archives []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 && strings.Contains(f[1], "://") && !slices.Contains(archives, f[1]) {
			archives = append(archives, strings.TrimSuffix(f[1], "/"))
		}
	}
	if len(archives) == 0 {
		return nil, fmt.Errorf("apt knows no archive of %s", pkg)
	}
	return archives, nil
}

// writeSources writes the machine's entries for these archives into dir, with deb-src instead of deb.
func writeSources(dir string, archives []string) error {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	files = append(files, "/etc/apt/sources.list")
	written := 0
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // sources.list may be missing
		}
		suffix := filepath.Ext(file)
		entries := sourceLines(string(text), archives)
		if suffix == ".sources" {
			entries = sourceStanzas(string(text), archives)
		}
		if entries == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d%s", i, suffix)), []byte(entries), 0o644); err != nil {
			return err
		}
		written++
	}
	if written == 0 {
		return fmt.Errorf("no entry of /etc/apt names %s", strings.Join(archives, " or "))
	}
	return nil
}

// sourceLines converts the one-line form: "deb [options] uri suite component".
func sourceLines(text string, archives []string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest, isDeb := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if isDeb && namesOne(rest, archives) {
			b.WriteString("deb-src " + rest + "\n")
		}
	}
	return b.String()
}

// sourceStanzas converts the deb822 form: paragraphs with Types and URIs.
func sourceStanzas(text string, archives []string) string {
	var b strings.Builder
	for stanza := range strings.SplitSeq(text, "\n\n") {
		if !namesOne(stanza, archives) {
			continue
		}
		isDeb := false
		lines := strings.Split(strings.TrimSpace(stanza), "\n")
		for i, line := range lines {
			if types, ok := strings.CutPrefix(line, "Types:"); ok {
				isDeb = slices.Contains(strings.Fields(types), "deb")
				lines[i] = "Types: deb-src"
			}
		}
		if isDeb {
			b.WriteString(strings.Join(lines, "\n") + "\n\n")
		}
	}
	return b.String()
}

func namesOne(entry string, archives []string) bool {
	for _, word := range strings.Fields(entry) {
		if slices.Contains(archives, strings.TrimSuffix(word, "/")) {
			return true
		}
	}
	return false
}
