package table

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
	"time"
)

// Ext is the extension of count tables.
const Ext = ".dynprof"

// DefaultPattern is the file name of tables in the default directory.
const DefaultPattern = "%e.%p" + Ext

// DefaultDir is where tables go unless told otherwise: dynprof in
// $XDG_RUNTIME_DIR if that is a directory of uid's, else /tmp/dynprof-UID.
func DefaultDir(runtimeDir string, uid int) string {
	if filepath.IsAbs(runtimeDir) {
		fi, err := os.Stat(runtimeDir)
		if err == nil && fi.IsDir() && owner(fi) == uid {
			return filepath.Join(runtimeDir, "dynprof")
		}
	}
	return filepath.Join("/tmp", "dynprof-"+strconv.Itoa(uid))
}

// SearchDirs lists the directories in which tables of uid may be: a program
// may have been started in an environment other than the reader's.
func SearchDirs(runtimeDir string, uid int) []string {
	dirs := []string{DefaultDir(runtimeDir, uid)}
	for _, d := range []string{DefaultDir(fmt.Sprintf("/run/user/%d", uid), uid), DefaultDir("", uid)} {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return checkPrivate(d, uid) != nil })
}

// servicesGlob is where services have their tables (deploy/systemd/dynprof.conf).
const servicesGlob = "/run/dynprof/*"

// AllSearchDirs lists the directories in which tables of any user or service may
// be.
func AllSearchDirs() []string {
	services, _ := filepath.Glob(servicesGlob) // the pattern is sound
	dirs := slices.DeleteFunc(services, func(d string) bool {
		fi, err := os.Lstat(d)
		return err != nil || checkPrivate(d, owner(fi)) != nil
	})
	for _, glob := range []string{"/run/user/*/dynprof", "/tmp/dynprof-*"} {
		found, err := filepath.Glob(glob)
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

// MakePrivateDir makes a default directory if it is missing, and refuses one
// that others could put files into: /tmp is open to all.
func MakePrivateDir(dir string) error {
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
	if !fi.IsDir() || owner(fi) != uid || fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of yours with mode 0700: remove it, or choose another place with -o or DYNPROF_OUTPUT", dir)
	}
	return nil
}

func owner(fi fs.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

// Names are the values that a pattern of output names may use.
type Names struct {
	Program string // path of the executable; %e is its base name
	Pid     int    // %p
	Host    string // %h
	Time    time.Time
}

// Expand replaces %e (program), %h (host), %p (pid), %t (start time, seconds
// since the epoch) and %% in pattern.
func Expand(pattern string, n Names) (string, error) {
	var out strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			out.WriteByte(pattern[i])
			continue
		}
		if i++; i == len(pattern) {
			return "", fmt.Errorf("output name %q ends in %%: write %%%% for a percent sign", pattern)
		}
		switch pattern[i] {
		case 'e':
			out.WriteString(fileWord(filepath.Base(n.Program)))
		case 'h':
			out.WriteString(fileWord(n.Host))
		case 'p':
			out.WriteString(strconv.Itoa(n.Pid))
		case 't':
			out.WriteString(strconv.FormatInt(n.Time.Unix(), 10))
		case '%':
			out.WriteByte('%')
		default:
			return "", fmt.Errorf("output name %q has %%%c: only %%e %%h %%p %%t %%%% are known", pattern, pattern[i])
		}
	}
	return out.String(), nil
}

// fileWord makes one harmless word of a file name out of s.
func fileWord(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-", r)) {
			return r
		}
		return '_'
	}, s)
	if s = s[:min(len(s), 64)]; strings.Trim(s, ".") == "" {
		return "unknown"
	}
	return s
}

// checkLength refuses a path that the kernel would, before half of its
// directories are made (NAME_MAX, PATH_MAX).
func checkLength(path string) error {
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > 255 {
			return fmt.Errorf("cannot create the count table %s: %w; choose another name with -o or DYNPROF_OUTPUT", path, syscall.ENAMETOOLONG)
		}
	}
	if len(path) >= 4096 {
		return fmt.Errorf("cannot create the count table %s: %w; choose another place with -o or DYNPROF_OUTPUT", path, syscall.ENAMETOOLONG)
	}
	return nil
}

// OutputPath returns where to create a table and makes the directory. pattern
// is DYNPROF_OUTPUT or empty, for the default; runtimeDir is XDG_RUNTIME_DIR.
func OutputPath(pattern, runtimeDir string, n Names) (string, error) {
	if pattern == "" {
		dir := DefaultDir(runtimeDir, os.Getuid())
		if err := MakePrivateDir(dir); err != nil {
			return "", err
		}
		name, err := Expand(DefaultPattern, n)
		return filepath.Join(dir, name), err
	}
	path, err := Expand(pattern, n)
	if err != nil {
		return "", err
	}
	if err := checkLength(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", fmt.Errorf("cannot make the directory for the count table: %w; choose another place with -o or DYNPROF_OUTPUT", err)
	}
	return path, nil
}
