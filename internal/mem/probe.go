package mem

import "golang.org/x/sys/unix"

// Free reports whether nothing is mapped in [addr, addr+size) of this process: it
// maps the range, which the kernel refuses where something is (mmap(2),
// MAP_FIXED_NOREPLACE), and lets go of it.
func Free(addr, size uint64) bool {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED_NOREPLACE
	got, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addr), uintptr(size), unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return false
	}
	unix.Syscall(unix.SYS_MUNMAP, got, uintptr(size), 0)
	return uint64(got) == addr // older kernels take the address as a wish
}
