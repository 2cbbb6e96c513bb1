package tlsconfig

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"spindle/tests/testkit/authority"
)

// TestWatch: changed files are used after the interval. Invalid files are not, and are logged once. Without an interval
// nothing is read.
func TestWatch(t *testing.T) {
	a := newAuthority(t)
	p := a.sign("server", newECDSA(t))
	s := settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file)
	warned := 0
	c := &Current{Settings: s, Wanted: func() bool { return true }, Warn: func(error) { warned++ }}
	if _, err := c.Load(); err != nil {
		t.Fatal(err)
	}
	var used *tls.Config
	var turn sync.Mutex
	meanwhile := func() {}
	w := &Watch{Current: c, Use: func(server *tls.Config) { used = server }, Log: func(string) {},
		Do: func(f func()) { turn.Lock(); defer turn.Unlock(); meanwhile(); f() }}
	now := int64(1)
	pass := func(ms int64) *tls.Config { // ticks until the goroutine has ended
		used, now = nil, now+ms
		w.Tick(now)
		for w.busy.Load() {
			runtime.Gosched()
		}
		return used
	}
	renew := func() {
		made := a.sign("server", newECDSA(t))
		p.tls = made.tls
	}
	renew()
	if pass(0); pass(1e9) != nil {
		t.Error("read without an interval")
	}
	s.Reload.Set(5)
	if pass(0); pass(4999) != nil {
		t.Error("read before the interval has passed")
	}
	if server := pass(1); server == nil || c.Ends().Server.SerialNumber.Cmp(p.tls.Leaf.SerialNumber) != 0 {
		t.Error("a new certificate is not used")
	}
	if pass(5000) != nil {
		t.Error("the same files are used again")
	}
	for _, path := range []string{p.cert, p.key, a.file} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte("nothing"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if warned = 0; pass(5000) != nil || pass(5000) != nil || warned != 1 {
			t.Errorf("%s is wrong: %d warnings, used: %t", path, warned, used != nil)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if pass(5000) == nil {
			t.Errorf("%s is right again, and not used", path)
		}
	}
	renew()
	meanwhile = func() { c.loads.Add(1) } // a CONFIG SET comes between
	if pass(5000) != nil {
		t.Error("files that were read before a CONFIG SET are used after it")
	}
}

// TestSum: each file of the settings counts, also those in a directory of authorities.
func TestSum(t *testing.T) {
	a := newAuthority(t)
	p, own := a.sign("server", newECDSA(t)), a.sign("client", newECDSA(t))
	dir := t.TempDir()
	inDir := filepath.Join(dir, "0123abcd.0")
	if err := authority.Write(a.own, inDir, filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	s := settingsOf(t, "tls-cert-file", p.cert, "tls-key-file", p.key, "tls-ca-cert-file", a.file, "tls-ca-cert-dir", dir,
		"tls-client-cert-file", own.cert, "tls-client-key-file", own.key)
	before := s.sum()
	for _, path := range []string{p.cert, p.key, own.cert, own.key, a.file, inDir} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(text, '\n'), 0o600)
		}
		if after := s.sum(); err != nil || after == before {
			t.Errorf("%s has changed: %v", path, err)
		} else {
			before = after
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), nil, 0o600); err != nil || s.sum() != before {
		t.Errorf("a file that is not read counts: %v", err)
	}
	if err := os.Remove(inDir); err != nil || s.sum() == before {
		t.Errorf("a file that is gone does not count: %v", err)
	}
}
