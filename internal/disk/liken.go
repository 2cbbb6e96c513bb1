package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Liken gives f the mode of the file at old, which it is to replace, and its owner and group where the system allows
// that. It says whether there is such a file.
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
			_ = f.Chown(-1, int(owner.Gid)) // to give a file away takes root
		}
	}
	return true, f.Chmod(info.Mode().Perm())
}
