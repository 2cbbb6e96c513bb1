package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Liken gives f the mode of the file at old, which f will replace, and its owner and group if the system allows. there
// reports whether old exists.
func Liken(f *os.File, old string) (there bool, err error) {
	info, err := os.Stat(old)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if f.Chown(int(owner.Uid), int(owner.Gid)) != nil {
			_ = f.Chown(-1, int(owner.Gid)) // giving a file away requires root
		}
	}
	return true, f.Chmod(info.Mode().Perm())
}
