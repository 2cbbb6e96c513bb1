package server

import "strings"

// nearest is the one of names that name most probably means. At most two of its letters may be wrong, and less than
// half of them. It is "" if there is none, or if name is one of names.
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

// distance is how many letters have to be put in, taken out, changed, or exchanged with their neighbour to make b of a.
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
