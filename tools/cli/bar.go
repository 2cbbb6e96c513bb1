package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// barWidth is the number of characters of a full progress bar.
const barWidth = 40

// A bar draws the progress of a long run on a terminal, ten times a second. A nil bar draws nothing.
type bar struct {
	out   io.Writer
	next  time.Time
	shown bool
}

// newBar returns a bar if the standard error of p is a terminal, otherwise nil. In a short run the bar draws nothing.
func newBar(p process) *bar {
	if !p.terminal {
		return nil
	}
	return &bar{out: p.err, next: time.Now().Add(time.Second / 2)}
}

// at draws the progress as done of total. If total is 0, the total is unknown, and at shows only done.
func (b *bar) at(done, total int64) {
	if b == nil {
		return
	}
	now := time.Now()
	if now.Before(b.next) {
		return
	}
	b.next, b.shown = now.Add(100*time.Millisecond), true
	if total <= 0 {
		fmt.Fprintf(b.out, "\r%s read ", size(done))
		return
	}
	done = min(done, total)
	full := int(done * barWidth / total)
	fmt.Fprintf(b.out, "\r[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), done*100/total)
}

// end erases the bar.
func (b *bar) end() {
	if b != nil && b.shown {
		fmt.Fprint(b.out, "\r"+strings.Repeat(" ", barWidth+8)+"\r")
		b.shown = false
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// size formats a number of bytes for people.
func size(bytes int64) string {
	n, unit := float64(bytes), 0
	units := []string{"B", "KB", "MB", "GB", "TB"}
	for n >= 1024 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", n, units[unit])
}
