package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A source is the joined text of one or more files, with the start of each.
type source struct {
	strings.Builder
	parts []part
	lines int // number of line ends so far
}

// A part is one file's part of a source.
type part struct {
	name string
	from int // number of lines before it
}

// begin notes that the next text comes from name. It ends the last line of the text before, so that this line and the
// next one do not become one.
func (s *source) begin(name string) {
	if text := s.String(); text != "" && text[len(text)-1] != '\n' {
		_, _ = s.Write([]byte{'\n'})
	}
	s.parts = append(s.parts, part{name, s.lines})
}

// Write implements io.Writer.
func (s *source) Write(p []byte) (int, error) {
	s.lines += bytes.Count(p, []byte("\n"))
	return s.Builder.Write(p)
}

// place returns the file and line of a line of the source, counted from 1.
func (s *source) place(line int) string {
	for i := len(s.parts) - 1; i >= 0; i-- {
		if p := s.parts[i]; p.from < line {
			return fmt.Sprintf("%s:%d", p.name, line-p.from)
		}
	}
	return ""
}

// readFiles appends the files that path names. A pattern may match none; a plain path must exist. As in a shell, no
// hidden file matches a pattern whose name does not begin with a dot.
func readFiles(path string, text *source) error {
	paths := []string{path}
	if strings.ContainsAny(path, "*?[") {
		paths, _ = filepath.Glob(path) // a malformed pattern matches no file
		if !strings.HasPrefix(filepath.Base(path), ".") {
			paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasPrefix(filepath.Base(p), ".") })
		}
	}
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return &OpenError{p, err}
		}
		text.begin(p)
		err = readBounded(p, f, text)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// maxConfig bounds a file. A longer file is a device or a mistake.
const maxConfig = 64 << 20

func readBounded(path string, r io.Reader, text *source) error {
	n, err := io.Copy(text, io.LimitReader(r, maxConfig+1))
	if err == nil && n > maxConfig {
		err = fmt.Errorf("longer than %d bytes", maxConfig)
	}
	if err != nil {
		return &OpenError{path, err}
	}
	return nil
}
