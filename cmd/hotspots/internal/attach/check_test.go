package attach

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// refusal is what an error has to say; empty: there is none.
func refusal(t *testing.T, what string, err error, says string) {
	t.Helper()
	if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n")) {
		t.Errorf("%s: %v, not %q", what, err, says)
	}
}

// TestRetry: a try that takes longer than the time there is for all is not the last.
func TestRetry(t *testing.T) {
	tries := 0
	err := retryFor(os.Getpid(), 0, func() error {
		if tries++; tries < 4 {
			return again("not yet")
		}
		return nil
	})
	if err != nil || tries != 4 {
		t.Errorf("%v after %d tries", err, tries)
	}
	refusal(t, "never", retryFor(os.Getpid(), 0, func() error { return again("never") }), "never, each time in 5 tries")
	wrong := errors.New("wrong")
	if err := retryFor(os.Getpid(), 0, func() error { return wrong }); err != wrong {
		t.Errorf("%v, not %v", err, wrong)
	}
}

// TestChecksAgain: that a thread has ended, by which one has looked, says nothing of its process; if that
// has ended, too, it is said so.
func TestChecksAgain(t *testing.T) {
	gone := func(n int) func(int) error {
		return func(int) error {
			if n--; n < 0 {
				return nil
			}
			_, err := os.Open("/proc/self/task/0/status")
			return err
		}
	}
	refusal(t, "a thread that has ended", checks(os.Getpid(), gone(3), gone(1)), "")
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	refusal(t, "a process that has ended", checks(ended.Process.Pid, gone(3)), "has ended")
	refusal(t, "no process", checks(ended.Process.Pid, checkThere), "there is no process ")
}

// TestSandboxed: what a test's machine may not have.
func TestSandboxed(t *testing.T) {
	for says, s := range map[string]*ptrace.Status{
		"":                   {},
		"has shadow stacks":  {Shadow: true},
		"strict mode, which": {Seccomp: 1},
	} {
		refusal(t, says, sandboxed(s), says)
	}
	refusal(t, "a filter", sandboxed(&ptrace.Status{Seccomp: 2}), "")
}

func TestVerdict(t *testing.T) {
	load, jump, ret := []byte{0x20, 0, 0, 0, 0, 0, 0, 0}, []byte{0x15, 0, 0, 1, 9, 0, 0, 0}, func(action uint16) []byte {
		return []byte{6, 0, 0, 0, 1, 0, byte(action), byte(action >> 8)}
	}
	const allow, refuse, kill = 0x7fff, 5, 0x8000
	address := []byte{0x20, 0, 0, 0, 8, 0, 0, 0}
	for says, filter := range map[string][]byte{
		"":                           ret(allow),
		"may refuse mmap: ":          slices.Concat(load, jump, ret(refuse), ret(allow)),
		"may do more to a system":    slices.Concat(load, jump, ret(kill), ret(allow)),
		"may refuse mmap: start":     ret(refuse),
		"looks at where system call": slices.Concat(address, ret(allow)),
		"is not understood":          {1},
	} {
		refusal(t, says, verdict(filter), says)
	}
}

func TestKind(t *testing.T) {
	file := func(interp bool, sections ...string) *elf.File {
		f := &elf.File{FileHeader: elf.FileHeader{Class: elf.ELFCLASS64, Machine: elf.EM_X86_64}}
		if interp {
			f.Progs = append(f.Progs, &elf.Prog{ProgHeader: elf.ProgHeader{Type: elf.PT_INTERP}})
		}
		for _, s := range sections {
			f.Sections = append(f.Sections, &elf.Section{SectionHeader: elf.SectionHeader{Name: s}})
		}
		return f
	}
	arm, x32, i386 := file(true), file(true), file(true)
	arm.Machine, x32.Class, i386.Class, i386.Machine = elf.EM_AARCH64, elf.ELFCLASS32, elf.ELFCLASS32, elf.EM_386
	for name, row := range map[string]struct {
		f    *elf.File
		says string
	}{
		"glibc":       {file(true, ".text"), ""},
		"arm":         {arm, "build it for x86-64"},
		"x32":         {x32, "build it for x86-64"},
		"i386":        {i386, "build it for x86-64"},
		"static":      {file(false, ".text"), ""},
		"Go":          {file(true, ".text", ".gopclntab"), "has a Go runtime and a libc: start it with hotspots run"},
		"Go PIE":      {file(true, ".data.rel.ro.gopclntab"), "has a Go runtime and a libc: start it with hotspots run"},
		"Go stripped": {file(true, ".note.go.buildid"), "has a Go runtime and a libc: start it with hotspots run"},
		"static Go":   {file(false, ".gopclntab"), ""},
	} {
		refusal(t, name, kind(row.f), row.says)
	}
}

func TestCheckLibc(t *testing.T) {
	for says, names := range map[string][]string{
		"":                     {"", "/lib/libm.so.6", "/lib/x86_64-linux-gnu/libc.so.6"},
		"uses neither glibc":   {"", "/system/lib64/libc.so"},
		"link it with one of ": {"/usr/libc.so.6/program"},
	} {
		l := &remote.Linker{}
		for _, name := range names {
			l.Objects = append(l.Objects, target.Loaded{Name: name})
		}
		refusal(t, says, checkLibc(l), says)
	}
	refusal(t, "musl", checkLibc(&remote.Linker{Objects: []target.Loaded{{}, {Name: "/lib/ld-musl-x86_64.so.1"}}}), "")
	refusal(t, "static", checkLibc(&remote.Linker{Static: true, Objects: []target.Loaded{{}}}), "")
}

func TestLocksAll(t *testing.T) {
	const first, locked = "55c2-55c3 r--p 0 fe:00 1 /p\nSize: 4 kB\nVmFlags: rd mr mw me \n", "7fff-8fff rw-p 0 00:00 0\nVmFlags: rd wr mr lo \n"
	for smaps, want := range map[string]bool{first + locked: false, locked + first: true, "": false, "VmFlags:\n" + locked: false} {
		if locksAll(smaps) != want {
			t.Errorf("not %v of %q", want, smaps)
		}
	}
}

func TestFreeGS(t *testing.T) {
	for says, regs := range map[string]ptrace.Regs{"": {Fs_base: 1}, "uses the GS segment": {Gs_base: 1 << 40}, "GS segment: start it": {Gs: 0x2b}} {
		s := &session{Process: &ptrace.Process{Threads: []*ptrace.Thread{{}, {Regs: regs}}}}
		refusal(t, says, s.freeGS(), says)
	}
}
