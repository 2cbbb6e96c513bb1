package server

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"spindle/aof"
)

// CheckAOF is the program check-aof: it looks through the files of a log that no server uses. It answers the exit code.
func CheckAOF(argv []string) int {
	args := argv[1:]
	if len(args) > 0 && args[0] == "check-aof" {
		args = args[1:]
	}
	var tell func(done, total int64)
	if _, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS); err == nil {
		tell = progressBar()
	}
	return aof.CheckMain(args, os.Stdin, os.Stdout, tell)
}

// barWidth is how many characters a full progress bar has.
const barWidth = 40

// progressBar draws on the terminal how far a check of a long file has come, ten times a second.
func progressBar() func(done, total int64) {
	next := time.Now().Add(time.Second)
	return func(done, total int64) {
		if now := time.Now(); total > 0 && now.After(next) {
			next = now.Add(100 * time.Millisecond)
			full := int(done * barWidth / total)
			fmt.Fprintf(os.Stderr, "\r[%s%s] %3d %%", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), done*100/total)
			if done >= total {
				fmt.Fprintln(os.Stderr)
			}
		}
	}
}
