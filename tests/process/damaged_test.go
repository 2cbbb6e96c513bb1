package process

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// undamaged lists directives that the damaged files leave out, such as the server's address and the files that it
// opens. A wrong value would start something or write outside the folder.
var undamaged = []string{"port", "bind", "dir", "logfile", "pidfile", "unixsocket", "unixsocketperm", "daemonize",
	"supervised", "syslog-enabled", "aclfile",
	"replicaof", "slaveof", "save", "cluster-enabled", "cluster-config-file", "appendonly", "appenddirname",
	"enable-module-command", "requirepass",
	"oom-score-adj", "maxclients", "bind-source-addr", "set-proc-title", "disable-thp", "crash-log-enabled",
	"crash-memcheck-enabled",
	"server_cpulist", "bio_cpulist", "aof_rewrite_cpulist", "bgsave_cpulist", "always-show-logo", "locale-collate",
	"proc-title-template"}

// wholeFile returns a configuration that both servers accept, with a line for each directive that both have.
func wholeFile(t *testing.T) (lines []string) {
	ours := testkit.Start(t)
	known := map[string]bool{}
	for i, name := range ours.Do("CONFIG", "GET", "*").Strings() {
		known[name] = known[name] || i%2 == 0
	}
	all := testkit.Redis(t).Do("CONFIG", "GET", "*").Strings()
	for i := 0; i+1 < len(all); i += 2 {
		name, value := all[i], all[i+1]
		if !known[name] || slices.Contains(undamaged, name) || strings.HasPrefix(name, "tls-") ||
			strings.HasPrefix(name, "cluster-announce") {
			continue
		}
		if name == "client-output-buffer-limit" {
			value = "normal 0 0 0"
		}
		if value == "" {
			value = `""`
		}
		lines = append(lines, name+" "+value)
	}
	slices.Sort(lines)
	return lines
}

// spoil damages one line at random.
func spoil(rng *rand.Rand, line string) string {
	at := rng.IntN(len(line))
	name, value, _ := strings.Cut(line, " ")
	switch rng.IntN(12) {
	case 0:
		return line[:at] + line[at+1:]
	case 1:
		return line[:at] + string(rune(' '+rng.IntN(95))) + line[at+1:]
	case 2:
		return line[:at] + `"` + line[at:]
	case 3:
		return line[:at]
	case 4:
		return name
	case 5:
		return line + " " + value
	case 6:
		return name + " -" + value
	case 7:
		return name + " " + strings.Repeat("9", 5+rng.IntN(20))
	case 8:
		return value + " " + name
	case 9:
		return name + " " + value + []string{"k", "gb", "%", "x", "\t", "e3", ".5", " #"}[rng.IntN(8)]
	case 10:
		return strings.ToUpper(line)
	}
	return name + " " + []string{"yes", "no", "0", "1", "-1", `""`, "'a'", "none", "maybe", "\x01", "\xff"}[rng.IntN(11)]
}

var (
	redisLine   = regexp.MustCompile(`at line (\d+)`)
	spindleLine = regexp.MustCompile(`(?m)^\S+:(\d+): `)
)

// TestDamagedFiles: for files with one damaged line, --check-config agrees with redis-server. It accepts the files that
// redis-server accepts, and names the line that redis-server refuses. SPINDLE_TEST_SCALE increases the number of files.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	lines, dir := wholeFile(t), t.TempDir()
	if len(lines) < 100 {
		t.Fatalf("only %d directives: %v", len(lines), lines)
	}
	redis, spindle := testkit.Program(t, "redis-server"), testkit.Spindle(t)
	path := filepath.Join(dir, "a.conf")
	// judge returns the verdict of each program: the file is accepted, or the line that the program names.
	judge := func(text string) (theirs, ours string, said string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		limit := testkit.Slowly(30 * time.Second)
		// A server without any address exits by itself.
		out, _ := testkit.Run(t, limit, "", redis, path, "--port", "0", "--dir", dir)
		theirs = "taken"
		if m := redisLine.FindStringSubmatch(out); m != nil {
			theirs = m[1]
		} else if strings.Contains(out, "FATAL CONFIG") {
			theirs = "refused"
		}
		said, code := testkit.Run(t, limit, "", spindle, "--check-config", path, "--port", "6379")
		ours = "taken"
		if m := spindleLine.FindStringSubmatch(said); code != 0 && m != nil {
			ours = m[1]
		} else if code != 0 {
			ours = "refused"
		}
		return theirs, ours, said
	}
	if theirs, ours, said := judge(strings.Join(lines, "\n") + "\n"); theirs != "taken" || ours != "taken" {
		t.Fatalf("undamaged: redis-server %s, --check-config %s: %s", theirs, ours, said)
	}
	refused, taken := 0, 0
	for seed := range uint64(20 * testkit.Scale()) {
		rng := rand.New(rand.NewPCG(seed, 25))
		at := rng.IntN(len(lines))
		damaged := slices.Clone(lines)
		damaged[at] = spoil(rng, damaged[at])
		theirs, ours, said := judge(strings.Join(damaged, "\n") + "\n")
		if theirs == "taken" {
			taken++
		} else {
			refused++
		}
		if theirs != ours {
			t.Errorf("seed %d, line %d, %q: redis-server %s, --check-config %s: %s", seed, at+1, damaged[at], theirs, ours, said)
		}
		if ours != "taken" && (ours != strconv.Itoa(at+1) ||
			!strings.Contains(said, fmt.Sprintf("%q", damaged[at])) && !strings.Contains(said, damaged[at])) {
			t.Errorf("seed %d: line %d, %q, is not shown: %s", seed, at+1, damaged[at], said)
		}
	}
	if refused < 6*testkit.Scale() || taken < 2*testkit.Scale() {
		t.Errorf("%d files were refused and %d taken: that proves little", refused, taken)
	}
}
