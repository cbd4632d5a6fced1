package table_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

func TestExpand(t *testing.T) {
	n := table.Names{Program: "/opt/my prog\n", Pid: 12, Host: "box.example", Time: time.Unix(99, 0)}
	for _, row := range []struct{ pattern, want, fails string }{
		{"a", "a", ""},
		{table.DefaultPattern, "my_prog_.12.dynprof", ""},
		{"/x/%h/%e-%t-100%%", "/x/box.example/my_prog_-99-100%", ""},
		{"%x", "", "only %e %h %p %t %%"},
		{"a%", "", "ends in %"},
	} {
		t.Run(row.pattern, func(t *testing.T) {
			got, err := table.Expand(row.pattern, n)
			if got != row.want || (err == nil) != (row.fails == "") || err != nil && !strings.Contains(err.Error(), row.fails) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	for program, want := range map[string]string{"..": "unknown", "/": "_", "a/../..": "unknown", strings.Repeat("é", 99): strings.Repeat("_", 64)} {
		if got, err := table.Expand("%e", table.Names{Program: program}); got != want || err != nil {
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
			if got := table.DefaultDir(row.runtimeDir, row.uid); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestOutputPath(t *testing.T) {
	run := t.TempDir()
	n := table.Names{Program: "/bin/x", Pid: 5}
	got, err := table.OutputPath("", run, n)
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
	if _, err := table.OutputPath("", run, n); err == nil {
		t.Error("a directory open to the group was taken")
	}
	if err := os.Remove(run + "/dynprof"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), run+"/dynprof"); err != nil {
		t.Fatal(err)
	}
	if _, err := table.OutputPath("", run, n); err == nil {
		t.Error("a symbolic link was taken")
	}
	got, err = table.OutputPath(run+"/deep/er/%p", run, n)
	if err != nil || got != run+"/deep/er/5" {
		t.Errorf("pattern: %q, %v", got, err)
	}
	if _, err := os.Stat(run + "/deep/er"); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for i, path := range []string{a + "/old.dynprof", b + "/new.dynprof", a + "/mid.dynprof"} {
		spec := tabletest.Spec()
		spec.Realtime = spec.Realtime.Add([]time.Duration{0, 2, 1}[i] * time.Hour)
		spec.Pid = uint32(i + 1)
		tabletest.CreateAt(t, path, spec)
	}
	building, err := table.Create(a+"/building.dynprof", tabletest.Spec())
	if err != nil {
		t.Fatal(err)
	}
	building.Close()
	for _, other := range []string{a + "/foreign.dynprof", a + "/x.txt"} {
		if err := os.WriteFile(other, []byte("no table"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := table.List(a, b, a+"/missing")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, filepath.Base(e.Path))
	}
	if s := strings.Join(got, " "); s != "building.dynprof new.dynprof mid.dynprof old.dynprof" {
		t.Errorf("got %s", s)
	}
}

func TestMappedBy(t *testing.T) {
	live := tabletest.Create(t, "my table", tabletest.Spec())
	if got := table.MappedBy(os.Getpid()); got != "" {
		t.Fatalf("found %s before it was mapped", got)
	}
	m := mapShared(t, live.Path)
	defer syscall.Munmap(m)
	if got := table.MappedBy(os.Getpid()); got != live.Path {
		t.Errorf("got %q, want %s", got, live.Path)
	}
}
