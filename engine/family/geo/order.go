package geo

import (
	"math/bits"
	"slices"
)

// selectFirst sorts items just far enough that the first n are in their final places.
//
// It is the quicksort of Bentley and McIlroy ("Engineering a Sort Function", 1993), without the parts past n. It is not
// stable. So it decides which of several members at the same distance COUNT keeps. Redis's partial sort keeps the same
// ones.
func selectFirst(items []found, n int, compare func(a, b float64) int) {
	// Random data hardly ever partitions badly this often. After that, the rest is sorted in another way.
	selectLucky(items, n, compare, 4*bits.Len(uint(len(items)))+8)
}

// Up to fewItems are sorted by insertion. More than manyItems are partitioned by a median of nine.
const (
	fewItems  = 7
	manyItems = 40
)

func selectLucky(items []found, n int, compare func(a, b float64) int, luck int) {
	for ; n > 0 && len(items) > 1; luck-- {
		switch {
		case len(items) < fewItems:
			insertionSort(items, compare)
			return
		case luck == 0:
			slices.SortStableFunc(items, func(a, b found) int { return compare(a.meters, b.meters) })
			return
		}
		less, more := part(items, compare)
		selectLucky(items[:less], n, compare, luck-1)
		items, n = items[more:], n-more
	}
}

func insertionSort(items []found, compare func(a, b float64) int) {
	for i := 1; i < len(items); i++ {
		for j := i; j > 0 && compare(items[j-1].meters, items[j].meters) > 0; j-- {
			items[j-1], items[j] = items[j], items[j-1]
		}
	}
}

// part partitions items around a pivot. Lesser items end in [0, less), greater ones in [more, len), equal ones between.
//
//	0         a            b         c         d          n
//	+---------+------------+---------+---------+----------+
//	| equal   | less       |    ?    | greater | equal    |    c and d are the last of what is before them
//	+---------+------------+---------+---------+----------+
func part(items []found, compare func(a, b float64) int) (less, more int) {
	n := len(items)
	if p := pivot(items, compare); p != 0 {
		items[0], items[p] = items[p], items[0]
	}
	a, b, c, d := 1, 1, n-1, n-1
	for {
		for ; b <= c; b++ {
			order := compare(items[b].meters, items[0].meters)
			if order > 0 {
				break
			}
			if order == 0 {
				items[a], items[b] = items[b], items[a]
				a++
			}
		}
		for ; b <= c; c-- {
			order := compare(items[c].meters, items[0].meters)
			if order < 0 {
				break
			}
			if order == 0 {
				items[c], items[d] = items[d], items[c]
				d--
			}
		}
		if b > c {
			break
		}
		items[b], items[c] = items[c], items[b]
		b++
		c--
	}
	exchange(items, 0, b, min(a, b-a))
	exchange(items, b, n, min(d-c, n-1-d))
	return b - a, n - (d - c)
}

// exchange swaps the k items that begin at from with the k items that end before to.
func exchange(items []found, from, to, k int) {
	for i := range k {
		items[from+i], items[to-k+i] = items[to-k+i], items[from+i]
	}
}

// pivot returns the index of an item that is likely near the median.
func pivot(items []found, compare func(a, b float64) int) int {
	n := len(items)
	low, mid, high := 0, n/2, n-1
	if n > manyItems {
		d := n / 8
		low = median(items, low, low+d, low+2*d, compare)
		mid = median(items, mid-d, mid, mid+d, compare)
		high = median(items, high-2*d, high-d, high, compare)
	}
	if n > fewItems {
		mid = median(items, low, mid, high, compare)
	}
	return mid
}

// median returns the index of the median of three items.
func median(items []found, i, j, k int, compare func(a, b float64) int) int {
	a, b, c := items[i].meters, items[j].meters, items[k].meters
	if compare(a, b) < 0 {
		switch {
		case compare(b, c) < 0:
			return j
		case compare(a, c) < 0:
			return k
		}
		return i
	}
	switch {
	case compare(b, c) > 0:
		return j
	case compare(a, c) < 0:
		return i
	}
	return k
}
