package tidy

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A function that main never reaches is dead. It may stay if its comment, or its package's comment, has a line that
// begins with one of these words.
//
//	Seam:   coming work will call it; the line says which work
//	Proof:  only tests or tools call it; the line says which
const (
	seam  = "Seam:"
	proof = "Proof:"
)

var unreachable = regexp.MustCompile(`^(.+\.go):(\d+):\d+: unreachable func: (.+)$`)

// Dead returns the dead functions of packages, in the words of the deadcode tool. The build has the tag invariants.
// excused is the number of dead functions that may stay. Dead runs the tool in root, the module's folder.
func Dead(root string, packages map[string]*Package) (dead []string, excused int, err error) {
	run := exec.Command("go", "tool", "deadcode", "-tags", "invariants", ".")
	run.Dir = root
	run.Env = append(os.Environ(), "GOGC=400") // less garbage collection: a third less CPU
	var out, complaints bytes.Buffer
	run.Stdout, run.Stderr = &out, &complaints
	if err := run.Run(); err != nil {
		return nil, 0, fmt.Errorf("deadcode: %w: %s", err, complaints.String())
	}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		m := unreachable.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, 0, fmt.Errorf("deadcode says %q, which this check does not know", lines.Text())
		}
		line, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, 0, err
		}
		doc, err := docAt(filepath.Join(root, m[1]), line)
		if err != nil {
			return nil, 0, err
		}
		if p := packages[path.Dir(m[1])]; excuses(doc) || p != nil && excuses(p.Doc) {
			excused++
		} else {
			dead = append(dead, lines.Text())
		}
	}
	return dead, excused, nil
}

// docAt returns the comment of the function that is declared on the given line of a file.
func docAt(file string, line int) (string, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && files.Position(fn.Name.Pos()).Line == line {
			return fn.Doc.Text(), nil
		}
	}
	return "", nil
}

// excuses reports whether a comment gives a reason why main does not reach the function.
func excuses(doc string) bool {
	for line := range strings.SplitSeq(doc, "\n") {
		if strings.HasPrefix(line, seam) || strings.HasPrefix(line, proof) {
			return true
		}
	}
	return false
}
