package config

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"spindle/internal/setting"
	"spindle/internal/version"
)

// A Form is one way to start the program: its arguments, and what the program does then.
type Form struct{ Args, Text string }

// Forms are the ways to start a server, as help and the manual show them.
var Forms = []Form{
	{"[FILE] [--DIRECTIVE VALUE ...] [-]",
		"serve, as the file, standard input (-) and the options say; what comes later counts"},
	{"--check-config FILE [--DIRECTIVE VALUE ...] [-]", "name the lines that a start would refuse; touches nothing"},
	{"--sentinel FILE [--DIRECTIVE VALUE ...]",
		"watch servers and fail over, as FILE says; what is learnt is written to it"},
	{"--dashboard [FILE] [--DIRECTIVE VALUE ...]",
		"run products of servers and proxies; --dashboard --help has its directives"},
	{"doctor [FILE] [--DIRECTIVE VALUE ...]", "what to change on this host for a server with this configuration, and why"},
	{"--check-system", "redis-server's checks of the host"},
	{"-h, --help [DIRECTIVE ...]", "this text; of directives alone if some are named (* and ? stand for any)"},
	{"-v, --version", "which version this is"},
}

// Examples are examples of command lines.
var Examples = []string{
	"/etc/redis/redis.conf --port 7777 --loglevel verbose",
	`--save "900 1" --maxmemory 512mb --maxmemory-policy allkeys-lru`,
	"--help 'maxmemory*'",
}

// A Directive is a row of the registry with its entry on the page of settings.
type Directive struct {
	setting.Entry
	Accepts string   // a short description; "": any text
	Words   []string // the accepted values, if they are words
	Alias   string   // an older name
	AtStart bool     // CONFIG SET cannot change it
}

// A Chapter is a section of the page, with the rows of its directives.
type Chapter struct {
	Title, Text string
	Directives  []Directive
}

// Chapters joins the page of settings with the rows of a server.
func Chapters(registry *setting.Registry, page string) (intro string, chapters []Chapter, err error) {
	intro, sections := setting.ReadPage(page)
	for _, s := range sections {
		c := Chapter{Title: s.Title, Text: s.Text}
		for _, e := range s.Entries {
			row := registry.Lookup(e.Name)
			if row == nil {
				return "", nil, fmt.Errorf("the page of settings names %s, which is no setting", e.Name)
			}
			c.Directives = append(c.Directives, Directive{e, row.Accepts(), row.Words(), row.Alias,
				row.Flags&(setting.Immutable|setting.Fixed) != 0})
		}
		chapters = append(chapters, c)
	}
	return intro, chapters, nil
}

// Help runs --help. Without names it shows the ways to start the program and every directive. Otherwise it shows the
// directives that match a name; names may be patterns. tools are further ways to start the program.
//
// It returns exit code 0 if a name matches a directive. Otherwise, and without names, it returns 1, as redis-server
// --help does.
func Help(registry *setting.Registry, page string, tools []Form, names []string, out io.Writer) (code int) {
	_, chapters, err := Chapters(registry, page)
	if err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	if len(names) == 0 {
		fmt.Fprintf(out, "spindle %s, a server for Redis %s clients\n\n", version.Spindle, version.Redis)
		for i, f := range append(slices.Clone(Forms), tools...) {
			lead := "       "
			if i == 0 {
				lead = "Usage: "
			}
			fmt.Fprintf(out, "%sspindle %s\n%s\n", lead, f.Args, wrap(f.Text, "           "))
		}
		fmt.Fprint(out, "\nExamples:\n\n")
		for _, args := range Examples {
			fmt.Fprintf(out, "       spindle %s\n", args)
		}
		fmt.Fprint(out, "\nDirectives, each as a line of the file or as an option with -- before it, and the default:\n")
	}
	found := 0
	for _, c := range chapters {
		titled := len(names) > 0
		for _, d := range c.Directives {
			if !d.matches(names) {
				continue
			}
			if !titled {
				fmt.Fprintf(out, "\n%s\n", strings.ToUpper(c.Title))
				titled = true
			}
			found++
			d.print(out)
		}
	}
	if found == 0 {
		fmt.Fprintf(out, "No directive is called %s.\n", strings.Join(names, " or "))
		return 1
	}
	if len(names) == 0 {
		return 1
	}
	return 0
}

// matches reports whether one of names matches d. Without names every directive matches.
func (d *Directive) matches(names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		name = strings.TrimLeft(strings.ToLower(name), "-")
		yes, err := path.Match(name, d.Name)
		return err == nil && yes || name == d.Alias
	})
}

// print writes the help of d.
func (d *Directive) print(out io.Writer) {
	fmt.Fprintln(out)
	for _, args := range d.Args {
		fmt.Fprintf(out, "  %s %s\n", d.Name, args)
	}
	fmt.Fprintln(out, wrap(d.Text, "      "))
	if facts := d.Facts(); facts != "" {
		fmt.Fprintln(out, wrap("("+facts+")", "      "))
	}
}

// Facts returns the facts of the row: its values, its older name, and whether CONFIG SET can change it.
func (d *Directive) Facts() string {
	var facts []string
	if d.Accepts != "" {
		facts = append(facts, d.Accepts)
	}
	if d.Alias != "" {
		facts = append(facts, "also "+d.Alias)
	}
	if d.AtStart {
		facts = append(facts, "at start only")
	}
	return strings.Join(facts, "; ")
}

// helpWidth is the width of help in columns.
const helpWidth = 100

// wrap breaks text into lines that begin with indent.
func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > helpWidth && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line
}
