package reason

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestReasons(t *testing.T) {
	path := &os.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}
	for _, c := range []struct {
		err           error
		of, inContext string
	}{
		{path, "No such file or directory", "open /x: No such file or directory"},
		{fmt.Errorf("bind: %w", syscall.EADDRINUSE), "Address already in use", "bind: Address already in use"},
		{fmt.Errorf("%w, twice", syscall.EACCES), "Permission denied", "permission denied, twice"},
		{errors.New("short write"), "Short write", "short write"},
		{errors.New(""), "", ""},
	} {
		if got := Of(c.err); got != c.of {
			t.Errorf("%v: %q, want %q", c.err, got, c.of)
		}
		if got := InContext(c.err); got != c.inContext {
			t.Errorf("%v: %q in its context, want %q", c.err, got, c.inContext)
		}
	}
}
