package survey

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestKernelSitesOfLibc: a site that is missed lets two threads share a row, a
// filter kill the program, or a signal handler see stubs.
func TestKernelSitesOfLibc(t *testing.T) {
	o := fixture.Load(t, fixture.Libc)
	for name, sites := range map[string][]stubgen.KernelSite{
		"by functions": New(o, 0).KernelSites(),
		"by bytes":     FindKernelSites(o.Text),
	} {
		found := map[string]int{}
		for _, s := range sites {
			found[s.Setup+s.Behind]++
		}
		mov := func(nr byte, high byte) string { return string([]byte{opMovEAX, nr, high, 0, 0}) }
		const cmp, below = "\x48\x3d\x00\xf0\xff\xff", "\x48\x3d\x01\xf0\xff\xff" // behind the system call
		want := map[string]int{
			mov(sysRtSigaction, 0): 1, mov(sysClone, 0): 2, mov(sysVfork, 0): 1, mov(sysClone3&0xff, sysClone3>>8): 1,
			mov(sysPrctl, 0): 1, string(anySetup): 1, mov(sysPkeyMprotect&0xff, sysPkeyMprotect>>8): 1, mov(sysExit, 0): 2,
			mov(sysMmap, 0): 1, mov(sysMremap, 0): 1, mov(sysMadvise, 0): 1,
			"\x31\xff\x89\xd0": 2, "\x89\xf0" + cmp: 1, "\x89\xd0" + cmp: 1, below: 6, cmp: 2, mov(sysExecveat&0xff, sysExecveat>>8): 1,
			mov(sysPrlimit64&0xff, sysPrlimit64>>8) + "\x31\xff": 2,
		}
		if name == "by bytes" { // where entries are not known
			delete(want, below)
			delete(want, cmp)
			want[mov(sysExecveat&0xff, sysExecveat>>8)]++
			want[mov(sysPrlimit64&0xff, sysPrlimit64>>8)]++
			for _, nr := range []byte{sysMunmap, sysMadvise, sysMprotect, sysMlockall, sysArchPrctl, sysExecve} {
				want[mov(nr, 0)]++
			}
		}
		if !maps.Equal(found, want) {
			t.Errorf("%s: %x, want %x: _Fork and clone, vfork, clone3, __libc_sigaction, prctl, syscall, pkey_mprotect, the ends of clone and __clone2, execveat and fexecve, mmap, mremap, posix_madvise, start_thread and __libc_start_call_main, _exit, prlimit, getrlimit, setrlimit, and munmap, madvise, mprotect, mlockall, arch_prctl and execve", name, found, want)
		}
		if !slices.IsSortedFunc(sites, func(a, b stubgen.KernelSite) int { return int(a.Addr) - int(b.Addr) }) {
			t.Errorf("%s: not in address order", name)
		}
	}
}

// TestKernelSitesSpread: by the names in sites.s.
func TestKernelSitesSpread(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, "testdata/sites.s"))
	want := map[string]string{
		"site_last":    "\x45\x31\xc0",
		"site_two":     "\x48\x8b\x7c\x24\x08\x31\xf6",
		"site_load":    "\xb8\x39\x00\x00\x00\x31\xff",
		"site_joined":  "\x49\x89\xca",
		"site_end":     "\x31\xff\x89\xd0",
		"site_exit":    "\x89\xf0",
		"site_clone":   "\x48\x89\x0e",
		"site_given":   "\x48\x8b\x52\x18",
		"site_wide":    "\x48\x89\xd0",
		"site_sum":     "\x48\x29\xfe",
		"site_unified": "\x49\x89\xca",
		"site_quad":    "\x48\xc7\xc0\x39\x00\x00\x00",
		"site_byte":    "\x31\xff\xb0\x3a",
		"site_push":    "\x58\x31\xff",
		"site_entry":   "",
		"site_inside":  "\xb8\x0a\x00\x00\x00",
	}
	for _, s := range New(o, 0).KernelSites() {
		name := o.Functions[o.FunctionAt(s.Addr)].Name
		if want[name] != s.Setup {
			t.Errorf("%s: a site with the setup % x, not % x", name, s.Setup, want[name])
		}
		if end := string(o.Code(s.End() - uint64(len(s.Behind)) - 2)[:2]); end != string(opSyscall) {
			t.Errorf("%s ends with % x", name, end)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is no site", name)
	}
	musl := map[string]string{"site_clone": "", "site_given": "", "site_wide": "", "site_sum": ""}
	for _, s := range FindKernelSites(o.Text) { // in the dynamic linker, whose functions are not looked at
		name := o.Functions[o.FunctionAt(s.Addr)].Name
		if delete(musl, name); strings.HasPrefix(name, "none_given") || strings.HasPrefix(name, "none_sum") {
			t.Errorf("%s is one by its bytes", name)
		}
	}
	for name := range musl {
		t.Errorf("%s is no site by its bytes", name)
	}
}

// TestKernelSitesGo: by the names in gosites.s, and only in programs whose system calls are Go's.
func TestKernelSitesGo(t *testing.T) {
	o := fixture.Load(t, fixture.Link(t, "testdata/gosites.s"))
	if s := New(o, 0).KernelSites(); len(s) > 0 {
		t.Errorf("%d sites in an object of another kind", len(s))
	}
	o.Given = true
	want := map[string]string{
		"site_abi":    "\x48\x89\xdf",
		"site_stack":  "\x4c\x8b\x4c\x24\x38",
		"site_before": "\x48\x8b\x44\x24\x10",
		"site_vfork":  "\x48\x8b\x44\x24\x08\x41\x5c",
		"site_far":    "\x48\x8b\x84\x24\x08\x01\x00\x00",
	}
	for _, s := range New(o, 0).KernelSites() {
		name := o.Functions[o.FunctionAt(s.Addr)].Name
		if want[name] != s.Setup || s.Number != stubgen.AnyNumber {
			t.Errorf("%s: a site with the setup % x, number %d, not % x", name, s.Setup, s.Number, want[name])
		}
		if end := string(o.Code(s.End() - 2)[:2]); end != string(opSyscall) {
			t.Errorf("%s ends with % x", name, end)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is no site", name)
	}
}
