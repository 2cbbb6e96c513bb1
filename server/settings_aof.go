package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"spindle/internal/setting"
)

// aofSettings belong to the append-only file, which is still to come.
type aofSettings struct {
	appendOnly, incremental, noFsync, truncated, preamble, timestamps, keepHistory setting.Bool
	fileName, dirName                                                              setting.String
	fsync                                                                          setting.Enum[int]
	percentage, minSize                                                            setting.Int
}

// unread is an append-only file in dir that a server with these settings would load, and this version cannot.
func (s *aofSettings) unread(dir string) (file string, found bool) {
	if !s.appendOnly.Get() {
		return "", false
	}
	for _, file := range []string{
		filepath.Join(dir, s.dirName.Get(), s.fileName.Get()+".manifest"),
		filepath.Join(dir, s.fileName.Get()),
	} {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return file, true
		}
	}
	return "", false
}

func (s *aofSettings) rows() []setting.Row {
	aof := setting.Nothing("the append-only file is not there yet")
	return []setting.Row{
		setting.NewBool("appendonly", &s.appendOnly, false, setting.DenyLoading, aof),
		setting.NewString("appendfilename", &s.fileName, "appendonly.aof", setting.Immutable, aof, setting.CheckString(func(name string) error {
			switch {
			case name == "":
				return errors.New("appendfilename can't be empty")
			case !isBaseName(name):
				return errors.New("appendfilename can't be a path, just a filename")
			}
			return nil
		})),
		setting.NewString("appenddirname", &s.dirName, "appendonlydir", setting.Immutable, aof, setting.CheckString(func(name string) error {
			switch {
			case name == "":
				return errors.New("appenddirname can't be empty")
			case !isBaseName(name):
				return errors.New("appenddirname can't be a path, just a dirname")
			}
			return nil
		})),
		setting.NewEnum("appendfsync", &s.fsync, 0, []setting.Choice[int]{{Name: "everysec", Value: 0}, {Name: "always", Value: 1}, {Name: "no", Value: 2}}, aof),
		setting.NewBool("no-appendfsync-on-rewrite", &s.noFsync, false, aof),
		setting.NewInt("auto-aof-rewrite-percentage", &s.percentage, 100, setting.Between(0, maxInt), aof),
		setting.NewMemory("auto-aof-rewrite-min-size", &s.minSize, 64<<20, setting.Between(0, maxLong), aof),
		setting.NewBool("aof-load-truncated", &s.truncated, true, aof),
		setting.NewBool("aof-use-rdb-preamble", &s.preamble, true, aof),
		setting.NewBool("aof-timestamp-enabled", &s.timestamps, false, aof),
		setting.NewBool("aof-rewrite-incremental-fsync", &s.incremental, true, aof),
		setting.NewBool("aof-disable-auto-gc", &s.keepHistory, false, setting.Hidden, aof),
	}
}

func isBaseName(name string) bool { return !strings.ContainsAny(name, `/\`) }
