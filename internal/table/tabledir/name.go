package tabledir

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Ext is the extension of count tables.
const Ext = ".dynprof"

// DefaultPattern is the file name of tables in the default directory.
const DefaultPattern = "%e.%p" + Ext

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
		dir := Default(runtimeDir, os.Getuid())
		if err := MakePrivate(dir); err != nil {
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
