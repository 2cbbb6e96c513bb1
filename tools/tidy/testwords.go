package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// fixtures lists words that may not name a test's types and functions, because a plain name says more.
var fixtures = map[string]bool{"house": true, "board": true, "seat": true, "stage": true, "toy": true, "crowd": true,
	"world": true}

// PlainTests returns the names and messages of tests below root that are not plain. A name is checked as the words that
// it consists of. Messages are the first arguments of t.Error, t.Log and the like.
func PlainTests(root string) (findings []Finding, err error) {
	files := map[string]bool{}
	if err := eachLine(root, []string{".go"}, func(file string, _ int, _ string) { files[file] = true }); err != nil {
		return nil, err
	}
	for file := range files {
		if !strings.HasSuffix(file, "_test.go") && !within(file, "tests") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		report := func(at ast.Node, why, text string) {
			findings = append(findings, Finding{file, set.Position(at.Pos()).Line, why, text})
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if why := unplainName(n.Name.Name); why != "" {
					report(n, why, n.Name.Name)
				}
			case *ast.TypeSpec:
				if why := unplainName(n.Name.Name); why != "" {
					report(n, why, n.Name.Name)
				}
			case *ast.CallExpr:
				if text := printed(n); text != "" {
					if why := marked(cited.ReplaceAllString(text, "X")); why != "" {
						report(n, why, text)
					}
				}
			}
			return true
		})
	}
	return findings, nil
}

// unplainName returns the rule that a name breaks, or "". The rules about sentences apply only to the names of tests.
func unplainName(name string) string {
	words := camelWords(name)
	for _, word := range words {
		if fixtures[word] {
			return word + ": a plain name"
		}
	}
	if words[0] == "test" || words[0] == "benchmark" || words[0] == "fuzz" {
		return marked(strings.Join(words[1:], " "))
	}
	return ""
}

// camelWords splits a name in camel case into its words, in lower case.
func camelWords(name string) (words []string) {
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words = append(words, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return words
}

// printed returns the text that a call on a testing.TB prints, or "" for other calls.
func printed(call *ast.CallExpr) string {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || len(call.Args) == 0 {
		return ""
	}
	if on, is := method.X.(*ast.Ident); !is || on.Name != "t" && on.Name != "b" {
		return ""
	}
	switch strings.TrimSuffix(method.Sel.Name, "f") {
	case "Error", "Fatal", "Log", "Skip":
	default:
		return ""
	}
	literal, is := call.Args[0].(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(literal.Value)
	return text
}
