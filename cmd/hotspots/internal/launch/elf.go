package launch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// inspectELF returns why the library would not be loaded into the program, or
// not count in it. What it cannot tell it leaves to the kernel.
func (p *Program) inspectELF(f *os.File, path string) (why string) {
	const (
		classAt, machineAt = 4, 18
		class64            = 2
	)
	var head [64]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return ""
	}
	if machine := elf.Machine(binary.LittleEndian.Uint16(head[machineAt:])); machine != elf.EM_X86_64 && machine != elf.EM_386 {
		p.Doubtful = true // but binfmt_misc may know an emulator
		return path + " is a program for another machine (" + machine.String() + ")"
	} else if head[classAt] != class64 {
		return path + " is a 32-bit program"
	}
	if why := privileged(f, path); why != "" {
		return why
	}
	defer func() {
		if recover() != nil { // debug/elf on a damaged file
			why = ""
		}
	}()
	e, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	return p.inspectLoader(e, path)
}

// inspectLoader looks at who loads the program's libraries, and which.
func (p *Program) inspectLoader(e *elf.File, path string) string {
	i := slices.IndexFunc(e.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP })
	if i < 0 {
		if strings.HasPrefix(filepath.Base(path), "ld-linux") {
			return "" // the dynamic linker itself preloads what it is told to
		}
		p.Outside = true
		return path + " is statically linked: it loads no library"
	}
	interp, err := io.ReadAll(io.LimitReader(e.Progs[i].Open(), 4096))
	if err == nil && strings.Contains(filepath.Base(string(interp)), "musl") {
		p.Outside = true
		return path + " uses musl: it loads no library for glibc"
	}
	for _, lib := range needed(e) {
		if isSanitizer(lib) {
			p.Preload = append(p.Preload, lib)
		}
	}
	return ""
}

// HasGo reports whether a file has a Go runtime.
func HasGo(f *elf.File) bool {
	return slices.ContainsFunc(f.Sections, func(s *elf.Section) bool {
		return strings.HasSuffix(s.Name, ".gopclntab") || s.Name == ".note.go.buildid"
	})
}

// needed are the names of the libraries that the file is linked with, as far as
// they can be read. (debug/elf would read all dynamic strings, which can be 40 MB.)
func needed(e *elf.File) (names []string) {
	const longest = 4096 // a path
	i := slices.IndexFunc(e.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_DYNAMIC })
	if i < 0 {
		return nil
	}
	b, err := io.ReadAll(e.Progs[i].Open())
	if err != nil {
		return nil
	}
	var offsets []uint64
	var strings uint64
	for ; len(b) >= 16 && elf.DynTag(e.ByteOrder.Uint64(b)) != elf.DT_NULL; b = b[16:] {
		switch value := e.ByteOrder.Uint64(b[8:]); elf.DynTag(e.ByteOrder.Uint64(b)) {
		case elf.DT_NEEDED:
			offsets = append(offsets, value)
		case elf.DT_STRTAB:
			strings = value
		}
	}
	for _, off := range offsets {
		if name := stringAt(e, strings+off, longest); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// stringAt is the string that will be at an address.
func stringAt(e *elf.File, addr uint64, longest int) string {
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || addr-p.Vaddr >= p.Filesz {
			continue
		}
		b := make([]byte, min(uint64(longest), p.Filesz-(addr-p.Vaddr)))
		n, _ := p.ReadAt(b, int64(addr-p.Vaddr))
		name, _, found := bytes.Cut(b[:n], []byte{0})
		if found {
			return string(name)
		}
	}
	return ""
}

// isSanitizer: these run-time libraries end the program unless they are the
// first in the list of libraries.
func isSanitizer(lib string) bool {
	for _, prefix := range []string{"libasan.so", "libtsan.so", "libclang_rt.asan", "libclang_rt.tsan"} {
		if strings.HasPrefix(lib, prefix) {
			return true
		}
	}
	return false
}

// privileged returns a reason if executing the file raises privileges: the
// dynamic linker then ignores LD_PRELOAD paths (AT_SECURE; ld.so(8)).
func privileged(f *os.File, path string) string {
	const nosuid = 0x2 // ST_NOSUID, statfs(2)
	var st syscall.Stat_t
	var fs syscall.Statfs_t
	if syscall.Fstat(int(f.Fd()), &st) != nil || syscall.Fstatfs(int(f.Fd()), &fs) != nil || fs.Flags&nosuid != 0 || noNewPrivs() {
		return ""
	}
	n, _ := syscall.Getxattr(path, "security.capability", nil)
	if what := raises(&st, n > 0, os.Getuid(), os.Getgid()); what != "" {
		return path + " " + what
	}
	return ""
}

// raises says what makes the file run with rights that uid and gid lack.
func raises(st *syscall.Stat_t, capabilities bool, uid, gid int) string {
	switch {
	case st.Mode&syscall.S_ISUID != 0 && int(st.Uid) != uid:
		return "is set-user-ID"
	case st.Mode&syscall.S_ISGID != 0 && st.Mode&0o010 != 0 && int(st.Gid) != gid:
		return "is set-group-ID"
	case capabilities && uid != 0:
		return "has file capabilities"
	}
	return ""
}

// noNewPrivs reports whether the kernel ignores such files in this process
// (PR_SET_NO_NEW_PRIVS).
func noNewPrivs() bool {
	b, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(b), "\nNoNewPrivs:\t1\n")
}
