// Package procfile opens files of the kernel's, below /proc and /sys, by their names. Where
// a program has another root, or has mounted something of its own there, the names may be
// those of pipes that nobody writes to, or of what has no end: these are not there.
package procfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Open opens a file of the kernel's to read it, without waiting for anybody.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	return f, nil
}

// Read is all of it.
func Read(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// CommandLine is that of a process, by its directory in /proc, with spaces between its words;
// empty if it is not told.
func CommandLine(of string) string {
	b, _ := Read(of + "/cmdline")
	return strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
}

// ThreadName is what a thread of a process is called; empty: it is gone, or is of another.
func ThreadName(pid, tid uint32) string {
	b, _ := Read(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	return strings.TrimSuffix(string(b), "\n")
}

// FieldsOf are those of a line of /proc/PID/stat behind the name in parentheses, which may hold any:
// the first is the third of proc_pid_stat(5), the state.
func FieldsOf(stat []byte) [][]byte { return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) }

// StateOf is the state in a line of /proc/PID/stat, behind the name in parentheses, which
// may hold any; 0: there is none.
func StateOf(stat []byte) byte {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 || i+2 >= len(stat) {
		return 0
	}
	return stat[i+2]
}

// IsKernels reports whether a line of /proc/PID/task/TID/stat is of a thread that the kernel
// keeps in a process for work of its own: io_uring's and vhost's. It never runs the program's
// code, and a request that it waits for fails when it is interrupted. Flags alone would not do:
// they had other meanings in earlier kernels.
func IsKernels(stat []byte) bool {
	const ioWorker, userWorker = 0x10, 0x4000 // PF_IO_WORKER, PF_USER_WORKER
	from, to := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return false
	}
	fields := FieldsOf(stat) // state, parent, group, session, terminal, its group, flags
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	name := stat[from+1 : to]
	return err == nil && (bytes.HasPrefix(name, []byte("iou-")) && flags&ioWorker != 0 ||
		bytes.HasPrefix(name, []byte("vhost-")) && flags&userWorker != 0)
}
