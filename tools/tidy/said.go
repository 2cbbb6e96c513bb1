package tidy

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Line is a line that people read, of a page or of a comment in Go code.
type Line struct {
	File string // below the root
	Line int
	Text string // without the code before the comment
	Full string
}

// eachLine calls see for every line of the files with these endings. see gets the file below root, the line's number
// and its text. It leaves out files that the bench writes or tests read.
func eachLine(root string, endings []string, see func(file string, number int, line string)) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && notOurs(name) {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(endings, filepath.Ext(name)) {
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
			see(filepath.ToSlash(short), i+1, line)
		}
		return nil
	})
}

// Said returns every line of the tree's pages and comments.
func Said(root string) (said []Line, err error) {
	err = eachLine(root, []string{".go", ".md"}, func(file string, number int, line string) {
		shown := line
		if strings.HasSuffix(file, ".go") {
			at := strings.Index(line, "//")
			if at < 0 {
				return
			}
			shown = line[at:]
		}
		said = append(said, Line{file, number, shown, line})
	})
	return said, err
}

// Scripts returns every line of the programs and pages in other languages. It leaves out files of other authors, whose
// names contain ".min.".
func Scripts(root string) (lines []Line, err error) {
	err = eachLine(root, []string{".css", ".html", ".js", ".py", ".sh"}, func(file string, number int, line string) {
		if !strings.Contains(file, ".min.") {
			lines = append(lines, Line{file, number, line, line})
		}
	})
	return lines, err
}
