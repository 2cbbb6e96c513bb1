package config

import (
	"errors"
	"testing"

	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/internal/setting"
	"spindle/tests/testkit/commandtest"
)

// TestConfig sends requests and compares the replies, in RESP2 unless the name says otherwise.
func TestConfig(t *testing.T) {
	var (
		count, other          setting.Int
		secret                setting.String
		loading, protected    bool
		rewriteErr            error
		rewrites, resets      int
		refuseCount, resetAll = errors.New("not thirteen"), func() { resets++ }
	)
	registry, err := setting.NewRegistry([]setting.Row{
		setting.NewInt("count", &count, 10, setting.Between(0, 100)),
		setting.NewInt("other", &other, 1, setting.Protected, setting.DenyLoading),
		setting.NewString("secret", &secret, "", setting.Sensitive),
	})
	if err != nil {
		t.Fatal(err)
	}
	registry.OnChange(func() error {
		if count.Get() == 13 {
			return refuseCount
		}
		return nil
	}, "count")
	heap, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	core, err := commandtest.New(keyspace.New(heap, keyspace.Options{Databases: 1}), 1_700_000_000_000, Family(Parts{
		Registry: registry, MayProtect: func(bool) bool { return protected }, Loading: func() bool { return loading },
		Rewrite: func() error { rewrites++; return rewriteErr }, ResetStat: resetAll,
	}))
	if err != nil {
		t.Fatal(err)
	}
	cl := core.Client(2)
	expect := func(want string, words ...string) {
		t.Helper()
		if got := core.Do(cl, words...); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
	expect("*2\r\n$5\r\ncount\r\n$2\r\n10\r\n", "CONFIG", "GET", "count")
	expect("*4\r\n$5\r\ncount\r\n$2\r\n10\r\n$5\r\nother\r\n$1\r\n1\r\n", "config", "get", "*O*")
	expect("*0\r\n", "config", "get", "nosuch")
	expect("+OK\r\n", "config", "set", "count", "20", "secret", "x")
	expect("-ERR syntax error\r\n", "config", "set", "count", "30", "secret")
	expect("-ERR CONFIG SET failed (possibly related to argument 'count') - argument must be between 0 and 100 "+
		"inclusive\r\n",
		"config", "set", "secret", "y", "count", "101")
	expect("-ERR CONFIG SET failed (possibly related to argument 'count') - not thirteen\r\n",
		"config", "set", "secret", "y", "count", "13")
	expect("-ERR CONFIG SET failed (possibly related to argument 'other') - can't set protected config\r\n",
		"config", "set", "other", "2")
	protected, loading = true, true
	expect("-LOADING Redis is loading the dataset in memory\r\n", "config", "set", "other", "2")
	loading = false
	expect("+OK\r\n", "config", "set", "other", "2")
	if count.Get() != 20 || secret.Get() != "x" || other.Get() != 2 {
		t.Errorf("count %d, secret %q, other %d", count.Get(), secret.Get(), other.Get())
	}
	expect("+OK\r\n", "config", "resetstat")
	expect("+OK\r\n", "config", "rewrite")
	rewriteErr = errors.New("The server is running without a config file")
	expect("-ERR The server is running without a config file\r\n", "config", "rewrite")
	if resets != 1 || rewrites != 2 {
		t.Errorf("%d resets, %d rewrites", resets, rewrites)
	}
	cl = core.Client(3)
	expect("%1\r\n$6\r\nsecret\r\n$1\r\nx\r\n", "config", "get", "secret")

	// set removes the secret from the arguments before a log sees them.
	args := [][]byte{[]byte("config"), []byte("set"), []byte("Secret"), []byte("hush"), []byte("nosuch"), []byte("1")}
	ctx := command.Context{Client: cl, Args: args, Reply: cl.Out}
	if err := (Parts{Registry: registry, MayProtect: func(bool) bool { return false },
		Loading: func() bool { return false }}).set(&ctx); err == nil {
		t.Error("nosuch was set")
	}
	if string(args[3]) != "(redacted)" || string(args[5]) != "1" {
		t.Errorf("%q", args)
	}
}
