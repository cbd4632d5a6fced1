package launch

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/table/tabledir"
)

const libraryName = "libdynprof.so"

// Hash is the SHA-256 of the library in hex digits.
func Hash(library *io.SectionReader) string {
	sum := sha256.New()
	io.Copy(sum, fromStart(library)) // of memory: there is no error
	return hex.EncodeToString(sum.Sum(nil))
}

// fromStart reads all of it, wherever others that read it have come to.
func fromStart(library *io.SectionReader) *io.SectionReader {
	return io.NewSectionReader(library, 0, library.Size())
}

// Library returns the path of a library file for LD_PRELOAD: given, if it is
// not empty, else embedded, written to the user's cache directory.
func Library(given string, embedded *io.SectionReader, cacheDir string) (string, error) {
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
	if embedded == nil {
		return "", errors.New("this hotspots was built without the library: build it with make, or name a libdynprof.so with --library")
	}
	return extract(embedded, cacheDir)
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
func extract(content *io.SectionReader, cacheDir string) (string, error) {
	defer syscall.Umask(syscall.Umask(0o077)) // the caller's may leave nothing to be used
	var errs []error
	if filepath.IsAbs(cacheDir) {
		path, err := extractTo(filepath.Join(cacheDir, "dynprof"), content, os.MkdirAll)
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	private := func(dir string, _ os.FileMode) error { return tabledir.MakePrivate(dir) }
	path, err := extractTo(tabledir.Default("", os.Getuid()), content, private)
	if err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no place to put the library: %w", errors.Join(append(errs, err)...))
}

func extractTo(base string, content *io.SectionReader, mkdir func(string, os.FileMode) error) (string, error) {
	dir := filepath.Join(base, Hash(content)[:16])
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
	if checkOwn(path) == nil && holds(path, content) {
		return path, nil
	}
	return path, replace(path, content)
}

// holds tells whether the file is content and nothing more.
func holds(path string, content *io.SectionReader) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != content.Size() {
		return false
	}
	have, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); at < content.Size(); at += int64(len(want)) {
		n, _ := content.ReadAt(want, at)
		if m, _ := f.ReadAt(have, at); !bytes.Equal(have[:m], want[:n]) {
			return false
		}
	}
	return true
}

// replace writes the file whole or not at all: programs may be loading it.
func replace(path string, content *io.SectionReader) error {
	f, err := os.CreateTemp(filepath.Dir(path), libraryName+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, fromStart(content))
	if err == nil {
		err = f.Chmod(0o500)
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
