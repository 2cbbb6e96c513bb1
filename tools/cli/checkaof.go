package cli

import "spindle/aof"

// checkAOF is the program check-aof: it looks through the files of a log that no server uses.
func checkAOF(p process) int {
	b := newBar(p)
	defer b.end()
	return aof.CheckMain(p.args, p.in, p.out, b.at)
}
