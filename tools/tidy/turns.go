package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// inTurn has the fields of part.Part that the core or the server calls inside a turn.
var inTurn = map[string]bool{"Threads": true, "Ill": true, "Reset": true, "Loaded": true}

// mostGlue is the maximum number of lines of a function literal that only calls other packages.
const mostGlue = 6

var saysTurn = regexp.MustCompile(`(?i)\bturn only\b|\b(runs?|works?|called|inside|in) (in )?(a |the )?turns?\b`)

// TurnCode returns the places in a folder whose code runs only inside turns:
//   - a function whose comment says so
//   - a function of the folder that is a listener, that a part calls in a turn, or that core.Do runs
//   - a function literal at such a place that has more lines than glue needs
func TurnCode(root, folder string) (found []string, err error) {
	files := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	own := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				own[fn.Name.Name] = true
			}
		}
	}
	add := func(at ast.Node, why string) {
		p := files.Position(at.Pos())
		found = append(found, fmt.Sprintf("%s/%s:%d: %s", folder, filepath.Base(p.Filename), p.Line, why))
	}
	look := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if own[n.Sel.Name] {
					add(n, n.Sel.Name+" is a function of this folder, and it runs in a turn")
				}
				return true
			case *ast.FuncLit:
				if lines := files.Position(n.End()).Line - files.Position(n.Pos()).Line; lines > mostGlue {
					add(n, fmt.Sprintf("%d lines run in a turn", lines))
				}
			case *ast.CallExpr:
				if name, ok := n.Fun.(*ast.Ident); ok && own[name.Name] {
					add(n, name.Name+" is a function of this folder, and it runs in a turn")
				}
			}
			return true
		})
	}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if saysTurn.MatchString(n.Doc.Text()) {
					add(n, "its comment says that it runs in a turn")
				}
			case *ast.CompositeLit:
				typ := n.Type
				if list, ok := typ.(*ast.ArrayType); ok {
					typ = list.Elt
				}
				if s, ok := typ.(*ast.SelectorExpr); ok && s.Sel.Name == "Listeners" {
					look(n)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if s, ok := to.(*ast.SelectorExpr); ok && inTurn[s.Sel.Name] && i < len(n.Rhs) {
						look(n.Rhs[i])
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && inTurn[key.Name] {
					look(n.Value)
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Do" && len(n.Args) == 1 {
					look(n.Args[0])
				}
			}
			return true
		})
	}
	return found, nil
}
