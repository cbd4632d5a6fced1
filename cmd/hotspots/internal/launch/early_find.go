//lint:file-ignore U1000 all of it is reached from entry_amd64.s

package launch

import (
	"debug/elf"
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// find looks for the program as lookPath does.
func (a *preparation) find() bool {
	name := text(a.args[0])
	if name == "" {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' {
			a.program = a.args[0]
			found, sure := a.executable()
			return found && sure
		}
	}
	if a.search == nil {
		return false
	}
	dirs := text(a.search)
	for from := 0; from <= len(dirs); {
		end := from
		for end < len(dirs) && dirs[end] != ':' {
			end++
		}
		if !clean(dirs[from:end]) {
			return false
		}
		if a.program = a.join(dirs[from:end], "/", name); a.program == nil {
			return false
		}
		if found, sure := a.executable(); found || !sure {
			return found
		}
		from = end + 1
	}
	return false
}

// executable reports whether a.program is a file that may be executed, and raises no
// rights. If that is not sure, because something else is there, Run finds out.
func (a *preparation) executable() (found, sure bool) {
	errno := -callStat(unix.SYS_NEWFSTATAT, unix.AT_FDCWD, a.program, &a.stat, 0)
	switch syscall.Errno(errno) {
	case syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES: // as in a directory that may not be searched
		return false, true
	}
	ok := errno == 0 && a.stat.Mode&(syscall.S_IFMT|syscall.S_ISUID|syscall.S_ISGID) == syscall.S_IFREG &&
		callAt(unix.SYS_FACCESSAT, unix.AT_FDCWD, a.program, unix.X_OK, 0) == 0
	return ok, ok
}

// countable reports whether the library would be loaded into the program, and nothing
// has to be loaded in front of it.
func (a *preparation) countable() bool {
	fd := callAt(unix.SYS_OPENAT, unix.AT_FDCWD, a.program, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if fd < 0 {
		return false
	}
	ok := a.inspect(fd)
	call(unix.SYS_CLOSE, fd, 0, 0, 0)
	return ok
}

// Of the ELF format: where in the header and in program headers fields are.
const (
	elfPhoff, elfMachine, elfPhentsize, elfPhnum = 32, 18, 54, 56

	phSize                             = 56
	phOffset, phVaddr, phFilesz, phEnd = 8, 16, 32, 40
)

const loader = "/lib64/ld-linux-x86-64.so.2\x00"

func (a *preparation) inspect(fd int) bool {
	if a.uid != 0 && callTwo(unix.SYS_GETXATTR, a.program, &capability[0], 0, 0) >= 0 {
		return false
	}
	n := callAt(unix.SYS_PREAD64, fd, &a.block[0], len(a.block), 0)
	if n < phSize+64 || n > len(a.block) {
		return false
	}
	b := a.block[:n]
	le := binary.LittleEndian
	ident := b[0] == 0x7f && b[1] == 'E' && b[2] == 'L' && b[3] == 'F' && b[4] == byte(elf.ELFCLASS64) && b[5] == byte(elf.ELFDATA2LSB)
	first, count := le.Uint64(b[elfPhoff:]), uint64(le.Uint16(b[elfPhnum:]))
	if !ident || le.Uint16(b[elfMachine:]) != uint16(elf.EM_X86_64) || le.Uint16(b[elfPhentsize:]) != phSize ||
		first > uint64(n) || first+count*phSize > uint64(n) {
		return false
	}
	headers := b[first : first+count*phSize]
	return a.loadedByGlibc(headers) && a.plainLibraries(fd, headers)
}

var capability = [...]byte{'s', 'e', 'c', 'u', 'r', 'i', 't', 'y', '.', 'c', 'a', 'p', 'a', 'b', 'i', 'l', 'i', 't', 'y', 0}

// segment returns the offset and the size in the file of the first segment of a type.
func segment(headers []byte, kind elf.ProgType) (offset, size uint64) {
	le := binary.LittleEndian
	for ; len(headers) >= phSize; headers = headers[phSize:] {
		if le.Uint32(headers) == uint32(kind) {
			return le.Uint64(headers[phOffset:]), le.Uint64(headers[phFilesz:])
		}
	}
	return 0, 0
}

func (a *preparation) loadedByGlibc(headers []byte) bool {
	at, size := segment(headers, elf.PT_INTERP)
	if size != uint64(len(loader)) || at > uint64(len(a.block))-size {
		return false
	}
	for i := range len(loader) {
		if a.block[at+uint64(i)] != loader[i] {
			return false
		}
	}
	return true
}

// plainLibraries reports whether the program is linked with libraries, none of which
// is one that has to be the first (isSanitizer).
func (a *preparation) plainLibraries(fd int, headers []byte) bool {
	at, size := segment(headers, elf.PT_DYNAMIC)
	if size < 16 || size > uint64(len(a.dynamic)) || callAt(unix.SYS_PREAD64, fd, &a.dynamic[0], int(size), int(at)) != int(size) {
		return false
	}
	entries := a.dynamic[:size]
	names := dynamic(entries, elf.DT_STRTAB)
	for ; len(entries) >= 16; entries = entries[16:] {
		le := binary.LittleEndian
		switch elf.DynTag(le.Uint64(entries)) {
		case elf.DT_NULL:
			return true
		case elf.DT_NEEDED:
			offset, ok := offsetOf(headers, names+le.Uint64(entries[8:]))
			if !ok || !a.mayFollow(fd, offset) {
				return false
			}
		}
	}
	return true
}

// dynamic is the value of the first entry with that tag.
func dynamic(entries []byte, tag elf.DynTag) uint64 {
	le := binary.LittleEndian
	for ; len(entries) >= 16; entries = entries[16:] {
		if elf.DynTag(le.Uint64(entries)) == tag {
			return le.Uint64(entries[8:])
		}
	}
	return 0
}

// offsetOf is where in the file that is which will be at an address.
func offsetOf(headers []byte, address uint64) (offset uint64, ok bool) {
	le := binary.LittleEndian
	for ; len(headers) >= phSize; headers = headers[phSize:] {
		if at := le.Uint64(headers[phVaddr:]); le.Uint32(headers) == uint32(elf.PT_LOAD) && address-at < le.Uint64(headers[phFilesz:]) {
			return le.Uint64(headers[phOffset:]) + address - at, true
		}
	}
	return 0, false
}

// mayFollow reports whether the name there, by how it begins, is not that of a library
// which has to be the first.
func (a *preparation) mayFollow(fd int, offset uint64) bool {
	n := callAt(unix.SYS_PREAD64, fd, &a.name[0], len(a.name)-1, int(offset))
	if n < 0 || n >= len(a.name) {
		return false
	}
	a.name[n] = 0
	return !isSanitizer(text(&a.name[0]))
}
