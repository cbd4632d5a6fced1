package tabledir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// others is the first of some users that are not us.
const others = 3999999990

// directory makes a directory of that user with that mode.
func directory(t *testing.T, dir string, uid int, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	if uid != os.Getuid() {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSearchBelow: a directory is looked into if it is its user's alone. Others could
// have made it to show tables of theirs.
func TestSearchBelow(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has directories of others")
	}
	root := t.TempDir()
	one, two := strconv.Itoa(others), strconv.Itoa(others+1)
	for _, row := range []struct {
		dir  string
		uid  int
		mode os.FileMode
	}{
		{"run/dynprof/service", others + 7, 0o700}, // of whatever user
		{"run/dynprof/open", others, 0o750},
		{"run/user/" + one + "/dynprof", others, 0o700},
		{"run/user/" + two + "/dynprof", others, 0o700}, // another's
		{"run/user/name/dynprof", others, 0o700},
		{"tmp/dynprof-" + one, others, 0o700},
		{"tmp/dynprof-" + two, others + 1, 0o701},
		{"tmp/dynprof-0", others, 0o700},
		{"tmp/dynprof-", others, 0o700},
		{"tmp/dynprof-dynprof", others, 0o700},
	} {
		directory(t, filepath.Join(root, row.dir), row.uid, row.mode)
	}
	for _, err := range []error{
		os.Symlink(filepath.Join(root, "tmp/dynprof-"+one), filepath.Join(root, "tmp/dynprof-3999999993")),
		os.WriteFile(filepath.Join(root, "tmp/dynprof-00"), nil, 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, d := range searchBelow(root) {
		got = append(got, strings.TrimPrefix(d, root+"/"))
	}
	want := []string{"run/dynprof/service", "run/user/" + one + "/dynprof", "tmp/dynprof-" + one}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, d := range SearchAll() {
		if fi, err := os.Lstat(d); err != nil || !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", d, fi, err)
		}
	}
}

// TestSearch: where the user's environment says, and where it would be without one.
func TestSearch(t *testing.T) {
	uid, run := os.Getuid(), t.TempDir()
	if got := Search(run, uid); slices.Contains(got, run+"/dynprof") {
		t.Errorf("%v, and there is no such directory", got)
	}
	directory(t, run+"/dynprof", uid, 0o700)
	if got := Search(run, uid); len(got) == 0 || got[0] != run+"/dynprof" {
		t.Errorf("%v, not %s", got, run+"/dynprof")
	}
	directory(t, run+"/dynprof", uid, 0o770)
	if got := Search(run, uid); slices.Contains(got, run+"/dynprof") {
		t.Errorf("%v, and it is open to a group", got)
	}
	if uid != 0 {
		return
	}
	fallback := "/tmp/dynprof-" + strconv.Itoa(others)
	t.Cleanup(func() { os.RemoveAll(fallback) })
	directory(t, fallback, others, 0o700)
	if got := Search(run, others); !slices.Equal(got, []string{fallback}) {
		t.Errorf("another's: %v", got)
	}
	directory(t, fallback, others+1, 0o700)
	if got := Search("", others); len(got) != 0 {
		t.Errorf("made by a third: %v", got)
	}
}

// TestMakePrivate: one that is there must be ours alone, and nothing else.
func TestMakePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	for range 2 {
		was := syscall.Umask(0o777)
		err := MakePrivate(dir)
		if syscall.Umask(was); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", fi.Mode(), err)
		}
	}
	if err := MakePrivate(dir + "/a/b"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "DYNPROF_OUTPUT") {
		t.Errorf("below what is not there: %v", err)
	}
	for name, prepare := range map[string]func(path string) error{
		"file":     func(path string) error { return os.WriteFile(path, nil, 0o700) },
		"link":     func(path string) error { return os.Symlink(dir, path) },
		"nowhere":  func(path string) error { return os.Symlink("/no/such", path) },
		"readable": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o755)) },
		"foreign": func(path string) error {
			if os.Getuid() != 0 {
				return os.WriteFile(path, nil, 0o700)
			}
			return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o700), os.Chown(path, others, others))
		},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		if err := MakePrivate(path); err == nil || !strings.Contains(err.Error(), "not a directory of yours with mode 0700") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOutputPathRefuses: a name that cannot be is refused before any directory is made.
func TestOutputPathRefuses(t *testing.T) {
	dir := t.TempDir()
	n := Names{Program: "/bin/x", Pid: 5, Time: time.Unix(1, 0)}
	long := strings.Repeat("n", 256)
	for pattern, want := range map[string]error{
		dir + "/a/" + long:                       syscall.ENAMETOOLONG,
		dir + "/b/" + long + "/c":                syscall.ENAMETOOLONG,
		dir + strings.Repeat("/"+long[:200], 21): syscall.ENAMETOOLONG,
		dir + "/c/%q":                            nil,
		dir + "/d/%":                             nil,
		"/dev/null/e/f":                          syscall.ENOTDIR,
	} {
		path, err := OutputPath(pattern, "", n)
		if path != "" || err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %q, %v", pattern, path, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("made %v", left)
	}
	if got, err := OutputPath(dir+"/e/"+long[:255], "", n); err != nil || len(filepath.Base(got)) != 255 {
		t.Errorf("the longest name: %v", err)
	}
}

// TestRoomHint: the error says what to do, and is still what it was.
func TestRoomHint(t *testing.T) {
	for err, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "no room in /d: remove old tables", syscall.EDQUOT: "hotspots prune",
		syscall.EFBIG: "ulimit -f", syscall.EIO: "choose another place",
	} {
		if got := RoomHint("/d/a.dynprof", err); !errors.Is(got, err) || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "/d/a.dynprof") {
			t.Errorf("%v: %v", err, got)
		}
	}
}
