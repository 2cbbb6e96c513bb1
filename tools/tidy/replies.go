package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// LooseErrors returns the places, by folder, that create a reply error outside their package's errors.go. It leaves out
// tests, tools and the package protocol.
func LooseErrors(root string) (loose map[string][]string, err error) {
	loose = map[string][]string{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && file != root && (notOurs(name) || name == "tools" || name == "tests" || name == "bench") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "errors.go" {
			return nil
		}
		short, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			made := ast.Expr(nil)
			switch n := n.(type) {
			case *ast.CompositeLit:
				made = n.Type
			case *ast.CallExpr:
				made = n.Fun
			}
			if s, ok := made.(*ast.SelectorExpr); ok {
				if from, ok := s.X.(*ast.Ident); ok && from.Name == "protocol" &&
					(s.Sel.Name == "Error" || s.Sel.Name == "Errorf") {
					dir := filepath.ToSlash(filepath.Dir(short))
					loose[dir] = append(loose[dir], set.Position(n.Pos()).String())
				}
			}
			return true
		})
		return nil
	})
	return loose, err
}
