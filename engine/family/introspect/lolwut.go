package introspect

import (
	"math"
	"strings"

	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// lolwut is LOLWUT [VERSION version [columns [turns …]]]. It replies the version. Versions 5 and 6 also draw a thread
// wound round a spindle.
func lolwut(c *command.Context) error {
	size, picture := [3]int64{48, 5}, 0 // picture: how many of size the version reads
	if len(c.Args) >= 3 && command.Is(c.Args[1], "VERSION") {
		form, ok := number.ParseInt(c.Args[2])
		if !ok {
			return protocol.ErrNotInteger
		}
		switch uint32(form) {
		case 5:
			picture = 3 // columns, squares in a row, squares in a column
		case 6:
			picture = 2 // columns, rows
		}
		for i, arg := range c.Args[3:min(len(c.Args), 3+picture)] {
			n, ok := number.ParseInt(arg)
			if !ok {
				return protocol.ErrNotInteger
			}
			size[i] = min(max(n, 1), 160)
		}
	}
	text := "Redis ver. " + c.Settings.Redis() + "\n"
	if picture != 0 {
		text = thread(int(size[0]), int(size[1])) + "\n" + text
	}
	c.Reply.Verbatim("txt", text)
	return nil
}

// thread draws a spindle seen from the side, columns wide and thickest in the middle.
func thread(columns, turns int) string {
	const rows = 11
	grid := make([][]byte, rows)
	for y := range grid {
		grid[y] = []byte(strings.Repeat(" ", columns))
	}
	for x := range columns {
		at := (float64(x) + 0.5) / float64(columns)
		radius := float64(rows/2) * math.Sin(math.Pi*at)
		grid[rows/2][x] = '-'
		for _, phase := range []float64{0, math.Pi} {
			angle := 2*math.Pi*float64(turns)*at + phase
			y := rows/2 + int(math.Round(radius*math.Sin(angle)))
			mark := byte('/')
			if math.Cos(angle) < 0 {
				mark = '.' // on the far side of the spindle
			}
			grid[y][x] = mark
		}
	}
	lines := make([]string, 0, rows)
	for _, row := range grid {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}
