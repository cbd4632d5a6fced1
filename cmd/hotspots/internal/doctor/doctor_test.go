package doctor

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// healthy is a machine where nothing is limited.
func healthy() (*Machine, map[string]string) {
	files := map[string]string{
		"/proc/self/status": "Name:\thotspots\nSeccomp:\t0\n", "/proc/sys/vm/overcommit_memory": "0\n",
		"/proc/sys/kernel/perf_event_paranoid": "2\n", "/proc/sys/kernel/yama/ptrace_scope": "0\n",
		"/proc/1/status": "", "/usr/lib/debug/.build-id": "", "/usr/bin/gdb": "",
	}
	return &Machine{
		Read: func(path string) ([]byte, error) {
			if s, ok := files[path]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		},
		Exists:  func(path string) bool { _, ok := files[path]; return ok },
		Getenv:  func(name string) string { return map[string]string{"PATH": "/bin:/usr/bin"}[name] },
		Limit:   func(int) (uint64, bool) { return math.MaxUint64, true },
		Prctl:   func(int) int { return -1 },
		GlibC:   func() string { return "ld.so (Debian GLIBC 2.36-9) stable release version 2.36.\n" },
		Library: func() (string, error) { return "/cache/libdynprof.so", nil },
		Room:    func(string) (uint64, error) { return 1 << 40, nil },
		Tables:  "/tmp/dynprof-1000", Uid: 1000,
	}, files
}

// TestLook: each limit is found, says what to do, and is alone.
func TestLook(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Machine, map[string]string)
		worst  Severity
		what   string
	}{
		{"nothing", func(*Machine, map[string]string) {}, Fine, "glibc 2.36"},
		{"old glibc", func(m *Machine, _ map[string]string) { m.GlibC = func() string { return "version 2.31." } }, Fatal, "glibc 2.31"},
		{"musl", func(m *Machine, _ map[string]string) { m.GlibC = func() string { return "" } }, Fatal, "glibc: no"},
		{"no library", func(m *Machine, _ map[string]string) {
			m.Library = func() (string, error) { return "", errors.New("noexec") }
		}, Fatal, "library: noexec"},
		{"no place", func(m *Machine, _ map[string]string) {
			m.Room = func(string) (uint64, error) { return 0, errors.New("read-only") }
		}, Fatal, "read-only"},
		{"full", func(m *Machine, _ map[string]string) {
			m.Room = func(string) (uint64, error) { return 5 << 20, nil }
		}, Limit, "has 5 MiB left"},
		{"seccomp", func(_ *Machine, f map[string]string) { f["/proc/self/status"] = "Seccomp:\t2\n" }, Limit, "seccomp"},
		{"MDWE", func(m *Machine, _ map[string]string) { m.Prctl = func(n int) int { return 1 } }, Fine, "PR_SET_MDWE"},
		{"SELinux", func(_ *Machine, f map[string]string) { f["/sys/fs/selinux/enforce"] = "1" }, Limit, "SELinux"},
		{"ulimit -v", func(m *Machine, _ map[string]string) {
			m.Limit = func(r int) (uint64, bool) {
				if r == syscall.RLIMIT_AS {
					return 1 << 20, true
				}
				return 0, false
			}
		}, Limit, "ulimit -v: address space is limited to 1024"},
		{"overcommit", func(_ *Machine, f map[string]string) { f["/proc/sys/vm/overcommit_memory"] = "2" }, Limit, "vm.overcommit_memory=2"},
		{"perf", func(_ *Machine, f map[string]string) { f["/proc/sys/kernel/perf_event_paranoid"] = "3" }, Limit, "perf_event_paranoid=3"},
		{"no perf", func(_ *Machine, f map[string]string) { delete(f, "/proc/sys/kernel/perf_event_paranoid") }, Limit, "without perf events"},
		{"ptrace", func(_ *Machine, f map[string]string) { f["/proc/sys/kernel/yama/ptrace_scope"] = "1" }, Limit, "ptrace_scope=1"},
		{"hidepid", func(_ *Machine, f map[string]string) { delete(f, "/proc/1/status") }, Limit, "hidepid"},
		{"no debug files", func(_ *Machine, f map[string]string) { delete(f, "/usr/lib/debug/.build-id") }, Limit, "no debug files"},
		{"no gdb", func(_ *Machine, f map[string]string) { delete(f, "/usr/bin/gdb") }, Limit, "no gdb"},
	} {
		m, files := healthy()
		row.change(m, files)
		all := Look(m)
		found := 0
		for _, f := range all {
			if strings.Contains(f.What, row.what) {
				found++
			}
			if f.Severity != Fine && f.Effect == "" || strings.Contains(f.What+f.Effect+f.Mend, "\n") {
				t.Errorf("%s: %+v", row.name, f)
			}
			if f.Severity != Fine && !strings.Contains(f.What, row.what) {
				t.Errorf("%s: found besides: %+v", row.name, f)
			}
		}
		if Worst(all) != row.worst || found != 1 {
			t.Errorf("%s: worst is %s, %d times %q: %+v", row.name, Worst(all), found, row.what, all)
		}
	}
}

// TestProgram: what a file tells.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old") // for 32 bits
	head := append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 200)...)
	head[16], head[18] = 2, 3
	if err := os.WriteFile(old, head, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Severity{"sh": Fine, "no-such-program": Fatal, old: Fatal} {
		all := Program(name, "/usr/bin:/bin")
		if worst := Worst(all); worst != want && !(name == "sh" && worst == Limit) || len(all) == 0 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
