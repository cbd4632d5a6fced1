package mem

import "golang.org/x/sys/unix"

// Hold takes [addr, addr+size) of this process's address space for good, if nothing
// is mapped there (mmap(2), MAP_FIXED_NOREPLACE).
func Hold(addr, size uint64) bool {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED_NOREPLACE
	got, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(size), unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno == 0 && uint64(got) != addr { // older kernels take the address as a wish
		release(uint64(got), size)
	}
	return errno == 0 && uint64(got) == addr
}

// Free reports whether nothing is mapped in [addr, addr+size).
func Free(addr, size uint64) bool {
	free := Hold(addr, size)
	if free {
		release(addr, size)
	}
	return free
}

func release(addr, size uint64) {
	unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(size), 0)
}
