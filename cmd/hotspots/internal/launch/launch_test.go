package launch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/setting"
)

func TestRaises(t *testing.T) {
	for _, row := range []struct {
		name         string
		mode         uint32
		owner, group uint32
		capabilities bool
		uid, gid     int
		want         string
	}{
		{"plain", 0o755, 0, 0, false, 1000, 1000, ""},
		{"set-user-ID root", 0o4755, 0, 0, false, 1000, 1000, "is set-user-ID"},
		{"set-user-ID root, for root", 0o4755, 0, 0, false, 0, 0, ""},
		{"set-user-ID of another, for root", 0o4755, 5, 0, false, 0, 0, "is set-user-ID"},
		{"set-group-ID", 0o2755, 0, 42, false, 1000, 1000, "is set-group-ID"},
		{"set-group-ID of our group", 0o2755, 0, 1000, false, 1000, 1000, ""},
		{"mandatory locking, no group execution", 0o2745, 0, 42, false, 1000, 1000, ""},
		{"capabilities", 0o755, 0, 0, true, 1000, 1000, "has file capabilities"},
		{"capabilities, for root", 0o755, 0, 0, true, 0, 0, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			st := &syscall.Stat_t{Mode: row.mode, Uid: row.owner, Gid: row.group}
			if got := raises(st, row.capabilities, row.uid, row.gid); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/prog": 0o644, "b/prog": 0o755, "a/data": 0o644, "here": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, row := range []struct {
		name, search, want string
		err                error
	}{
		{"prog", "/none:a:b", "b/prog", nil},
		{"prog", "a", "", ErrNotExecutable},
		{"data", "a:b", "", ErrNotExecutable},
		{"prog", "c", "", ErrNotFound},
		{"here", "a::b", "./here", nil},
		{"here", "a:b", "", ErrNotFound},
		{"b/prog", "", "b/prog", nil},
		{"a/prog", "", "a/prog", ErrNotExecutable},
		{"a", "", "./a", ErrNotExecutable},
	} {
		t.Run(row.name+" in "+row.search, func(t *testing.T) {
			got, err := lookPath(row.name, row.search)
			if !errors.Is(err, row.err) || err == nil && got != row.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A script of env is led past it: the counted program is the one that env
// would execute, with the same arguments.
func TestResolveScripts(t *testing.T) {
	sh, err := lookPath("sh", "/usr/bin:/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ line, path, args, note string }{
		{"#!/bin/sh", "SCRIPT", "script x", ""},
		{"#!/usr/bin/env sh", sh, "sh SCRIPT x", ""},
		{"#! /usr/bin/env  sh ", sh, "sh SCRIPT x", ""},
		{"#!/usr/bin/env -S sh -u -e", sh, "sh -u -e SCRIPT x", ""},
		{"#!/usr/bin/env -S A=1 sh", "SCRIPT", "script x", "only that is counted"},
		{"#!/usr/bin/env -i sh", "SCRIPT", "script x", "only that is counted"},
		{"#!/usr/bin/env sh -u", "SCRIPT", "script x", "only that is counted"}, // one argument with a space
		{"#!/usr/bin/env no-such-program", "SCRIPT", "script x", ""},
		{"#!/usr/bin/env", "SCRIPT", "script x", ""},
		{"echo no interpreter", "SCRIPT", "script x", ""},
	} {
		t.Run(row.line, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte(row.line+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			p, err := Resolve([]string{"script", "x"}, filepath.Dir(script)+":/usr/bin:/bin")
			if err != nil {
				t.Fatal(err)
			}
			name := func(s string) string { return strings.ReplaceAll(s, script, "SCRIPT") }
			if got := name(strings.Join(p.Args, " ")); name(p.Path) != row.path || got != row.args || p.Why != "" {
				t.Errorf("%s %q, %s", p.Path, got, p.Why)
			}
			if (p.Note == "") != (row.note == "") || !strings.Contains(p.Note, row.note) {
				t.Errorf("note %q", p.Note)
			}
		})
	}
}

func TestEnviron(t *testing.T) {
	for _, row := range []struct {
		name  string
		base  []string
		first []string
		want  string
	}{
		{"nothing there", []string{"A=1"}, nil, "A=1 LD_PRELOAD=/l.so DYNPROF_ONLY=x"},
		{"the user's own", []string{"LD_PRELOAD=u.so v.so", "A=1"}, nil, "A=1 LD_PRELOAD=u.so:v.so:/l.so DYNPROF_ONLY=x DYNPROF_PAD=1"},
		{"twice: the last", []string{"LD_PRELOAD=u", "LD_PRELOAD=v"}, nil, "LD_PRELOAD=v:/l.so DYNPROF_ONLY=x DYNPROF_PAD=1"},
		{"a sanitizer", []string{"LD_PRELOAD=u"}, []string{"libasan.so.8"}, "LD_PRELOAD=libasan.so.8:u:/l.so DYNPROF_PRELOADED=libasan.so.8 DYNPROF_ONLY=x"},
		{"a sanitizer that is there", []string{"LD_PRELOAD=/lib/libasan.so.8"}, []string{"libasan.so.8"}, "LD_PRELOAD=/lib/libasan.so.8:/l.so DYNPROF_ONLY=x DYNPROF_PAD=1"},
		{"our variables", []string{"DYNPROF_ONLY=old", "DYNPROF_SKIP=s", "DYNPROF_NEW=n", "B=2"}, nil, "B=2 LD_PRELOAD=/l.so DYNPROF_NEW=n DYNPROF_ONLY=x DYNPROF_PAD=1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := strings.Join(Environ(row.base, "/l.so", row.first, map[setting.ID]string{setting.Only: "x", setting.Skip: ""}), " ")
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestExtract(t *testing.T) {
	const text = "a library"
	content := library(text)
	cache := t.TempDir()
	path, err := extract(content, cache)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(cache, "dynprof", content.Sum[:16], libraryName); path != want {
		t.Errorf("got %s, want %s", path, want)
	}
	first := inode(t, path)
	if again, err := extract(content, cache); again != path || err != nil || inode(t, path) != first {
		t.Errorf("not used again: %s, %v", again, err)
	}
	for name, spoil := range map[string]func() error{
		"changed": func() error {
			return errors.Join(os.Chmod(path, 0o700), os.WriteFile(path, []byte("a libraty"), 0o700))
		},
		"others can write": func() error { return os.Chmod(path, 0o722) },
		"gone":             func() error { return os.Remove(path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		before := inode(t, path)
		if _, err := extract(content, cache); err != nil || inode(t, path) == before {
			t.Errorf("%s: not written again: %v", name, err)
		}
		if b, err := os.ReadFile(path); string(b) != text || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func library(text string) *Carried {
	return &Carried{io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}
}

func inode(t *testing.T, path string) uint64 {
	fi, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return fi.Sys().(*syscall.Stat_t).Ino
}

// Where the cache cannot be used, /tmp/dynprof-UID can.
func TestExtractElsewhere(t *testing.T) {
	content := library("another library " + t.TempDir())
	shared := t.TempDir()
	if err := os.Mkdir(shared+"/dynprof", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared+"/dynprof", 0o777); err != nil {
		t.Fatal(err)
	}
	for name, cache := range map[string]string{
		"not set": "", "relative": "cache", "not writable": "/proc/dynprof-test", "a path with a space": t.TempDir() + "/a b", "open to others": shared,
	} {
		path, err := extract(content, cache)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(path, "/tmp/dynprof-") {
			t.Errorf("%s: %s", name, path)
		}
		defer os.RemoveAll(filepath.Dir(path))
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"#!/bin/sh -e\n", "#!/usr/bin/env -S sh -u\n", "#! \n", "\x7fELF\x02\x01\x01", ""} {
		f.Add([]byte(seed))
	}
	if self, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(self)
	}
	path := filepath.Join(f.TempDir(), "program")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := Resolve([]string{path, "x"}, "/usr/bin:/bin")
		if err != nil || len(p.Args) < 2 || p.Args[len(p.Args)-1] != "x" || p.Path == "" {
			t.Errorf("%+v, %v", p, err)
		}
		early := preparation{uid: os.Getuid(), program: pointers(t, path)[0]}
		if early.countable() && (p.Why != "" || p.Note != "" || len(p.Preload) > 0 || p.Path != path) {
			t.Errorf("started early, but %+v", p)
		}
	})
}

// The program is looked at while it runs.
func TestWatch(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	script := fmt.Sprintf("read x </proc/%d/fd/%d; exit 5", os.Getpid(), from.Fd())
	p, err := Resolve([]string{"sh", "-c", script}, "/usr/bin:/bin")
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	r, err := Run(p, os.Environ(), func(pid int) {
		if looks++; looks == 3 {
			fmt.Fprintln(to, pid)
		}
	})
	if err != nil || r.Code != 5 || looks < 3 {
		t.Errorf("%+v, %v, %d looks", r, err, looks)
	}
}

func TestProgramOf(t *testing.T) {
	for _, row := range []struct {
		args    string
		program string
		strict  bool
	}{
		{"run -- app -x", "app", false},
		{"run app -- x", "app", false},
		{"run --strict -o file --only x --lock -- app", "app", true},
		{"run -ofile --summary=3 --listen 9000 --follow-exec app --strict", "app", false},
		{"run - x", "-", false},
		{"run --", "", false},
		{"run --only", "", false},
		{"run --help app", "", false},
		{"run -h app", "", false},
		{"report app", "", false},
		{"", "", false},
	} {
		args := pointers(t, append([]string{"hotspots"}, strings.Fields(row.args)...)...)
		at, strict := programOf(args)
		program := ""
		if at > 0 {
			program = text(args[at])
		}
		if program != row.program || strict != row.strict {
			t.Errorf("%q: program %q, strict %t", row.args, program, strict)
		}
	}
}

// TestHidden: a directory of PATH that may not be searched is passed over, as if it were
// not there.
func TestHidden(t *testing.T) {
	hidden := filepath.Join(t.TempDir(), "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // who may search all: this thread may not, for a while
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		unix.SetfsuidRetUid(nobody)
		defer unix.SetfsuidRetUid(0)
	} else if err := os.Chmod(hidden, 0); err != nil {
		t.Fatal(err)
	}
	search := hidden + ":/usr/bin:/bin"
	if got, err := lookPath("true", search); err != nil || got != "/usr/bin/true" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := lookPath("no-such-program", search); !errors.Is(err, ErrNotFound) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := lookPath(hidden+"/program", search); !errors.Is(err, ErrNotExecutable) {
		t.Errorf("%q, %v", got, err)
	}
	a := preparation{args: pointers(t, "true"), search: pointers(t, search)[0]}
	if !a.find() || text(a.program) != "/usr/bin/true" {
		t.Errorf("early: %q", text(a.program))
	}
}
