// Package tabledir says which file a new count table gets, and in which
// directories tables are looked for. It knows nothing of what is in them.
package tabledir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Default is where tables go unless told otherwise: dynprof in
// $XDG_RUNTIME_DIR if that is a directory of uid's, else /tmp/dynprof-UID.
func Default(runtimeDir string, uid int) string {
	if filepath.IsAbs(runtimeDir) {
		fi, err := os.Stat(runtimeDir)
		if err == nil && fi.IsDir() && Owner(fi) == uid {
			return filepath.Join(runtimeDir, "dynprof")
		}
	}
	return filepath.Join("/tmp", "dynprof-"+strconv.Itoa(uid))
}

// Search lists the directories in which tables of uid may be: a program
// may have been started in an environment other than the reader's.
func Search(runtimeDir string, uid int) []string {
	dirs := []string{Default(runtimeDir, uid)}
	for _, d := range []string{Default(fmt.Sprintf("/run/user/%d", uid), uid), Default("", uid)} {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return checkPrivate(d, uid) != nil })
}

// servicesGlob is where services have their tables (deploy/systemd/dynprof.conf).
const servicesGlob = "run/dynprof/*"

// SearchAll lists the directories in which tables of any user or service may
// be.
func SearchAll() []string { return searchBelow("/") }

func searchBelow(root string) []string {
	services, _ := filepath.Glob(filepath.Join(root, servicesGlob)) // the pattern is sound
	dirs := slices.DeleteFunc(services, func(d string) bool {
		fi, err := os.Lstat(d)
		return err != nil || checkPrivate(d, Owner(fi)) != nil
	})
	for _, glob := range []string{"run/user/*/dynprof", "tmp/dynprof-*"} {
		found, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			continue // "BUG": the patterns are sound
		}
		for _, d := range found {
			digits := strings.TrimPrefix(filepath.Base(d), "dynprof-")
			if digits == "dynprof" {
				digits = filepath.Base(filepath.Dir(d))
			}
			if uid, err := strconv.Atoi(digits); err == nil && checkPrivate(d, uid) == nil {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs
}

// MakePrivate makes a default directory if it is missing, and refuses one
// that others could put files into: /tmp is open to all.
func MakePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil {
		os.Chmod(dir, 0o700) // whatever the umask
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot make the directory for count tables: %w; choose another place with -o or DYNPROF_OUTPUT", err)
	}
	return checkPrivate(dir, os.Getuid())
}

func checkPrivate(dir string, uid int) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() || Owner(fi) != uid || fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of yours with mode 0700: remove it, or choose another place with -o or DYNPROF_OUTPUT", dir)
	}
	return nil
}

// Owner is the user whose file that is.
func Owner(fi fs.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }
