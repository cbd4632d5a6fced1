package attach

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/find"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// check is why a process cannot be attached to, as far as that is seen without touching it.
func check(pid int) error {
	return checks(pid, checkThere, checkTracer, checkKind, checkPermission, checkSandbox, checkLocked)
}

// checks waits for what is over in a moment: where a thread by which one has looked has ended, another
// is there, or the process has ended, too.
func checks(pid int, all ...func(int) error) error {
	return retry(pid, func() error {
		for _, c := range all {
			if err := c(pid); isGone(err) && !isAgain(err) {
				return &errAgain{orEnded(pid, err)}
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

func checkThere(pid int) error {
	if pid == os.Getpid() {
		return errors.New("that is this hotspots itself")
	}
	s, err := ptrace.ReadStatus(pid, pid)
	if err != nil {
		return fmt.Errorf("there is no process %d", pid)
	}
	if s.Group != pid { // /proc tells of threads, too, to who asks for one
		return fmt.Errorf("%d is a thread of %s (%d): name that process", pid, s.Name, s.Group)
	}
	switch s.State {
	case 'T':
		return fmt.Errorf("%s (%d) is stopped: continue it first (kill -CONT %d)", s.Name, pid, pid)
	case 'Z', 'X':
		if tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); len(tasks) <= 1 {
			return fmt.Errorf("%s (%d) has ended", s.Name, pid)
		}
	}
	if group := frozen(pid); group != "" {
		return fmt.Errorf("%s (%d) is frozen, as is all in %s: thaw that first (cgroup.freeze)", s.Name, pid, group)
	}
	return nil
}

// frozen is the cgroup of a process if that is frozen (of version 2): a thread in there can be
// stopped, but makes no system call until it is thawed. Else it is "".
func frozen(pid int) string {
	of, err := procfile.Read(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	mounts, err := procfile.Read("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(of)) {
		group, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !is {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			if front, kind, _ := strings.Cut(mount, " - "); strings.HasPrefix(kind, "cgroup2 ") {
				dir := path.Join(strings.Fields(front)[4], group)
				if events, err := os.ReadFile(path.Join(dir, "cgroup.events")); err == nil && bytes.Contains(events, []byte("frozen 1")) {
					return dir
				}
			}
		}
	}
	return ""
}

func checkTracer(pid int) error {
	s, err := ptrace.ReadStatus(pid, pid)
	if err != nil || s.TracerID == 0 {
		return err
	}
	who, err := procfile.Read(fmt.Sprintf("/proc/%d/comm", s.TracerID))
	if err != nil {
		return nil // it has ended since
	}
	err = fmt.Errorf("%s (%d) is traced already, by %s (%d): only one may", s.Name, pid, strings.TrimSpace(string(who)), s.TracerID)
	if own, failed := procfile.Read("/proc/thread-self/comm"); failed == nil && bytes.Equal(own, who) {
		err = &errAgain{err} // another hotspots, which is through in a moment
	}
	return err
}

func checkPermission(pid int) error {
	p, err := remote.Open(pid)
	switch {
	case err == nil:
		return p.Close()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d may not be attached to: it takes the same user, and a program that has no other rights, or CAP_SYS_PTRACE (sudo)%s", pid, yama())
	}
	err = fmt.Errorf("process %d cannot be looked at: %w", pid, err)
	if isGone(err) {
		err = &errAgain{err}
	}
	return err
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
		if stat, err := procfile.Read(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || !ptrace.IsKernels(stat) {
			return fmt.Errorf("process %d has ended", pid)
		}
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
	if err := kind(f); err != nil {
		return fmt.Errorf("process %d: %s %w", pid, name, err)
	}
	return checkValgrind(pid)
}

// checkValgrind: its tools are static programs, which translate the code of another that is
// mapped like their own. Their launcher has a variable for them, that they hand to nobody.
func checkValgrind(pid int) error {
	env, err := procfile.Read(remote.Living(pid) + "/environ")
	if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00VALGRIND_LAUNCHER=")) {
		return fmt.Errorf("process %d runs in valgrind, which translates its code: start it without", pid)
	}
	return nil
}

// kind is why a program of that kind cannot be attached to.
func kind(f *elf.File) error {
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return errors.New("is no 64-bit program for x86-64: build it for x86-64 to have it counted")
	}
	// Libraries have no interpreter either: a dynamic linker is one.
	isStatic := !has(f, elf.PT_INTERP)
	switch {
	case isStatic && isLibrary(f):
		return errors.New("was called to run a program: start that by its own name")
	case launch.HasGo(f) && (!isStatic || has(f, elf.PT_TLS)):
		return errGo
	}
	return nil
}

func has(f *elf.File, kind elf.ProgType) bool {
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == kind })
}

// errGo: of a program with a libc, too, it is not known where threads' stacks are.
var errGo = errors.New("has a Go runtime and a libc: start it with hotspots run")

// checkLibc looks at what the dynamic linker has loaded.
func checkLibc(l *remote.Linker) error {
	if !l.Static && !slices.ContainsFunc(l.Objects, isLibc) {
		return errors.New("uses neither glibc (libc.so.6) nor musl: link it with one of them to have it counted")
	}
	return nil
}

func isLibc(o target.Loaded) bool {
	name := path.Base(o.Name)
	return name == "libc.so.6" || strings.HasPrefix(name, "ld-musl-")
}

// checkLibraries looks at the files of what is loaded.
func (p *prepared) checkLibraries() error {
	seen := map[string]bool{}
	for _, m := range p.maps {
		if main := p.linker.Objects[0].Span; !isCode(&m) || seen[m.Path] || p.linker.Static && m.Start < main.High && m.End > main.Low {
			continue
		}
		seen[m.Path] = true
		file, err := p.process.Open(m.Path)
		if err != nil {
			continue // it is not there any more; the program's own is, see checkKind
		}
		f, err := elf.NewFile(file)
		is := err == nil && launch.HasGo(f)
		file.Close()
		if is {
			return fmt.Errorf("uses %s, which %w", m.Path, errGo)
		}
	}
	return nil
}

func isLibrary(f *elf.File) bool {
	names, err := f.DynString(elf.DT_SONAME)
	return err == nil && len(names) > 0
}

// isApart reports whether names of files of ours are none for a process: it is in a container, or
// of another user.
func isApart(pid int) bool {
	s, err := ptrace.ReadStatus(pid, pid)
	return isContained(pid) || err == nil && s.UID >= 0 && s.UID != syscall.Geteuid()
}

// isContained reports whether a process has another root directory or other mounts than we have:
// names of files do not stand for the same.
func isContained(pid int) bool {
	own, err1 := os.Stat("/")
	its, err2 := os.Stat(remote.Living(pid) + "/root/")
	return err1 == nil && err2 == nil && !os.SameFile(own, its) || namespace("/proc/self", "mnt") != namespace(remote.Living(pid), "mnt")
}

func namespace(of, kind string) string {
	s, _ := os.Readlink(of + "/ns/" + kind)
	return s
}

// errCounted says where a process is counted.
type errCounted struct {
	pid   int
	table string
	byUs  bool // by Attach
}

func (e *errCounted) Error() string {
	return fmt.Sprintf("process %d is counted already: hotspots report %s", e.pid, e.table)
}

// checkCounted also says whether there is something left of an earlier Attach or Detach.
func checkCounted(pid int, b *Blob) (left bool, err error) {
	p, err := remote.Open(pid)
	if isGone(err) {
		err = &errAgain{err}
	}
	if err != nil {
		return false, err
	}
	defer p.Close()
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil {
		return false, err
	}
	code, err := ourCode(maps, b)
	if err != nil {
		return false, fmt.Errorf("process %d %w", pid, err)
	}
	state, err := stateOf(p.Memory, code, b)
	if err != nil { // it has executed something since
		return false, again("process %d: its memory cannot be read: %w", pid, err)
	}
	left = slices.ContainsFunc(maps, isOurs) || len(ourFiles(p.Thread())) > 0
	if table := find.MappedBy(pid); table != "" && (!left || state != handover.HasEnded) {
		return false, &errCounted{pid, table, left && state == handover.Counts}
	}
	return left, nil
}

// tidy takes away what is left of an earlier hotspots, that was killed or has left something
// mapped.
func tidy(pid int, b *Blob) error {
	var left bool
	err := retry(pid, func() (err error) {
		left, err = checkCounted(pid, b)
		return err
	})
	if err != nil || !left {
		return err
	}
	l, err := Detach(pid, b)
	if err == nil && l.Stays {
		err = fmt.Errorf("process %d has code of an earlier hotspots attach yet, in which a thread may be: try again later", pid)
	}
	return err
}

// checkLocked: what a process maps that has locked its future memory would be fetched, all
// of it.
func checkLocked(pid int) error {
	thread := remote.Living(pid)
	tid, _ := strconv.Atoi(path.Base(thread))
	s, err := ptrace.ReadStatus(pid, tid)
	if err != nil || s.Locked == 0 {
		return err
	}
	smaps, err := procfile.Read(thread + "/smaps")
	if err == nil && locksAll(string(smaps)) {
		err = fmt.Errorf("%s (%d) has locked all its memory (mlockall): start it with hotspots run", s.Name, pid)
	}
	return err
}

// locksAll reports whether the first mapping, the program's, is locked: who locks but some
// memory does not lock that.
func locksAll(smaps string) bool {
	for line := range strings.Lines(smaps) {
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok {
			return slices.Contains(strings.Fields(flags), "lo")
		}
	}
	return false
}
