package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// nearest returns the one of names that name probably means. At most two letters of name, and less than half of them,
// may be wrong. nearest returns "" if there is none, or if name is one of names.
func nearest(name string, names []string) (near string) {
	least := min(3, (len(name)+1)/2)
	for _, n := range names {
		d := distance(strings.ToLower(name), n)
		if d == 0 {
			return ""
		}
		if d < least {
			near, least = n, d
		}
	}
	return near
}

// distance returns the number of edits between a and b. An edit adds, removes or changes a letter, or swaps two
// neighbours.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, before, beforeThat := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeThat[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

// Misspelt extends the error of a start if the first argument looks like one of the commands in forms. It adds that the
// argument is not a command either.
func Misspelt(err error, argv []string, forms []Form) error {
	open := (*OpenError)(nil)
	if !errors.As(err, &open) || !errors.Is(open.Err, os.ErrNotExist) ||
		len(argv) < 2 || open.Path != absolute(argv[1]) || strings.ContainsAny(argv[1], "./") {
		return err
	}
	var commands []string
	for _, f := range forms {
		word, _, _ := strings.Cut(f.Args, " ")
		commands = append(commands, word)
	}
	if near := nearest(argv[1], commands); near != "" {
		return fmt.Errorf("%w (no such command or file: did you mean '%s'?)", err, near)
	}
	return fmt.Errorf("%w (no such command or file: see --help)", err)
}
