package reactor

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// listenUnix opens a Unix socket with the given permissions and group. "" means the group of the process. It removes a
// socket file without a server, which a killed server has left. Any other file stays, and the start fails.
func listenUnix(path string, perm uint32, group string, backlog int) (*listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("creating socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind: %w", err)
	}
	// This comes before listen, so that no client can connect before the permissions are right.
	if err := setRights(path, perm, group); err != nil {
		unix.Close(fd)
		unix.Unlink(path)
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		unix.Close(fd)
		unix.Unlink(path)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &listener{fd: fd, name: path, addr: path, unix: true}, nil
}

// setRights gives a socket its permissions and its group. The group is a name or a number.
func setRights(path string, perm uint32, group string) error {
	if group != "" {
		id := group
		if g, err := user.LookupGroup(group); err == nil {
			id = g.Gid
		}
		n, err := strconv.Atoi(id)
		if err != nil {
			return fmt.Errorf("no group %s", group)
		}
		if err := os.Chown(path, -1, n); err != nil {
			return err
		}
	}
	if perm != 0 {
		return os.Chmod(path, os.FileMode(perm))
	}
	return nil
}

// removeStale makes path free to bind to.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil // it does not exist, or bind will report what is wrong
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("bind: %s is in the way and not a socket", path)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("creating socket: %w", err)
	}
	defer unix.Close(fd)
	switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err {
	case nil, unix.EAGAIN, unix.EINPROGRESS: // a full backlog is a living server too
		return fmt.Errorf("bind: %w: %s is another server's", unix.EADDRINUSE, path)
	}
	return os.Remove(path)
}
