package aof

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestBaseFollowsTheFolder: while the log is off, BGREWRITEAOF writes to the server's current folder.
func TestBaseFollowsTheFolder(t *testing.T) {
	s := testkit.Start(t, "--enable-protected-configs", "yes")
	if err := os.Mkdir(s.File("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "dir", s.File("other"))
	s.Do("BGREWRITEAOF")
	testkit.Until(t, testkit.Slowly(20*time.Second), "a log in the other folder", func() error {
		_, err := os.Stat(s.File("other/appendonlydir/appendonly.aof.manifest"))
		return err
	})
	if _, err := os.Stat(s.File("appendonlydir")); !os.IsNotExist(err) {
		t.Errorf("there is a log in the first folder: %v", err)
	}
}

// TestOldLogLoadsAmongClients: while a log from before 7.0 is loaded, clients get LOADING.
func TestOldLogLoadsAmongClients(t *testing.T) {
	dir := t.TempDir()
	text := protocol.AppendCommand(nil, [][]byte{[]byte("EVAL"), []byte("while true do redis.call('ping') end"),
		[]byte("0")})
	if err := os.WriteFile(filepath.Join(dir, "appendonly.aof"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Dir: dir, Args: []string{"--appendonly", "yes"}, NoWait: true})
	testkit.Until(t, testkit.Slowly(20*time.Second), "LOADING", func() error {
		c, err := respclient.DialTimeout(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetTimeout(testkit.Slowly(time.Second))
		v, err := c.Do("PING")
		if err == nil && !strings.HasPrefix(v.Text, "LOADING ") {
			err = errors.New(v.Text)
		}
		return err
	})
}
