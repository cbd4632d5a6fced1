package main

import (
	"bufio"
	"fmt"
	"os"
	"syscall"

	"github.com/dynprof/dynprof/patcher"
)

// writePerfMap adds the stubs to /tmp/perf-PID.map, where perf looks for the
// names of code that is in no file: start and size in hex digits, and a name a
// line (Linux, tools/perf/Documentation/jit-interface.txt). Other makers of code
// write to the same file. It is a help, not a need: an error is not worth
// counting nothing.
func writePerfMap(pid int, plan *patcher.Plan) error {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_CLOEXEC | syscall.O_NONBLOCK
	f, err := os.OpenFile(fmt.Sprintf("/tmp/perf-%d.map", pid), flags, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || int(fi.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a file of ours", f.Name())
	}
	w := bufio.NewWriterSize(f, 64<<10)
	for s := range plan.Stubs() {
		fmt.Fprintf(w, "%x %x %s [dynprof]\n", uint64(s.At), s.Len, s.Name)
	}
	for s := range plan.SiteStubs() {
		fmt.Fprintf(w, "%x %x %s [dynprof site]\n", uint64(s.At), s.Len, s.Name)
	}
	return w.Flush()
}
