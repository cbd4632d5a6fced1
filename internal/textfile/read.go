// Package textfile reads files that a user named.
package textfile

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

const maxSize = 64 << 20

// Read returns the content of a regular file of at most 64 MiB. Anything else
// is an error: a device may never end, a pipe may never begin.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case fi.Size() > maxSize:
		return nil, fmt.Errorf("%s is larger than %d MB", path, maxSize>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxSize))
}
