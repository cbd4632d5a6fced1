package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// check is why a process cannot be attached to, as far as that is seen without touching it.
func check(pid int) error {
	for _, c := range []func(int) error{checkThere, checkTracer, checkKind, checkPermission, checkRoot, checkCounted, checkSandbox, checkLocked} {
		if err := c(pid); err != nil {
			return err
		}
	}
	return nil
}

func checkThere(pid int) error {
	if pid == os.Getpid() {
		return errors.New("that is this hotspots itself")
	}
	s, err := ptrace.ReadStatus(pid, pid)
	if err != nil {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return fmt.Errorf("%d is a thread, not a process: name its process", pid)
		}
		return fmt.Errorf("there is no process %d", pid)
	}
	switch s.State {
	case 'T':
		return fmt.Errorf("%s (%d) is stopped: continue it first (kill -CONT %d)", s.Name, pid, pid)
	case 'Z', 'X':
		if tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); len(tasks) <= 1 {
			return fmt.Errorf("%s (%d) has ended", s.Name, pid)
		}
	}
	return nil
}

func checkTracer(pid int) error {
	s, err := ptrace.ReadStatus(pid, pid)
	if err != nil || s.TracerID == 0 {
		return err
	}
	who, _ := procfile.Read(fmt.Sprintf("/proc/%d/comm", s.TracerID))
	return fmt.Errorf("%s (%d) is traced already, by %s (%d): only one may", s.Name, pid, strings.TrimSpace(string(who)), s.TracerID)
}

func checkPermission(pid int) error {
	p, err := remote.Open(pid)
	switch {
	case err == nil:
		return p.Close()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d may not be attached to: it takes the same user, and a program that has no other rights, or CAP_SYS_PTRACE (sudo)%s", pid, yama())
	}
	return fmt.Errorf("process %d cannot be looked at: %w", pid, err)
}

// yama is what a kernel says that lets nobody trace others than its descendants
// (Documentation/admin-guide/LSM/Yama.rst).
func yama() string {
	scope, err := procfile.Read("/proc/sys/kernel/yama/ptrace_scope")
	if s := strings.TrimSpace(string(scope)); err == nil && s != "0" {
		return "; kernel.yama.ptrace_scope is " + s
	}
	return ""
}

// checkKind looks at the executable, if it may be looked at.
func checkKind(pid int) error {
	exe := remote.Living(pid) + "/exe"
	name, err := os.Readlink(exe)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("process %d has no program: it is one of the kernel's", pid)
	}
	f, err := elf.Open(exe)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it is said by checkPermission
	}
	if err != nil {
		return fmt.Errorf("%s is not understood: %w", name, err)
	}
	defer f.Close()
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s is no 64-bit program for x86-64", name)
	}
	return nil
}

// checkLibc looks at what is loaded.
func checkLibc(l *remote.Linker, maps []procmaps.Mapping) error {
	glibc := false
	for _, o := range l.Objects {
		name := o.Name[strings.LastIndexByte(o.Name, '/')+1:]
		glibc = glibc || name == "libc.so.6"
		if strings.HasPrefix(name, "ld-musl") {
			return errors.New("it is a program for musl: only those for glibc can be attached to")
		}
	}
	if !glibc {
		return errors.New("it does not use glibc (libc.so.6)")
	}
	seen := map[string]bool{}
	for _, m := range maps {
		if !isCode(&m) || seen[m.Path] {
			continue
		}
		seen[m.Path] = true
		if hasGo(m.Path) {
			return fmt.Errorf("%s has a Go runtime: start it with hotspots run", m.Path)
		}
	}
	return nil
}

// hasGo reports whether a file has a Go runtime, whose goroutines are preempted anywhere and
// keep their addresses where they are not seen.
func hasGo(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for _, s := range f.Sections {
		if strings.HasSuffix(s.Name, ".gopclntab") || s.Name == ".note.go.buildid" {
			return true
		}
	}
	return false
}

// checkRoot: the process opens its table by a name that holds here as well.
func checkRoot(pid int) error {
	own, err1 := os.Stat("/")
	its, err2 := os.Stat(remote.Living(pid) + "/root/")
	if err1 == nil && err2 == nil && !os.SameFile(own, its) || namespace("/proc/self", "mnt") != namespace(remote.Living(pid), "mnt") {
		return fmt.Errorf("process %d has another root directory or other mounts, as in a container: run hotspots there", pid)
	}
	return nil
}

func namespace(of, kind string) string {
	s, _ := os.Readlink(of + "/ns/" + kind)
	return s
}

func checkCounted(pid int) error {
	if table := find.MappedBy(pid); table != "" {
		return fmt.Errorf("process %d is counted already: hotspots report %s", pid, table)
	}
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil {
		return err
	}
	for _, m := range maps {
		if strings.HasPrefix(m.Path, mapPrefix) {
			return fmt.Errorf("process %d has code of an earlier hotspots attach yet, in which a thread may be", pid)
		}
	}
	return nil
}

// checkSandbox: system calls that the program never makes itself may end it. Threads that are
// led elsewhere and get back by themselves do so by a return that no shadow stack knows.
func checkSandbox(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		s, err := ptrace.ReadStatus(pid, tid)
		if err == nil && s.Shadow {
			return fmt.Errorf("%s (%d) has shadow stacks: start it with hotspots run", s.Name, pid)
		}
		if err == nil && s.Seccomp != 0 {
			return fmt.Errorf("%s (%d) has a seccomp filter, which may end it at a system call of ours: start it with hotspots run", s.Name, pid)
		}
	}
	return nil
}

// checkLocked: what a process maps that has locked its future memory would be fetched, all
// of it.
func checkLocked(pid int) error {
	tid, _ := strconv.Atoi(path.Base(remote.Living(pid)))
	s, err := ptrace.ReadStatus(pid, tid)
	if err != nil || s.Locked == 0 {
		return err
	}
	smaps, err := procfile.Read(remote.Living(pid) + "/smaps")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(smaps)) {
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok { // of the first mapping, the program's
			if strings.Contains(flags, " lo ") {
				return fmt.Errorf("%s (%d) has locked all its memory (mlockall): start it with hotspots run", s.Name, pid)
			}
			break
		}
	}
	return nil
}

// otherUser is the user that a process is, if that is another than ours.
func otherUser(pid int) (uid, gid int, other bool) {
	s, err := ptrace.ReadStatus(pid, pid)
	if err != nil || s.UID < 0 {
		return 0, 0, false
	}
	return s.UID, s.GID, s.UID != syscall.Geteuid()
}
