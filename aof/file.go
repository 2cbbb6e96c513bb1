package aof

import (
	"io"

	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
)

// A logFile is the file to which the log is written. It belongs to the writer's goroutine while that is busy, otherwise
// to the holder of the lock (aof.W1).
type logFile struct {
	disk.File       // nil: no file
	size      int64 // without bytes that could not be cut off
	temp      bool  // it is the temporary increment
}

// put writes bytes of the buffer (aof.B2). If it cannot write all of them, it cuts the file back to its size, so that
// the file ends with a whole unit. n counts the bytes that it could not cut off.
func (f *logFile) put(runs [][]byte, log *logging.Logger) (n int64, err error) {
	expected := int64(0)
	for _, p := range runs {
		expected += int64(len(p))
	}
	for _, p := range runs {
		var k int
		k, err = f.Write(p)
		if n += int64(k); err == nil && k < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			break
		}
	}
	if err == nil || n == 0 {
		return n, err
	}
	err = &shortWrite{n, expected, err}
	if cut := f.Truncate(f.size); cut != nil {
		log.Warning("Could not remove short write from the append-only file.  "+
			"Redis may refuse to load the AOF the next time it starts.  ftruncate: %s", reason.Of(cut))
		return n, err
	}
	return 0, err
}

// A shortWrite is a write that failed after its first bytes.
type shortWrite struct {
	written, expected int64
	error
}

func (e *shortWrite) Unwrap() error { return e.error }
