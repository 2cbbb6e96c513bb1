package tidy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

// Arrows are the dependencies between the files of one package.
type Arrows map[string]map[string]bool // file → the files whose functions, types, fields and variables it uses

// ReadArrows type-checks the package in root/dir and returns its arrows. It leaves out tests.
func ReadArrows(root, dir string) (Arrows, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo,
	}, "./"+dir)
	if err != nil {
		return nil, err
	}
	if len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		return nil, fmt.Errorf("%s: %d packages, errors %v", dir, len(loaded), loaded[0].Errors)
	}
	p := loaded[0]
	arrows := Arrows{}
	for ident, used := range p.TypesInfo.Uses {
		if used.Pkg() != p.Types {
			continue
		}
		from := filepath.Base(p.Fset.Position(ident.Pos()).Filename)
		to := filepath.Base(p.Fset.Position(used.Pos()).Filename)
		if from == to {
			continue
		}
		if arrows[from] == nil {
			arrows[from] = map[string]bool{}
		}
		arrows[from][to] = true
	}
	return arrows, nil
}

// Backward searches for the best order of the files. It returns that order, and the arrows that point upwards in it. A
// package whose files are in layers has no such arrows. The result is always the same, because the seeds are fixed.
func (a Arrows) Backward() (best []string, backward []string) {
	var files []string
	for from, targets := range a {
		files = append(append(files, from), slices.Collect(maps.Keys(targets))...)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	for seed := range uint64(200) {
		order := slices.Clone(files)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		a.improve(order)
		if up := a.pointUp(order); best == nil || len(up) < len(backward) {
			best, backward = order, up
		}
	}
	return best, backward
}

// improve moves single files in order until no move reduces the number of arrows that point upwards.
func (a Arrows) improve(order []string) {
	for improved := true; improved; {
		improved = false
		for i := range order {
			if to := a.bestPlace(order, i); to != i {
				file := order[i]
				copy(order, slices.Insert(slices.Delete(order, i, i+1), to, file))
				improved = true
			}
		}
	}
}

func (a Arrows) pointUp(order []string) (up []string) {
	for i, upper := range order {
		for _, lower := range order[i+1:] {
			if a[lower][upper] {
				up = append(up, lower+" uses "+upper)
			}
		}
	}
	return up
}

// bestPlace returns the index at which the file at index i has the fewest arrows that point upwards.
func (a Arrows) bestPlace(order []string, i int) int {
	best, bestGain := i, 0
	for _, step := range []int{-1, 1} {
		gain := 0
		for j := i + step; j >= 0 && j < len(order); j += step {
			upper, lower := order[i], order[j] // today's order, if step is 1
			if step < 0 {
				upper, lower = lower, upper
			}
			if a[lower][upper] {
				gain++ // it would point down
			}
			if a[upper][lower] {
				gain-- // it would point up
			}
			if gain > bestGain {
				best, bestGain = j, gain
			}
		}
	}
	return best
}
