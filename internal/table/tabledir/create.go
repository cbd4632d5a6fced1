package tabledir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Create opens a new file of that name or, where it exists, of the
// name with .2, .3 … before its extension.
func Create(path string) (*os.File, string, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	base, ext := strings.TrimSuffix(path, Ext), ""
	if base != path {
		ext = Ext
	}
	name := path
	for n := 2; ; n++ {
		f, err := os.OpenFile(name, flags, 0o600)
		if err == nil {
			f.Chmod(0o600) // whatever the program's umask: it is opened again
			return f, name, nil
		}
		if !errors.Is(err, os.ErrExist) || n > 9999 {
			return nil, "", fmt.Errorf("cannot create the count table: %w; choose another place with -o or DYNPROF_OUTPUT", err)
		}
		name = base + "." + strconv.Itoa(n) + ext
	}
}

// RoomHint is the error of a write to the table at path, with what to do about it.
func RoomHint(path string, err error) error {
	hint := "choose another place with -o or DYNPROF_OUTPUT"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "no room in " + filepath.Dir(path) + ": remove old tables (hotspots prune) or " + hint
	case errors.Is(err, syscall.EFBIG):
		hint = "the file-size limit (ulimit -f) is too small: raise it"
	}
	return fmt.Errorf("cannot write the count table %s: %w; %s", path, err, hint)
}
