package mem

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// View is the memory of this process at [addr, addr+n), which the caller
// knows to be mapped. The slice lives as long as the mapping does.
func View(addr uint64, n int) []byte {
	return unsafe.Slice((*byte)(pointer(addr)), n)
}

// Array is View for n values of type T.
func Array[T any](addr uint64, n int) []T {
	return unsafe.Slice((*T)(pointer(addr)), n)
}

// Strings are those of C that words from addr on lead to, up to one that is 0.
func Strings(addr uint64) (all []string) {
	const word = 8
	for ; ; addr += word {
		at := Array[uint64](addr, 1)[0]
		if at == 0 {
			return all
		}
		all = append(all, unix.BytePtrToString((*byte)(pointer(at))))
	}
}

// pointer makes an integer a pointer to memory outside the Go heap.
func pointer(addr uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// Alias maps the pages of a shared mapping a second time, writable, anywhere
// in this process: mremap(2) with an old size of 0 duplicates a shared mapping
// without a descriptor. Protection is per mapping, so the original stays as it
// is; going from read+execute to read+write is allowed under PR_SET_MDWE.
func Alias(addr uint64, n int) ([]byte, error) {
	p, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(addr), 0, uintptr(n), unix.MREMAP_MAYMOVE, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	b := View(uint64(p), n)
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	return b, nil
}

// MapFile maps a file for reading, as it is now. Where it is cut short later,
// what is behind its end raises SIGBUS.
func MapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
}

// CString is the NUL-terminated string at addr.
func CString(addr uint64) string {
	n := 0
	for *(*byte)(pointer(addr + uint64(n))) != 0 {
		n++
	}
	return string(View(addr, n))
}

// String is b as a string, without a copy: b does not change any more.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Values is b, whose address is aligned for T, as as many values as it has room for.
func Values[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// Bytes is the memory of values.
func Bytes[T any](values []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(t)))
}
