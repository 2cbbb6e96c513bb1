package testkit

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Waiting is the TestMain of a package whose tests mostly wait for servers. It runs two parallel tests for each
// processor, unless -parallel is set. Builds with invariant checks run half as many.
func Waiting(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		count := 2 * runtime.GOMAXPROCS(0)
		if Checked {
			count = (count + 1) / 2
		}
		if err := flag.Set("test.parallel", strconv.Itoa(count)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
