package tidy

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Line is one that people read: of a page, or the comment of a line of Go.
type Line struct {
	File string // below the root
	Line int
	Text string // without the code before the comment
	Full string
}

// Said is every line of the tree's pages and comments. What the bench writes and what tests read is left out.
func Said(root string) (said []Line, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && notOurs(name) {
			return filepath.SkipDir
		}
		isGo := strings.HasSuffix(name, ".go")
		if d.IsDir() || !isGo && !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			shown := line
			if isGo {
				at := strings.Index(line, "//")
				if at < 0 {
					continue
				}
				shown = line[at:]
			}
			said = append(said, Line{filepath.ToSlash(short), i + 1, shown, line})
		}
		return nil
	})
	return said, err
}
