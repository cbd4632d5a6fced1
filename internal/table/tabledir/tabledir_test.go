package tabledir_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/tabledir"
)

func TestExpand(t *testing.T) {
	n := tabledir.Names{Program: "/opt/my prog\n", Pid: 12, Host: "box.example", Time: time.Unix(99, 0)}
	for _, row := range []struct{ pattern, want, fails string }{
		{"a", "a", ""},
		{tabledir.DefaultPattern, "my_prog_.12.dynprof", ""},
		{"/x/%h/%e-%t-100%%", "/x/box.example/my_prog_-99-100%", ""},
		{"%x", "", "only %e %h %p %t %%"},
		{"a%", "", "ends in %"},
	} {
		t.Run(row.pattern, func(t *testing.T) {
			got, err := tabledir.Expand(row.pattern, n)
			if got != row.want || (err == nil) != (row.fails == "") || err != nil && !strings.Contains(err.Error(), row.fails) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	for program, want := range map[string]string{"..": "unknown", "/": "_", "a/../..": "unknown", strings.Repeat("é", 99): strings.Repeat("_", 64)} {
		if got, err := tabledir.Expand("%e", tabledir.Names{Program: program}); got != want || err != nil {
			t.Errorf("%q: got %q, %v; want %q", program, got, err, want)
		}
	}
}

func TestDefaultDir(t *testing.T) {
	uid := os.Getuid()
	dir := t.TempDir()
	fallback := filepath.Join("/tmp", "dynprof-"+strconv.Itoa(uid))
	for _, row := range []struct {
		name, runtimeDir string
		uid              int
		want             string
	}{
		{"ours", dir, uid, dir + "/dynprof"},
		{"another user's", dir, uid + 1, "/tmp/dynprof-" + strconv.Itoa(uid+1)},
		{"not set", "", uid, fallback},
		{"missing", dir + "/no", uid, fallback},
		{"relative", "run", uid, fallback},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := tabledir.Default(row.runtimeDir, row.uid); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestOutputPath(t *testing.T) {
	run := t.TempDir()
	n := tabledir.Names{Program: "/bin/x", Pid: 5}
	got, err := tabledir.OutputPath("", run, n)
	if err != nil || got != run+"/dynprof/x.5.dynprof" {
		t.Fatalf("default: %q, %v", got, err)
	}
	fi, err := os.Stat(run + "/dynprof")
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatalf("directory: %v, %v", fi.Mode(), err)
	}
	if err := os.Chmod(run+"/dynprof", 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := tabledir.OutputPath("", run, n); err == nil {
		t.Error("a directory open to the group was taken")
	}
	if err := os.Remove(run + "/dynprof"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), run+"/dynprof"); err != nil {
		t.Fatal(err)
	}
	if _, err := tabledir.OutputPath("", run, n); err == nil {
		t.Error("a symbolic link was taken")
	}
	got, err = tabledir.OutputPath(run+"/deep/er/%p", run, n)
	if err != nil || got != run+"/deep/er/5" {
		t.Errorf("pattern: %q, %v", got, err)
	}
	if _, err := os.Stat(run + "/deep/er"); err != nil {
		t.Error(err)
	}
}
