package observe

import (
	"math"
	"strings"

	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// lolwut is LOLWUT [VERSION version] [columns [turns]]: a thread wound round a spindle, and the version.
func lolwut(c *command.Context) error {
	args := c.Args[1:]
	if len(args) >= 2 && command.Is(args[0], "VERSION") {
		if _, ok := number.ParseInt(args[1]); !ok {
			return protocol.ErrNotInteger
		}
		args = args[2:]
	}
	size := [2]int64{48, 5}
	for i := range args {
		if i == len(size) {
			break
		}
		if n, ok := number.ParseInt(args[i]); ok {
			size[i] = min(max(n, 1), 160)
		}
	}
	c.Reply.Verbatim("txt", thread(int(size[0]), int(size[1]))+"\nRedis ver. 7.4.1\n")
	return nil
}

// thread draws a spindle seen from the side: as wide as its thread is wound, thickest in the middle.
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
				mark = '.' // behind the spindle
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
