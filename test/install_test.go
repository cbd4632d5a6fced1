package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestSelftest: what is built here counts exactly in all its ways, whatever the user has
// set, and leaves nothing behind.
func TestSelftest(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	c := cmd(build(t, "hotspots"), "selftest")
	c.env = []string{"TMPDIR=" + dir, "DYNPROF_ONLY=nothing", "DYNPROF_OBJECTS=libc.so.6"}
	r := run(t, c)
	if r.status != 0 || r.stderr != "" || !strings.HasSuffix(r.stdout, "all 15 ways to count are exact\n") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDoctor: it looks at this machine and at programs, and its status says whether these
// can be counted.
func TestDoctor(t *testing.T) {
	lane.Parallel(t)
	p := compile(t, need(t, "gcc"), []string{"-O1"}, "leaves.c")
	static := compile(t, need(t, "gcc"), []string{"-O1", "-static"}, "leaves.c")
	for _, row := range []struct {
		before []string
		args   []string
		status int
		says   string
	}{
		{nil, []string{p}, 0, "ok     " + p + " can be counted\n"},
		{nil, []string{static}, 0, "limit  " + static + " is statically linked: it loads no library\n"},
		{nil, []string{victim32(t)}, 1, "fatal  "},
		{[]string{"prlimit", "--fsize=4000000"}, nil, 0, "limit  ulimit -f: file size is limited to 3906\n"},
		{[]string{"env", "XDG_RUNTIME_DIR=/proc"}, nil, 1, "fatal  tables: /proc/dynprof"},
		{nil, []string{"--format", "json"}, 0, `{"schema":1,"worst":"`},
	} {
		c := cmd(append([]string{build(t, "hotspots"), "doctor"}, row.args...)...)
		c.before = row.before
		if r := run(t, c); r.status != row.status || r.stderr != "" || !strings.Contains(r.stdout, row.says) {
			t.Errorf("%v %v: status %d: %s%s", row.before, row.args, r.status, r.stdout, r.stderr)
		}
	}
}

// TestInstall: what make install puts below DESTDIR is whole, works there, and is all
// taken away again.
func TestInstall(t *testing.T) {
	lane.Parallel(t)
	need(t, "make")
	build(t, "hotspots") // so that nothing is built now, beside other tests
	dest := t.TempDir()
	r := run(t, cmd("make", "-C", "..", "-s", "-o", "all", "install", "DESTDIR="+dest, "PREFIX=/opt/dynprof"))
	if r.status != 0 {
		t.Fatalf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	at := filepath.Join(dest, "opt/dynprof")
	for path, want := range map[string]string{
		"bin/hotspots": "\x7fELF", "lib/dynprof/libdynprof.so": "\x7fELF", "include/dynprof.h": "dynprof_plugin_init", "include/memtr.h": "memtr_regist", "include/dynprof_trace.h": "dynprof_trace_mark",
		"share/man/man1/hotspots-run.1": ".SH SYNOPSIS", "share/bash-completion/completions/hotspots": "complete ",
		"share/zsh/site-functions/_hotspots": "#compdef hotspots", "share/fish/vendor_completions.d/hotspots.fish": "complete ",
		"lib/systemd/system/dynprof-serve.service": "ExecStart=/opt/dynprof/bin/hotspots serve",
		"share/doc/dynprof/examples/dynprof.conf":  "LD_PRELOAD=/opt/dynprof/lib/dynprof/libdynprof.so",
		"share/doc/dynprof/examples/dynprof.json":  "{",
	} {
		if text := read(t, filepath.Join(at, path)); !strings.Contains(text, want) {
			t.Errorf("%s: no %q", path, want)
		}
	}
	if r := run(t, cmd(filepath.Join(at, "bin/hotspots"), "selftest")); r.status != 0 {
		t.Errorf("selftest: status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	run(t, cmd("make", "-C", "..", "-s", "-o", "all", "uninstall", "DESTDIR="+dest, "PREFIX=/opt/dynprof"))
	err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
