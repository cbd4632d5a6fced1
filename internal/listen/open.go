package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrInUse says that somebody listens there already.
var ErrInUse = errors.New("address already in use")

// backlog is what the kernel is asked for; it takes less (somaxconn).
const backlog = 4096

// Open opens a listening socket, close-on-exec and non-blocking. The Address
// that it returns has the port that the kernel chose. A unix socket has mode
// 0600; one that nobody listens at any more is replaced.
func (a Address) Open() (fd int, chosen Address, err error) {
	if a.Path != "" {
		fd, err = openPath(a.Path)
	} else {
		fd, err = a.openTCP()
	}
	if err != nil {
		return -1, a, fmt.Errorf("%s: %w", a, err)
	}
	if a.Path == "" && a.Port == 0 {
		a.Port, err = portOf(fd)
	}
	if err == nil {
		err = os.NewSyscallError("listen", syscall.Listen(fd, backlog))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = ErrInUse
	}
	if err != nil {
		syscall.Close(fd)
		return -1, a, fmt.Errorf("%s: %w", a, err)
	}
	return fd, a, nil
}

const flags = syscall.SOCK_STREAM | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK

func (a Address) openTCP() (int, error) {
	family, to := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: a.IP, Port: int(a.Port)})
	if a.V4 {
		family, to = syscall.AF_INET, &syscall.SockaddrInet4{Addr: [4]byte(a.IP[12:]), Port: int(a.Port)}
	}
	fd, err := syscall.Socket(family, flags, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	// A program that is started again takes the port of connections that linger.
	err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	if err == nil {
		err = bind(fd, to)
	}
	if err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

func bind(fd int, to syscall.Sockaddr) error {
	err := syscall.Bind(fd, to)
	if errors.Is(err, syscall.EADDRINUSE) {
		return ErrInUse
	}
	return os.NewSyscallError("bind", err)
}

// openPath makes the socket's file. Its mode is right from the start, so nobody
// else can connect in between.
func openPath(path string) (int, error) {
	if err := removeStale(path); err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, flags, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	old := syscall.Umask(0o177)
	err = bind(fd, &syscall.SockaddrUnix{Name: path})
	syscall.Umask(old)
	if err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

// removeStale removes a socket at path that nobody listens at. Anything else
// that is there stays.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode()&fs.ModeSocket == 0:
		return errors.New("a file that is no socket is there")
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, flags, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); !errors.Is(err, syscall.ECONNREFUSED) {
		return ErrInUse
	}
	return os.Remove(path)
}

func portOf(fd int) (uint16, error) {
	sa, err := syscall.Getsockname(fd)
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return uint16(sa.Port), nil
	case *syscall.SockaddrInet6:
		return uint16(sa.Port), nil
	}
	return 0, os.NewSyscallError("getsockname", err)
}
