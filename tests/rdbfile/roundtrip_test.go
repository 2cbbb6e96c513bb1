package rdbfile

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// encoding returns a key's encoding, with the names that servers of this RDB version use. Before version 11 even a
// short list is a quicklist.
func encoding(s *testkit.Server, key string, version int) string {
	name := s.Do("OBJECT", "ENCODING", key).Text
	if version == 80 {
		return "" // Valkey has other encodings
	}
	if version < 11 && name == "listpack" && s.Do("TYPE", key).Text == "list" {
		return "quicklist"
	}
	return name
}

// state returns everything that must be equal on all servers, with one line per key.
func state(s *testkit.Server, version int) (lines []string, digest string) {
	for db := range 4 {
		s.Do("SELECT", db)
		for _, key := range s.Do("KEYS", "*").Elems {
			k := key.Text
			lines = append(lines, fmt.Sprintf("%d %.40s %s %s pexpiretime %d digest %s", db, k, s.Do("TYPE", k).Text,
				encoding(s, k, version), s.Do("PEXPIRETIME", k).Int, s.Do("DEBUG", "DIGEST-VALUE", k).Elems[0].Text))
			if s.Do("TYPE", k).Text == "stream" { // this digest leaves out all but entries
				lines = append(lines, fmt.Sprintf("%d %.40s: %s", db, k, lasting(s.Do("XINFO", "STREAM", k, "FULL", "COUNT", 0))))
			}
		}
	}
	s.Do("SELECT", 0)
	slices.Sort(lines)
	return lines, s.Do("DEBUG", "DIGEST").Text
}

// lasting returns XINFO's reply without the fields that only the newest RDB version stores.
func lasting(v respclient.Value) string {
	if len(v.Elems) == 0 {
		return v.String()
	}
	var parts []string
	for i := 0; i < len(v.Elems); i++ {
		if v.Elems[i].Text == "active-time" {
			i++
			continue
		}
		parts = append(parts, lasting(v.Elems[i]))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// same fails the test unless two states are equal.
func same(t *testing.T, what string, was, is []string, digestWas, digestIs string) {
	t.Helper()
	for i := range max(len(was), len(is)) {
		var w, n string
		if i < len(was) {
			w = was[i]
		}
		if i < len(is) {
			n = is[i]
		}
		if w != n {
			t.Fatalf("%s:\nwas %s\nis  %s", what, w, n)
		}
	}
	if digestWas != digestIs {
		t.Errorf("%s: digest %s, was %s", what, digestIs, digestWas)
	}
}

// TestRoundTrip: spindle loads a file of redis-server with the same data and encodings. redis-server loads the file
// that spindle then writes with the same data. DUMP payloads do the same, key by key, in both directions.
func TestRoundTrip(t *testing.T) {
	for _, p := range testkit.Peers(t) {
		for _, d := range datasets {
			t.Run(p.Name+"/"+d.name, func(t *testing.T) { roundTrip(t, p.Program, p.RDBVersion, d) })
		}
	}
}

func roundTrip(t *testing.T, program string, version int, d dataset) {
	if d.needs > version {
		t.Skipf("the reference reads RDB version %d, which cannot say it", version)
	}
	if d.needs >= 12 && version == 80 {
		t.Skip("TestExchange compares them: Valkey's digests leave them out, and its encodings have other names")
	}
	if d.mine {
		fromHere(t, program, version, d)
		return
	}
	here := testkit.Launch(t, testkit.Spec{Args: append(slices.Clone(d.settings), "--rdb-write-version",
		fmt.Sprint(version))})
	there := testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: d.settings})
	d.fill(func(args ...any) { there.Do(args...) })
	was, digest := state(there, version)
	there.Do("SAVE")

	payloads(t, there, here)
	is, digestIs := state(here, version)
	same(t, "by payloads from there", was, is, digest, digestIs)

	carry(t, there, here)
	is, digestIs = state(here, version)
	same(t, "by a file from there", was, is, digest, digestIs)
	here.Do("DEBUG", "RELOAD")
	is, digestIs = state(here, version)
	same(t, "after DEBUG RELOAD", was, is, digest, digestIs)

	there.Do("FLUSHALL")
	payloads(t, here, there)
	is, digestIs = state(there, version)
	same(t, "back by payloads", was, is, digest, digestIs)
	here.Do("SAVE")
	check(t, here.File("dump.rdb"), version)
	carry(t, here, there)
	is, digestIs = state(there, version)
	same(t, "back by a file", was, is, digest, digestIs)
}

// fromHere is the half of the round trip that begins with spindle's data. redis-server must have the same digests of
// keys, whatever their encodings.
func fromHere(t *testing.T, program string, version int, d dataset) {
	here := testkit.Launch(t, testkit.Spec{Args: append(slices.Clone(d.settings), "--rdb-write-version",
		fmt.Sprint(version))})
	there := testkit.Launch(t, testkit.Spec{Redis: true, Program: program, Args: d.settings})
	d.fill(func(args ...any) { here.Do(args...) })
	was, digest := ends(here)
	compare := func(what string, s *testkit.Server) {
		t.Helper()
		is, digestIs := ends(s)
		same(t, what, was, is, digest, digestIs)
	}
	payloads(t, here, there)
	compare("by payloads", there)
	here.Do("DEBUG", "RELOAD")
	compare("after DEBUG RELOAD", here)
	here.Do("SAVE")
	check(t, here.File("dump.rdb"), version)
	carry(t, here, there)
	compare("by a file", there)
}

// ends returns facts about lists: some that depend on stored counts, and some from walks through the list. A digest
// alone may miss a wrong count.
func ends(s *testkit.Server) (lines []string, digest string) {
	for _, key := range s.Do("KEYS", "*").Elems {
		k := key.Text
		n := s.Do("LLEN", k).Int
		lines = append(lines, fmt.Sprintf("%s: %d elements, %d by a walk, the last %.20q, by its place %.20q, digest %s",
			k, n, len(s.Do("LRANGE", k, 0, -1).Elems), s.Do("LINDEX", k, -1).Text, s.Do("LINDEX", k, n-1).Text,
			s.Do("DEBUG", "DIGEST-VALUE", k).Elems[0].Text))
	}
	slices.Sort(lines)
	return lines, s.Do("DEBUG", "DIGEST").Text
}

// payloads copies every key of databases 0 to 3 by DUMP and RESTORE.
func payloads(t *testing.T, from, to *testkit.Server) {
	t.Helper()
	for db := range 4 {
		from.Do("SELECT", db)
		to.Do("SELECT", db)
		for _, key := range from.Do("KEYS", "*").Elems {
			at := max(0, from.Do("PEXPIRETIME", key.Text).Int)
			if v, err := to.Ask("RESTORE", key.Text, at, from.Do("DUMP", key.Text).Text, "ABSTTL"); err != nil ||
				v.Err() != nil {
				t.Fatalf("RESTORE of %.60q: %v %v", key.Text, err, v.Err())
			}
		}
	}
	from.Do("SELECT", 0)
	to.Do("SELECT", 0)
}

// carry saves the data of from, and starts to with that file.
func carry(t *testing.T, from, to *testkit.Server) {
	t.Helper()
	b, err := os.ReadFile(from.File("dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	to.Kill()
	if err := os.WriteFile(to.File("dump.rdb"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	to.Restart()
}

// check runs redis-check-rdb and our checker on the file. redis-check-rdb from the PATH reads version 10.
func check(t *testing.T, path string, version int) {
	t.Helper()
	if out, err := exec.Command(testkit.Spindle(t), "check-rdb", path).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "RDB looks OK") {
		t.Fatalf("check-rdb: %v\n%s", err, out)
	}
	if version > 10 {
		return
	}
	if out, err := exec.Command(testkit.Program(t, "redis-check-rdb"), path).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "RDB looks OK") {
		t.Fatalf("redis-check-rdb: %v\n%s", err, out)
	}
}
