// Package perf samples where a program is, from outside, by the kernel's perf events
// (perf_event_open(2)): nothing is changed in the program, and no thread of it waits.
package perf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/sampling"
	"github.com/dynprof/dynprof/internal/procfile"
)

// Events are those of a program, one for each CPU: a clock of the CPU time that its
// threads take, which notes each period where a thread is.
//
//  1. They are opened on the thread that is going to execute the program, and sleep: it
//     executes nothing, and is not sampled.
//  2. Its child, the program, inherits them, and they are turned on as it is executed
//     (enable_on_exec): nothing of hotspots is in the samples, and nothing of the program is
//     missing.
//  3. Its threads and processes inherit them, and what they execute keeps them.
//
// Inheritance goes with one event for each CPU: an event that is on all CPUs cannot be
// mapped then.
type Events struct {
	Kernel bool          // time in the kernel is sampled, too
	Period time.Duration // CPU time of a thread from one sample to the next

	rings []*ring
	cpus  []int
}

// Frequencies of samples a second of CPU time.
const (
	// UsualHertz is no multiple of what timers of programs and of the kernel go by, so that
	// samples do not come in step with what these wake.
	UsualHertz = 997
	MostHertz  = 10_000
)

// Pages of a ring, besides the one with its ends. All of a user's rings are not to take more
// than kernel.perf_event_mlock_kb for each CPU, 129 pages mostly: where that is used up a
// smaller one will do.
const (
	ringPages = 32
	manyPages = 128 // at more than busyHertz
	busyHertz = 2000
)

// Open opens the events on this thread, to which the caller has to be locked
// (runtime.LockOSThread) until it has executed the program. The error says what to do.
func Open(hertz int) (*Events, error) {
	cpus, err := online()
	if err != nil {
		return nil, err
	}
	e := &Events{Period: time.Second / time.Duration(hertz), Kernel: true, cpus: cpus}
	err = e.open(hertz)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) { // kernel.perf_event_paranoid is 2, mostly
		e.Kernel = false
		err = e.open(hertz)
	}
	if err != nil {
		return nil, refusal(err, paranoid())
	}
	return e, nil
}

func (e *Events) open(hertz int) error {
	attr := e.attr()
	pages := ringPages
	if hertz > busyHertz {
		pages = manyPages
	}
	for _, cpu := range e.cpus {
		fd, err := unix.PerfEventOpen(attr, 0, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err == unix.ENODEV { // it has just gone
			continue
		}
		if err != nil {
			e.Close()
			return os.NewSyscallError("perf_event_open", err)
		}
		r, err := newRing(fd, &pages)
		if err != nil {
			unix.Close(fd)
			e.Close()
			return err
		}
		e.rings = append(e.rings, r)
	}
	return nil
}

// attr is what is asked of the kernel. A clock, and not cycles: its samples are time, which
// is there in virtual machines, too, and it is never shared with others' events.
func (e *Events) attr() *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Config:      unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:        unix.PERF_ATTR_SIZE_VER5,
		Sample:      uint64(e.Period),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitEnableOnExec | unix.PerfBitExcludeHv |
			unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC, // a table's, too
	}
	if !e.Kernel {
		a.Bits |= unix.PerfBitExcludeKernel
	}
	return a
}

// Read hands on what is new in the rings, of each CPU in the order of time.
func (e *Events) Read(use func(*sampling.Record)) {
	for _, r := range e.rings {
		r.read(use)
	}
}

// Close ends the sampling, of processes that still run, too.
func (e *Events) Close() {
	for _, r := range e.rings {
		r.close()
	}
	e.rings = nil
}

// Came is how many CPUs have been turned on since Open: what ran there is not sampled.
func (e *Events) Came() (n int) {
	now, err := online()
	if err != nil {
		return 0
	}
	for _, cpu := range now {
		if !slices.Contains(e.cpus, cpu) {
			n++
		}
	}
	return n
}

// Now is the time of records.
func Now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// online lists the CPUs that threads can run on.
func online() ([]int, error) {
	b, err := procfile.Read("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("which CPUs there are is not to be read: %w (is /sys mounted?)", err)
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list as 0-3,8.
func parseCPUs(list string) (cpus []int, err error) {
	const most = 1 << 16
	for part := range strings.SplitSeq(list, ",") {
		first, last, is := strings.Cut(part, "-")
		if !is {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to > most {
			return nil, fmt.Errorf("a list of CPUs as %q is not understood", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// paranoid is kernel.perf_event_paranoid; 0 if it is not known.
func paranoid() int {
	b, err := procfile.Read("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return 0
	}
	level, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return level
}

// refusal says how to allow what the kernel refuses.
func refusal(err error, level int) error {
	const user = 2 // all may sample their own programs, outside of the kernel
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		if level > user {
			return fmt.Errorf("%w: kernel.perf_event_paranoid is %d: allow it with sysctl kernel.perf_event_paranoid=%d, or run hotspots with CAP_PERFMON", err, level, user)
		}
		return fmt.Errorf("%w: a sandbox's filter or a security module refuses it: in a container allow perf_event_open in the seccomp profile, or add CAP_PERFMON", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: the kernel has no perf events, or a sandbox's filter hides them: in a container allow perf_event_open in the seccomp profile", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: it takes one descriptor for each CPU: raise ulimit -n", err)
	}
	return err
}
