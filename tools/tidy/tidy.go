// Package tidy has tests about the code itself: imports between packages, comments, and places on the map in
// ARCHITECTURE.md.
//
// Owner: none; it only reads the tree. It checks structure and does not count lines.
// Start at tidy_test.go; floors.go has the table of floors as data.
package tidy

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A Package is a folder with Go files, with their imports.
type Package struct {
	Dir     string            // below the module's root, slash-separated; "." for main
	Doc     string            // the package comment, from any of its files
	Imports map[string]string // packages of this module, without tests' → a file that imports it
	Foreign map[string]string // all other packages
	Funcs   map[string]bool   // "file.go:Name" of every function and method
}

// Module is this module's path.
const Module = "spindle"

// Read parses every package below root. It reads the files itself, so that the test cache notices changes of the code.
// It would not notice them if a test ran `go list`.
func Read(root string) (map[string]*Package, error) {
	packages := map[string]*Package{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		return readFile(packages, filepath.ToSlash(dir), file)
	})
	return packages, err
}

func readFile(packages map[string]*Package, dir, file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p := packages[dir]
	if p == nil {
		p = &Package{Dir: dir, Imports: map[string]string{}, Foreign: map[string]string{}, Funcs: map[string]bool{}}
		packages[dir] = p
	}
	base := filepath.Base(file)
	for _, d := range f.Decls {
		if name := funcName(d); name != "" {
			p.Funcs[base+":"+name] = true
		}
	}
	if strings.HasSuffix(base, "_test.go") {
		return nil
	}
	if f.Doc != nil && len(f.Doc.Text()) > len(p.Doc) {
		p.Doc = f.Doc.Text()
	}
	for _, spec := range f.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if target == Module || strings.HasPrefix(target, Module+"/") {
			p.Imports[path.Clean(strings.TrimPrefix(strings.TrimPrefix(target, Module), "/"))] = base
		} else {
			p.Foreign[target] = base
		}
	}
	return nil
}
