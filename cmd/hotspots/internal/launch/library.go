package launch

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/tabledir"
)

const libraryName = "libdynprof.so"

// Carried is the library that this binary carries. A run of a short program takes less
// time than to read it.
type Carried struct {
	*io.SectionReader
	Sum string // its SHA-256 in hex digits, by which its file is found: the build says it
}

// stamp is the time of last change that the library's file has: whoever changes it
// gives it another, unless on purpose.
func (c *Carried) stamp() time.Time { return time.Unix(stampOf(c.Sum), 0) }

// stampOf is the stamp of the library with a sum, in seconds.
func stampOf(sum string) int64 {
	const digits = 7
	n := int64(0)
	for i := range min(digits, len(sum)) {
		d := int64(sum[i] - '0')
		if d > 9 {
			d = int64(sum[i]-'a') + 10
		}
		n = 16*n + d
	}
	return 1<<30 + n
}

// What of the sum is in the name of the library's directory, and all of it.
const (
	sumNamed  = 16
	sumDigits = 64
)

// UserLibrary is Library with the user's cache directory.
func UserLibrary(given string, carried *Carried) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "" // no HOME: /tmp it is
	}
	return Library(given, carried, cache)
}

// Library returns the path of a library file for LD_PRELOAD: given, if it is
// not empty, else embedded, written to the user's cache directory.
func Library(given string, carried *Carried, cacheDir string) (string, error) {
	if given != "" {
		path, err := filepath.Abs(given)
		if err != nil {
			return "", err
		}
		if err := checkLibrary(path); err != nil {
			return "", err
		}
		return path, checkPreloadable(path)
	}
	if carried == nil {
		return "", errors.New("this hotspots was built without the library: build it with make, or name a libdynprof.so with --library")
	}
	return extract(carried, cacheDir)
}

// checkLibrary refuses what is no libdynprof.so.
func checkLibrary(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("no library there: %w", err)
	}
	defer f.Close()
	not := fmt.Errorf("--library %s is no libdynprof.so", path)
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return not
	}
	e, err := elf.NewFile(f)
	if err != nil || e.Type != elf.ET_DYN || e.Section(".dp_goinit") == nil {
		return not
	}
	return nil
}

// extract writes the library below cacheDir or, where that cannot be used,
// below /tmp. It finds the file again by its hash.
func extract(carried *Carried, cacheDir string) (string, error) {
	defer syscall.Umask(syscall.Umask(0o077)) // the caller's may leave nothing to be used
	var errs []error
	if filepath.IsAbs(cacheDir) {
		path, err := extractTo(filepath.Join(cacheDir, "dynprof"), carried, os.MkdirAll)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	private := func(dir string, _ os.FileMode) error { return tabledir.MakePrivate(dir) }
	path, err := extractTo(tabledir.Default("", os.Getuid()), carried, private)
	if err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no place to put the library: %s", strings.ReplaceAll(errors.Join(append(errs, err)...).Error(), "\n", "; "))
}

func extractTo(base string, carried *Carried, mkdir func(string, os.FileMode) error) (string, error) {
	dir := filepath.Join(base, carried.Sum[:sumNamed])
	path := filepath.Join(dir, libraryName)
	if err := checkPreloadable(path); err != nil {
		return "", err
	}
	if err := mkdir(base, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	for _, d := range []string{base, dir} {
		if err := checkOwn(d); err != nil {
			return "", err
		}
	}
	const noexec = 0x8 // ST_NOEXEC, statfs(2)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil && fs.Flags&noexec != 0 {
		return "", fmt.Errorf("%s is on a file system mounted noexec", dir)
	}
	if checkOwn(path) == nil && carried.is(path) {
		return path, nil
	}
	return path, carried.replace(path)
}

// is tells whether the file at path is as replace has left it.
func (c *Carried) is(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == c.Size() && info.ModTime().Equal(c.stamp())
}

// replace writes the file whole or not at all, in the face of a crash, too: programs may
// be loading it, and nobody reads it to see whether it is whole.
func (c *Carried) replace(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), libraryName+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, io.NewSectionReader(c, 0, c.Size()))
	if err == nil {
		err = errors.Join(f.Chmod(0o500), os.Chtimes(f.Name(), time.Time{}, c.stamp()), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// checkOwn refuses what another user owns or can write to.
func checkOwn(path string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if int(fi.Sys().(*syscall.Stat_t).Uid) != os.Getuid() || fi.Mode().Perm()&0o022 != 0 || fi.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s is another user's, or others can write to it", path)
	}
	return nil
}

// checkPreloadable refuses paths that LD_PRELOAD cannot express (ld.so(8)).
func checkPreloadable(path string) error {
	if strings.ContainsAny(path, " :$") {
		return fmt.Errorf("LD_PRELOAD cannot name %q: it has a space, a colon or a dollar sign", path)
	}
	return nil
}
