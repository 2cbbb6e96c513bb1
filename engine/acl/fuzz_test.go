package acl

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// FuzzRules: any rules are applied completely or not at all, and the text of a user makes the same user again.
//
// The second check skips texts with quotes or parentheses inside selectors. Words in parentheses lose their quotes
// there, as in Redis.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		"on nopass +@all ~* &*", ">pw <pw #12 !12", "+get +config|get -config|set +select|1", "%R~a %W~a %~ % %RW",
		"(+get ~x) ( &y", "reset clearselectors ()",
		"+@read|x -@ALL +| - + +@", "~a\x00b on\x00 +get\x00x", "(+\"get\" '~x')", "~[ &\\",
		"db=1,0 resetdbs alldbs DB=+2 db=, db=-1 (db=7 +get)",
	} {
		f.Add([]byte(seed), []byte("+get ~a"))
	}
	f.Fuzz(func(t *testing.T, rules, selector []byte) {
		u := newSample(t)
		before := mustSet(t, u, "x", "on +get ~a")
		text := before.Text()
		list := append(bytes.Split(rules, []byte(" ")), []byte("("+string(selector)+")"))
		change, err := u.Set([]byte("x"), list)
		if err != nil {
			if u.Find([]byte("x")).Rights() != before || before.Text() != text {
				t.Fatal("an error changed the user")
			}
			return
		}
		r := change.User.Rights()
		for _, call := range []string{"get a", "config get a", "select 1", "publish a b", "mget a b c", "psubscribe a"} {
			if d := u.ask(r, call); r.Full() && d.Refused() {
				t.Fatalf("%s: full, but %s is refused", r.Text(), call)
			}
		}
		if bytes.ContainsAny(rules, `"'()\`) || bytes.ContainsAny(selector, `"'()\`) {
			return
		}
		again, err := u.Set([]byte("y"), append([][]byte{[]byte("reset")}, bytes.Split([]byte(r.Text()), []byte(" "))...))
		if err != nil || again.User.Rights().Text() != r.Text() {
			t.Fatalf("%q: %v, again %q", r.Text(), err, again.User.Rights().Text())
		}
		if !slices.Equal(again.User.Rights().verdicts, r.verdicts) {
			t.Fatalf("%q decides otherwise when made again", r.Text())
		}
	})
}

// FuzzFile: any file is loaded completely or not at all, and a saved file loads as the same users.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "user a on +get ~x\nuser default off\n", "user a (+get\n",
		"user a (+get ~x) on\n\n", "usr a\n", "user\n", "user  on\n", "user a\tb\n", "user a +nope\nuser a\n",
	} {
		f.Add([]byte(seed))
	}
	path := f.TempDir() + "/users.acl"
	f.Fuzz(func(t *testing.T, text []byte) {
		u := newSample(t)
		mustSet(t, u, "x", "on +get ~a")
		before := u.Lines()
		loaded, err := u.parseFile(path, text)
		if err != nil {
			if !slices.Equal(u.Lines(), before) {
				t.Fatal("an error changed users")
			}
			return
		}
		u.replace(loaded)
		lines := u.Lines()
		if bytes.ContainsAny(text, `"'()\`) || u.Find(nil) != nil {
			return
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := u.Load(path); err != nil || !slices.Equal(u.Lines(), lines) {
			t.Fatalf("%q: %v, again %q", lines, err, u.Lines())
		}
	})
}
