package file

import "syscall"

// Held reports whether any process has the file open or mapped, besides this
// open of it, and whether that is known. The kernel grants a write lease
// (fcntl(2), F_SETLEASE) only on a file that nobody else has open; a mapping
// counts as one. Only the owner or root may ask.
func (f *File) Held() (held, known bool) {
	if f.os == nil {
		return false, false
	}
	switch err := f.Lease(); err {
	case nil:
		f.Unlease() // an open by others that waits for it goes on
		return false, true
	case syscall.EAGAIN:
		return true, true
	default:
		return false, false
	}
}

// Lease takes the write lease: nobody else opens the file until Unlease. EAGAIN
// says that somebody has it.
func (f *File) Lease() error { return f.lease(syscall.F_WRLCK) }

// Unlease gives the write lease back.
func (f *File) Unlease() { f.lease(syscall.F_UNLCK) }

func (f *File) lease(kind int) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.os.Fd(), syscall.F_SETLEASE, uintptr(kind)); errno != 0 {
		return errno
	}
	return nil
}
