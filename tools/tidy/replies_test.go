package tidy

import (
	"maps"
	"slices"
	"testing"
)

// openErrors lists the packages with reply errors outside errors.go. Packages may only be removed from the list.
var openErrors = map[string]bool{
	"aof":         true,
	"replication": true,
}

// TestReplyErrorsStandTogether: each package has its reply errors in one file, errors.go.
func TestReplyErrorsStandTogether(t *testing.T) {
	loose, err := LooseErrors(root)
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, dir := range slices.Sorted(maps.Keys(loose)) {
		if left += len(loose[dir]); openErrors[dir] {
			continue
		}
		for _, at := range loose[dir] {
			t.Errorf("%s: a reply error stands outside of errors.go", at)
		}
	}
	for dir := range openErrors {
		if len(loose[dir]) == 0 {
			t.Logf("%s has none left: take it from the list", dir)
		}
	}
	t.Logf("%d reply errors of %d packages stand outside of an errors.go", left, len(loose))
}
