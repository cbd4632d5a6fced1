package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/setting"
)

// pointers are strings as the kernel hands them over, with the null pointer behind.
func pointers(t testing.TB, texts ...string) (all []*byte) {
	t.Helper()
	for _, s := range texts {
		p, err := syscall.BytePtrFromString(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return append(all, nil)
}

// earlyEnviron is one in which runs are started early: the library is where it is put.
func earlyEnviron(t *testing.T) (env []string, path string) {
	t.Helper()
	const content = "a library, early"
	cache, runtime := t.TempDir(), t.TempDir()
	err := errors.Join(os.Chmod(runtime, 0o700), os.Mkdir(filepath.Join(runtime, "dynprof"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	c := library(content)
	path, err = extract(c, cache)
	if err != nil {
		t.Fatal(err)
	}
	carried = fmt.Sprintf("%s%d", c.Sum, len(content))
	atStart.files[1], runtimeSignals = 1<<20, signalTable()
	t.Cleanup(func() { carried, atStart.files[1], runtimeSignals = "", 0, nil })
	return []string{"A=1", "PATH=/none:/usr/bin:/bin", "XDG_CACHE_HOME=" + cache, "XDG_RUNTIME_DIR=" + runtime, "LD_PRELOAD=", "HOME=/none"}, path
}

func textsOf(all []*byte) (texts []string) {
	for _, p := range all {
		if p == nil {
			break
		}
		texts = append(texts, text(p))
	}
	return texts
}

// TestPrepare: what is started early is what Run would start.
func TestPrepare(t *testing.T) {
	env, library := earlyEnviron(t)
	named := filepath.Join(t.TempDir(), "table")
	for _, row := range []struct {
		flags   string
		summary int
		mangled bool
		on      []setting.ID
		output  string
	}{
		{"", 10, false, nil, ""},
		{"--summary 3 --no-demangle --direct-calls --", 3, true, nil, ""},
		{"--summary 0 --lock --strict --", 0, false, []setting.ID{setting.Lock, setting.Strict}, ""},
		{"-o " + named, 10, false, nil, named},
		{"--output=" + named + " --summary=7", 7, false, nil, named},
		{"--output " + named + ".%e.%p", 10, false, nil, named + ".%e.%p"},
	} {
		t.Run(row.flags, func(t *testing.T) {
			var a preparation
			args := append(append([]string{"hotspots", "run"}, strings.Fields(row.flags)...), "true", "-x", "--", "y")
			if !a.prepare(pointers(t, args...), pointers(t, env...)) {
				t.Fatalf("not prepared: %+v", a.Early)
			}
			p, err := Resolve(args[len(args)-4:], "/none:/usr/bin:/bin")
			if err != nil {
				t.Fatal(err)
			}
			if got := text(a.program); got != p.Path || !slices.Equal(textsOf(a.args), p.Args) {
				t.Errorf("%s %q, not %s %q", got, textsOf(a.args), p.Path, p.Args)
			}
			settings := map[setting.ID]string{setting.Output: a.Output, setting.Note: a.Note, setting.RunID: fmt.Sprintf("%x", a.ID), setting.Cache: "1", setting.FollowSelf: "1"}
			for _, id := range row.on {
				settings[id] = "1"
			}
			if got, want := textsOf(a.environ[:]), Environ(env, library, nil, settings); !slices.Equal(got, want) {
				t.Errorf("environment %q\nnot %q", got, want)
			}
			if row.output != "" && a.Output != row.output || a.Summary != row.summary || a.Mangled != row.mangled {
				t.Errorf("%+v", a.Early)
			}
		})
	}
}

// TestNotEarly: what needs to be looked at more closely is left to Run.
func TestNotEarly(t *testing.T) {
	env, library := earlyEnviron(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ args, env string }{
		{"report", ""}, {"run", ""}, {"run --", ""}, {"run --help true", ""}, {"run --nonsense true", ""},
		{"run --only x true", ""}, {"run --summary -1 true", ""}, {"run --summary 010 true", ""}, {"run --summary= true", ""}, {"run --output= true", ""},
		{"run --summary 9999999 true", ""}, {"run -o", ""}, {"run -ox true", ""}, {"run --lock=0 true", ""}, {"run -h true", ""},
		{"run -o " + script + " true", ""}, {"run -o " + dir + "/%t true", ""}, {"run -o " + dir + "/x% true", ""},
		{"run -o ./x true", ""}, {"run -o " + dir + "//x true", ""}, {"run --follow-exec true", ""},
		{"run no-such-program", ""}, {"run /etc/passwd", ""}, {"run /etc", ""}, {"run " + script, ""},
		{"run true", "DYNPROF_LOCK=1"}, {"run true", "DYNPROF_="}, {"run true", "LD_PRELOAD=x"},
		{"run true", "PATH=:/bin"}, {"run true", "PATH=bin:/bin"}, {"run true", "PATH=/bin/"}, {"run true", "PATH=/etc/../bin"},
		{"run true", "XDG_CACHE_HOME=cache"}, {"run true", "XDG_CACHE_HOME=/none"}, {"run true", "XDG_CACHE_HOME="},
		{"run true", "XDG_RUNTIME_DIR=/proc/self"}, {"run true", "XDG_RUNTIME_DIR=x"},
		{"run true", fmt.Sprint("LISTEN_PID=", os.Getpid())}, {"run true", fmt.Sprint("SYSTEMD_EXEC_PID=", os.Getpid())},
	} {
		var a preparation
		if a.prepare(pointers(t, append([]string{"hotspots"}, strings.Fields(row.args)...)...), pointers(t, append([]string{row.env}, env...)...)) {
			t.Errorf("%s %s: started early", row.args, row.env)
		}
	}
	var a preparation
	plain := []string{"hotspots", "run", "true"}
	if a.prepare(pointers(t, plain...), pointers(t, slices.Concat(env, make([]string, maxVariables))...)) {
		t.Error("with more variables than there is room for")
	}
	if err := os.Chtimes(library, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if a.prepare(pointers(t, plain...), pointers(t, env...)) {
		t.Error("with a library that somebody has changed")
	}
}

// TestLibraryElsewhere: the library may be where extract puts it if the cache is of no use.
func TestLibraryElsewhere(t *testing.T) {
	env, _ := earlyEnviron(t)
	content := library("a library, elsewhere " + t.TempDir())
	path, err := extract(content, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(path))
	carried = content.Sum + fmt.Sprint(content.Size())
	for _, cache := range []string{"XDG_CACHE_HOME=/none", "XDG_CACHE_HOME=cache", "XDG_CACHE_HOME=/a b", "XDG_CACHE_HOME="} {
		var a preparation
		if !a.prepare(pointers(t, "hotspots", "run", "true"), pointers(t, append([]string{cache}, env...)...)) || text(a.library) != path {
			t.Errorf("%s: %+v", cache, a.Early)
		}
	}
}

func TestClean(t *testing.T) {
	for path, want := range map[string]bool{
		"/a": true, "/a/b.c/..d": true, "/a b": true,
		"": false, "/": false, "a": false, "//a": false, "/a/": false, "/a//b": false, "/a/./b": false, "/a/..": false, "/.": false,
		"/" + strings.Repeat("x", 5000): false,
	} {
		if got := clean(path); got != want || got && filepath.Clean(path) != path {
			t.Errorf("%.20s: %t", path, got)
		}
	}
}

// TestTexts: there is an end of the room.
func TestTexts(t *testing.T) {
	var room texts
	long := strings.Repeat("x", len(room.bytes)/2)
	if a, b := room.join(long, "", ""), room.join(long, "", ""); a == nil || b != nil {
		t.Errorf("%v %v", a, b)
	}
	for _, n := range []int{0, 7, 10, 65534, 4294967294} {
		if got := room.number(n); got != fmt.Sprint(n) {
			t.Errorf("%d: %s", n, got)
		}
	}
	room.used = len(room.bytes) - 1
	if room.number(123456) != "" || room.join("", "", "x") != nil || room.join("", "", "") == nil {
		t.Error("more than there is room for")
	}
}

// signalTable is as that of Go 1.26.
func signalTable() *[signals + 1]runtimeSignal {
	var table [signals + 1]runtimeSignal
	for s := range table {
		if s < signals && letInSignals>>s&1 != 0 {
			table[s].flags = 1<<7 | 1
		}
	}
	return &table
}

// TestKnownRuntime: with a runtime that lets other signals in no program is started early.
func TestKnownRuntime(t *testing.T) {
	t.Cleanup(func() { runtimeSignals = nil })
	if runtimeSignals = nil; knownRuntime() {
		t.Error("known, but nobody has said where it is")
	}
	for s := range signals + 1 {
		runtimeSignals = signalTable()
		if runtimeSignals[s].flags ^= 1 << 7; knownRuntime() {
			t.Errorf("signal %d is another", s)
		}
	}
	if runtimeSignals = signalTable(); !knownRuntime() {
		t.Error("not known")
	}
	keepBlocked()
	for s, entry := range runtimeSignals {
		if entry.flags&^1 != 0 {
			t.Errorf("signal %d: flags %#x", s, entry.flags)
		}
	}
	if asBefore(); *runtimeSignals != *signalTable() {
		t.Error("not as before")
	}
}
