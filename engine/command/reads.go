package command

import "math"

// Reads says how much of its keys a command reads, for callers that may not hold the turn for long. The zero value
// means that the command reads little.
type Reads struct {
	// Most returns the maximum number of elements that a call reads of a key or database with size elements.
	Most func(args [][]byte, size int64) int64
	Use  string // what a caller should use to read less
}

// ReadsAll returns the Reads of a command that reads its keys as a whole. use names the commands that read parts.
func ReadsAll(use string) Reads {
	return Reads{func(_ [][]byte, size int64) int64 { return size }, use}
}

// ReadsNext returns the Reads of a command that reads as many elements as the number after word says. The search for
// word begins at argument from. After LIMIT the second number is the count. Without word, a call reads absent elements.
// 0 or less means all.
func ReadsNext(word string, from int, absent int64, use string) Reads {
	return Reads{numberNext(word, from, absent), use}
}

func numberNext(word string, from int, absent int64) func([][]byte, int64) int64 {
	second := 0
	if word == "LIMIT" {
		second = 1
	}
	return func(args [][]byte, size int64) int64 {
		most := absent
		for i := from; i+1+second < len(args); i++ {
			if !Is(args[i], word) {
				continue
			}
			if n, err := Int(args[i+1+second]); err == nil {
				most = n
			}
		}
		if most <= 0 {
			return size
		}
		return min(most, size)
	}
}

// ReadsScan returns the Reads of a command like SCAN, whose options begin at argument from.
func ReadsScan(from int) Reads { return ReadsNext("COUNT", from, 10, "a small COUNT") }

// These are the Reads of commands that pick elements at random, of commands with two indexes, and of ZRANGE.
var (
	ReadsPicked = Reads{picked, "a smaller count"}
	ReadsSpan   = Reads{spanned, "a shorter range"}
	ReadsZRange = Reads{zranged, "a shorter range or a small LIMIT"}
)

// picked allows more than size elements if the count is negative, because elements may then repeat.
func picked(args [][]byte, size int64) int64 {
	if len(args) < 3 || size == 0 {
		return min(1, size)
	}
	n, err := Int(args[2])
	switch {
	case err != nil:
		return 0
	case n < 0:
		return -max(n, -math.MaxInt64)
	}
	return min(n, size)
}

// spanned reads two indexes. A negative index counts from the end.
func spanned(args [][]byte, size int64) int64 {
	if len(args) < 4 {
		return 0
	}
	first, err := Int(args[2])
	last, err2 := Int(args[3])
	if err != nil || err2 != nil {
		return 0
	}
	if first < 0 {
		first = max(first+size, 0)
	}
	if last < 0 {
		last += size
	}
	return max(min(last, size-1)-min(first, size)+1, 0)
}

// zranged is spanned for ZRANGE, whose bounds may also be scores or texts.
func zranged(args [][]byte, size int64) int64 {
	for _, a := range args[min(len(args), 4):] {
		if Is(a, "BYSCORE") || Is(a, "BYLEX") {
			return numberNext("LIMIT", 4, 0)(args, size)
		}
	}
	return spanned(args, size)
}
