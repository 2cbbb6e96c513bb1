package cli

import (
	"fmt"
	"strings"

	"spindle/aof"
	"spindle/internal/version"
)

// checkAOF runs the program check-aof. It checks the files of an append-only log that no server uses.
func checkAOF(p process) int {
	if len(p.args) == 1 && (p.args[0] == "-v" || p.args[0] == "--version") {
		fmt.Fprint(p.out, strings.Replace(version.Text(), "Redis server", "redis-check-aof", 1))
		return 0
	}
	b := newBar(p)
	defer b.end()
	return aof.CheckMain(p.args, p.in, p.out, b.at)
}
