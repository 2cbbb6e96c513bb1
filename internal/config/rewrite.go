package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
)

// errNoFile is the reply of CONFIG REWRITE if the server was started without a file.
var errNoFile = errors.New("The server is running without a config file")

// A Rewriter writes the settings back to the file they came from.
type Rewriter struct {
	Registry *setting.Registry
	File     string // absolute; empty without one
	Log      *logging.Logger
}

// Rewrite replaces the file by one with the present values. At any instant the path has the old file or the whole new
// one. all also writes settings that have their default.
func (w *Rewriter) Rewrite(all bool) error {
	if w.File == "" {
		return errNoFile
	}
	if err := w.Write(all); err != nil {
		return w.failed(err)
	}
	w.Log.Notice("CONFIG REWRITE executed with success.")
	return nil
}

// Write is Rewrite without a line in the log. A link is replaced by the file, as in Redis.
func (w *Rewriter) Write(all bool) error {
	old, err := os.ReadFile(w.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp := fmt.Sprintf("%s.%d.tmp", w.File, os.Getpid())
	return disk.WriteLike(w.File, temp, []byte(w.Registry.Rewrite(string(old), all)))
}

// failed logs err and returns the text of the reply.
func (w *Rewriter) failed(err error) error {
	text := reason.Of(err)
	w.Log.Warning("CONFIG REWRITE failed: %s", text)
	return errors.New("Rewriting config file: " + text)
}
