package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/file"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// outputPattern returns the value of DYNPROF_OUTPUT: absolute, with only %e,
// %p and %% left for the library, so that the tables can be found again.
func outputPattern(output string) (string, error) {
	if output == "" {
		dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
		if err := tabledir.MakePrivate(dir); err != nil {
			return "", err
		}
		return filepath.Join(escapePercent(dir), tabledir.DefaultPattern), nil
	}
	pattern, err := named(output)
	if err != nil {
		return "", err
	}
	if !varies(output) {
		return pattern, makeWay(plain(pattern))
	}
	return pattern, nil
}

// named is the pattern of an output that the user has named.
func named(output string) (string, error) {
	pattern, err := expandEarly(output)
	if err != nil || filepath.IsAbs(pattern) {
		return pattern, err
	}
	dir, err := os.Getwd()
	return filepath.Join(escapePercent(dir), pattern), err
}

// plain is the name that a pattern is that does not vary.
func plain(pattern string) string { return strings.ReplaceAll(pattern, "%%", "%") }

// varies reports whether the output's name depends on the program.
func varies(output string) bool {
	plain := strings.ReplaceAll(output, "%%", "")
	return strings.Contains(plain, "%p") || strings.Contains(plain, "%e")
}

// expandEarly replaces %h and %t.
func expandEarly(pattern string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	// Doubling keeps %e, %p and %% through this expansion.
	kept := strings.NewReplacer("%%", "%%%%", "%e", "%%e", "%p", "%%p").Replace(pattern)
	return tabledir.Expand(kept, tabledir.Names{Host: host, Time: time.Now()})
}

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// makeWay removes an old table that the user names as output again. The
// library never writes over a file.
func makeWay(path string) error {
	if err := mayReplace(path); err != nil {
		return err
	}
	// Asked first: of a file that is not there, a kernel may say that the file
	// system is read-only.
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // another run with the same name has made way
		return err
	}
	return nil
}

// mayReplace refuses to write over what is no table, or one that is in use.
func mayReplace(path string) error {
	e, err := find.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot create the count table: %w; choose another name with -o", err)
	case err != nil && unborn(path):
		return nil
	case err != nil:
		return fmt.Errorf("-o would write over a file that is no count table: %w; remove it, or choose another name", err)
	case e.Status == alive.Running && !free(path, 0), e.Held && !free(path, 2*time.Second):
		return fmt.Errorf("-o %s: a running program counts into it; choose another name", path)
	}
	return nil
}

// unborn reports whether a file is what a program leaves that is killed when its table
// has just been created: nothing, which only its user may read, and nobody has open.
func unborn(path string) bool {
	f, err := file.Open(path, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.OS().Stat()
	if err != nil || fi.Size() != 0 || fi.Mode() != 0o600 || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return false
	}
	held, known := f.Held()
	return known && !held
}

// free waits, not for longer, until nobody counts into a table. Readers do not matter, nor does an agent that is about to go: what they
// have open stays as it is.
func free(path string, patience time.Duration) bool {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		counting, err := alive.Counting(path)
		if err != nil || !counting || time.Now().After(end) {
			return err == nil && !counting
		}
	}
}

// notePath is where the library leaves word that it counts nothing. In a user
// namespace the directory may be that of another user who is 0 outside; then it is a
// name that nobody can foresee.
func notePath(id []byte) string {
	dir := tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if tabledir.MakePrivate(dir) != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "note."+hex.EncodeToString(id))
}
