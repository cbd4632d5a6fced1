// A Go program that makes system calls of which dynprof must know before. It executes others, in
// each way, while garbage is collected without a pause, and says how they ended; or it forks; or
// it installs a filter. Without arguments it works. Its calls of work are known.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

var done int

//go:noinline
//go:nosplit
func work(n int) { done += n }

//go:nosplit
func works(n int) {
	for i := range n {
		work(i)
	}
}

// forks has children that work while this process does. Where there is no room for a user
// namespace of their own, they are in this one.
func forks() {
	const children, each = 10, 100000
	runtime.LockOSThread()
	for n := range uintptr(children) {
		flags := uintptr(syscall.SIGCHLD)
		if n%2 == 0 {
			flags |= syscall.CLONE_NEWUSER
		}
		pid := forked(flags, each)
		if pid < 0 {
			pid = forked(uintptr(syscall.SIGCHLD), each)
		}
		works(each)
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
				break
			}
		}
		if status.ExitStatus() != 3 {
			fmt.Println("child", n, status)
		}
	}
	runtime.UnlockOSThread()
}

//go:noinline
//go:nosplit
func forked(flags uintptr, each int) int {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	if errno != 0 {
		return -1
	}
	if pid == 0 {
		works(each)
		for {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 3, 0, 0)
		}
	}
	return int(pid)
}

// executes runs a program, and says how it ended, if not with 0 or 7 and in silence.
func executes(path string, flags uintptr) {
	c := exec.Command(path)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	out, err := c.CombinedOutput()
	if flags != 0 && errors.Is(err, syscall.EPERM) {
		executes(path, 0)
		return
	}
	if status := c.ProcessState.ExitCode(); status != 0 && status != 7 || len(out) > 0 {
		fmt.Printf("%s: %v, %s\n", path, err, out)
	}
	work(0)
}

// filters has all threads killed that call mremap, which nothing here does, and has threads that
// begin and end.
func filters() {
	const threads, each = 50, 1000
	const setNoNewPrivs, setModeFilter, allThreads, seccomp, mremap = 38, 1, 1, 317, 25
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	filter := []instruction{{0x20, 0, 0, 0}, {0x15, 1, 0, mremap}, {0x06, 0, 0, 0x7fff0000}, {0x06, 0, 0, 0x80000000}}
	program := struct {
		length uint16
		filter *instruction
	}{uint16(len(filter)), &filter[0]}
	if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0); errno != 0 {
		fmt.Println(errno)
	}
	if _, _, errno := syscall.Syscall(seccomp, setModeFilter, allThreads, uintptr(unsafe.Pointer(&program))); errno != 0 {
		fmt.Println(errno)
	}
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			runtime.LockOSThread() // which ends with it
			works(each)
			runtime.GC()
		})
	}
	all.Wait()
	fmt.Println("through")
}

func main() {
	defer func() { runtime.KeepAlive(done) }()
	if len(os.Args) == 1 {
		works(1000)
		return
	}
	if os.Args[1] == "filtered" {
		filters()
		return
	}
	go func() {
		for {
			runtime.GC()
		}
	}()
	if os.Args[1] == "forks" {
		forks()
		return
	}
	var all sync.WaitGroup
	for _, path := range os.Args[1:] {
		for _, flags := range []uintptr{0, syscall.CLONE_NEWUSER} {
			all.Go(func() { executes(path, flags) })
		}
	}
	all.Wait()
	for _, path := range []string{"/nothing/there", "/proc/self/maps"} { // cannot be executed
		fmt.Println(exec.Command(path).Run())
	}
	last := os.Args[len(os.Args)-1]
	fmt.Println(syscall.Exec("/nothing/there", []string{last}, os.Environ()))
	fmt.Println(syscall.Exec(last, []string{last}, os.Environ()))
}
