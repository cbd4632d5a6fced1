package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher/place"
)

// session is a process whose threads are all stopped, and one of them, which makes system
// calls and runs our code for us.
//
// We may be killed at any moment, and the kernel then lets all threads run. So:
//
//  1. Who makes a system call is in code that gets it back to where it was (ptrace.Caller).
//  2. Before the code that changes anything may run each thread, but for the one that runs it,
//     is led to code that waits for it (dp_park), and finds back by itself. No signal's handler
//     runs in between, which would meet half of the change, and count without a row.
//  3. That one is led to its code last, and begins only if nobody has given up by then.
type session struct {
	*ptrace.Process
	maps   []procmaps.Mapping
	worker *ptrace.Thread
	before map[*ptrace.Thread]ptrace.Regs // in front of system calls that are made again
	// statuses are what threads say of themselves, among it their numbers as the process sees
	// them, in its own namespace.
	statuses map[*ptrace.Thread]*ptrace.Status
	state    ptrace.Regs // with which the worker goes on
	tails    []place.Span
	begun    time.Time
	// isGo: it is a Go program without libc.
	isGo bool
	crew *crew // looks at many things at once
	// inherits: what seccomp filters it has are those that we have.
	inherits bool

	apart                bool         // names of our files are not theirs there: what it is to have is copied, or sent
	sends                *build.File  // the table, if it is to be sent
	unsent               error        // why it could not be
	files                []uint64     // descriptors that somebody has left who was killed
	mapped               []place.Span // by this session
	scratch, scratchSize uint64
	slots                []handover.Parked // of all threads, in their order
	led                  bool              // the worker is not where calls have left it
	stay                 bool              // it goes on by itself
	found                []suspect         // contexts that were in its memory before
}

// How long a thread may take to stop: while others wait that are stopped already, as one may
// be in vfork(2), whose child is slow; and when only it is to come.
const (
	patience = 300 * time.Millisecond
	forOne   = 2 * time.Second
)

func newSession(p *prepared) *session {
	return &session{begun: time.Now(), before: map[*ptrace.Thread]ptrace.Regs{}, statuses: map[*ptrace.Thread]*ptrace.Status{}, tails: p.linker.Tails, isGo: p.isGo}
}

// held calls do with all threads of a process stopped, which then go on, and early with those that
// sleep, before others are stopped. Signals to us wait until then.
func held(pid int, p *prepared, early func([]*ptrace.Thread), do func(*ptrace.Process) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	later := make(chan os.Signal, 16)
	signal.Notify(later, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGUSR1, syscall.SIGUSR2)
	defer func() {
		signal.Stop(later)
		if len(later) > 0 {
			syscall.Kill(os.Getpid(), (<-later).(syscall.Signal))
		}
	}()
	defer hurry()()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody of ours is to wait for that either
	process, err := ptrace.Stop(pid, patience, early)
	if errors.Is(err, ptrace.ErrPatience) || errors.Is(err, ptrace.ErrExecutes) || isGone(err) || err != nil && p.isAnother() {
		err = &errAgain{err}
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer process.Release()
	return do(process)
}

// stopped does so when all is as it should be, and it is known who works for us.
func stopped(pid int, p *prepared, do func(*session) error) error {
	crew := newCrew()
	defer crew.end()
	s := newSession(p)
	s.apart, s.crew = isApart(pid), crew
	early := func(threads []*ptrace.Thread) { s.read(pid, threads) }
	return held(pid, p, early, func(process *ptrace.Process) error {
		s.Process = process
		if err := s.look(); err != nil {
			return err
		}
		return do(s)
	})
}

// hurry has this thread run before others on a busy machine, if it may, and wait no longer than
// it says, until what it returns is called: the process waits for it.
func hurry() (end func()) {
	const first, kernels = -20, 20 // getpriority(2), as the kernel has it, counts from 20 down
	slack, failed := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if failed == nil {
		failed = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	}
	relax := func() {
		if failed == nil {
			unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
		}
	}
	had, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil || unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), first) != nil {
		return relax
	}
	return func() {
		relax()
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), kernels-had)
	}
}

// look finds out whether all is as it should be, and who works for us.
func (s *session) look() (err error) {
	if s.maps, err = procmaps.Of(strconv.Itoa(s.Pid)); err != nil {
		return err
	}
	var alone error
	s.crew.each(2, func(i int) {
		if i == 0 {
			alone = isAlone(s.Process)
		} else {
			s.read(s.Pid, s.unread())
		}
	})
	filters := verdicts{}
	for _, t := range s.Threads {
		s.before[t] = ptrace.Again(t.Regs, true)
		status := s.statuses[t]
		if status == nil || len(status.Numbers) == 0 {
			return again("process %d: its thread %d does not say what it is", s.Pid, t.Tid)
		}
		err := sandboxed(status)
		if err == nil && status.Seccomp != 0 && !s.inherits {
			err = filters.check(t)
		}
		if err != nil {
			return fmt.Errorf("process %d %w", s.Pid, err)
		}
		if t.Halted {
			return again("process %d is stopped", s.Pid)
		}
		const user64 = 0x33
		if t.Regs.Cs != user64 {
			return again("thread %d of process %d runs 32-bit code", t.Tid, s.Pid)
		}
		if t.Signal == 0 && s.worker == nil && !s.InSequence(t) {
			s.worker = t
		}
	}
	if s.worker == nil {
		return again("no thread of process %d can work for us just now", s.Pid)
	}
	s.state = s.before[s.worker]
	return alone
}

// read has stopped threads say what they are.
func (s *session) read(pid int, threads []*ptrace.Thread) {
	all := make([]*ptrace.Status, len(threads))
	s.crew.each(len(threads), func(i int) { all[i], _ = ptrace.ReadStatus(pid, threads[i].Tid) })
	for i, t := range threads {
		s.statuses[t] = all[i]
	}
}

// unread are the threads that have not said so yet: all, if a thread that ran has since given those
// that were stopped a seccomp filter (SECCOMP_FILTER_FLAG_TSYNC), which gives it to each.
func (s *session) unread() (threads []*ptrace.Thread) {
	for t, had := range s.statuses {
		if now, err := ptrace.ReadStatus(s.Pid, t.Tid); err != nil || had == nil || now.Seccomp != had.Seccomp {
			return s.Threads
		}
		break
	}
	for _, t := range s.Threads {
		if s.statuses[t] == nil {
			threads = append(threads, t)
		}
	}
	return threads
}

// isAlone is an error if another process has this one's memory, and is no thread of it, as
// behind vfork(2): it would run what is changed, and is not stopped.
func isAlone(p *ptrace.Process) error {
	const kcmpVM = 1
	all, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == p.Pid {
			continue
		}
		if differs, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(p.Threads[0].Tid), uintptr(pid), kcmpVM, 0, 0, 0); errno == 0 && differs == 0 {
			return again("process %d has the memory of process %d", pid, p.Pid)
		}
	}
	return nil
}

// calls leads the worker to a place for system calls, and back.
func (s *session) calls(do func(*ptrace.Caller) error) error {
	c, err := s.caller("")
	if err != nil {
		return err
	}
	err = do(c)
	return errors.Join(err, c.End())
}

// places are where a Caller may be.
func (s *session) places(yield func(at uint64) bool) {
	code := only(s.maps, func(m *procmaps.Mapping) bool { return isCode(m) || m.Path == "[vdso]" })
	for _, t := range s.tails {
		if t.High-t.Low >= ptrace.BlockSize && code.has(t.Low) && !yield(t.High-ptrace.BlockSize) {
			return
		}
	}
}

func (s *session) caller(text string) (*ptrace.Caller, error) {
	err := error(ptrace.ErrUsed)
	for at := range s.places {
		var c *ptrace.Caller
		if c, err = s.NewCaller(s.worker, at, s.state, text); !errors.Is(err, ptrace.ErrUsed) {
			return c, err
		}
	}
	return nil, fmt.Errorf("process %d: no code has room behind it for a system call: %w", s.Pid, err)
}

// open has the worker open a file without a name that is ours, filled already. Where it may
// not, it makes one itself, which becomes a copy of the bytes in front.
func (s *session) open(c *ptrace.Caller, ours *os.File, bytes uint64) (fd uint64, err error) {
	if !s.apart {
		if fd, err = c.Call(unix.SYS_OPEN, c.Text(), unix.O_RDWR|unix.O_CLOEXEC); err == nil {
			return fd, nil
		}
	}
	if err := c.SetText(ours.Name()); err != nil {
		return 0, err
	}
	if fd, err = c.Call(unix.SYS_MEMFD_CREATE, c.Text(), unix.MFD_CLOEXEC); err != nil {
		return 0, fmt.Errorf("process %d cannot open a file: %w", s.Pid, err)
	}
	its, err := os.OpenFile(fmt.Sprintf("/proc/%d/task/%d/fd/%d", s.Pid, s.worker.Tid, fd), os.O_RDWR, 0)
	if err == nil {
		defer its.Close()
		err = copyFile(its, ours, int64(bytes))
	}
	if err != nil {
		_, failed := c.Call(unix.SYS_CLOSE, fd)
		return 0, errors.Join(err, failed)
	}
	return fd, nil
}

func copyFile(to, from *os.File, bytes int64) error {
	fi, err := from.Stat()
	if err == nil {
		err = to.Truncate(fi.Size())
	}
	if err == nil {
		_, err = io.Copy(io.NewOffsetWriter(to, 0), io.NewSectionReader(from, 0, bytes))
	}
	return err
}

// pathFor is the path by which the process may open a file of ours, if it may.
func (s *session) pathFor(f *os.File) string {
	if s.apart {
		return ""
	}
	self, _ := os.Readlink("/proc/self") // our number where the process sees us
	return fmt.Sprintf("/proc/%s/fd/%d", self, f.Fd())
}

// newFile makes a file without a name, for processes to map: what is mapped of it is known to
// be ours.
func newFile(name string, size uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mapFile maps a part of such a file. Where at is not 0 nothing must lie there yet.
func (s *session) mapFile(c *ptrace.Caller, at, size uint64, prot, flags uint64, fd, offset uint64) (uint64, error) {
	if at != 0 {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	got, err := c.Call(unix.SYS_MMAP, at, size, prot, flags, fd, offset)
	switch {
	case errors.Is(err, unix.EEXIST):
		return 0, again("process %d has mapped something where its code was to lie", s.Pid)
	case err != nil:
		return 0, fmt.Errorf("process %d cannot map what is counted by: %w", s.Pid, err)
	}
	s.mapped = append(s.mapped, place.Span{Low: got, High: got + size})
	if at != 0 && got != at { // a kernel before 4.17 does not know that flag
		return 0, again("process %d has mapped something where its code was to lie", s.Pid)
	}
	return got, nil
}

// mapScratch maps the end of the file, from an offset on, to work in.
func (s *session) mapScratch(c *ptrace.Caller, at, size, fd, offset uint64) (err error) {
	s.scratchSize = layout.RoundUp(size)
	s.scratch, err = s.mapFile(c, at, s.scratchSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE, fd, offset)
	return err
}

// unmapScratch gives that memory back.
func (s *session) unmapScratch() error {
	return s.calls(func(c *ptrace.Caller) error {
		_, err := c.Call(unix.SYS_MUNMAP, s.scratch, s.scratchSize)
		return err
	})
}

// unmapAll unmaps what this session has mapped.
func (s *session) unmapAll(c *ptrace.Caller) (err error) {
	for _, m := range s.mapped {
		_, failed := c.Call(unix.SYS_MUNMAP, m.Low, m.High-m.Low)
		err = errors.Join(err, failed)
	}
	return err
}

// work has the worker do what request says: its code and data lie from base on. After an error
// all threads get back to where they were.
func (s *session) work(c *ptrace.Caller, base uint64, b *Blob, request *handover.Attach, lists map[*uint64][]byte) error {
	err := s.layOut(c, base, b, request, lists)
	if err != nil && !s.led {
		err = errors.Join(err, s.unmapAll(c), c.End())
	}
	return err
}

// layOut fills the scratch memory: the request, the lists, the threads, a stack.
func (s *session) layOut(c *ptrace.Caller, base uint64, b *Blob, request *handover.Attach, lists map[*uint64][]byte) error {
	const stackSize = 64 << 10
	at := s.scratch
	put := func(b []byte) (uint64, error) {
		to := at
		if at += (uint64(len(b)) + 63) &^ 63; at > s.scratch+s.scratchSize {
			return 0, errors.New("BUG: scratch memory is too small")
		}
		_, err := s.Mem.WriteAt(b, int64(to))
		return to, err
	}
	_, err := put(make([]byte, handover.AttachSize))
	for field, list := range lists {
		if err == nil {
			*field, err = put(list)
		}
	}
	if err != nil {
		return err
	}
	s.slots = nil
	for _, t := range s.Threads {
		slot := s.slotOf(t)
		s.slots = append(s.slots, slot)
		if t.Tid == s.Pid {
			request.First = slot.Tid
		}
	}
	if request.Threads, err = put(handover.Bytes(s.slots)); err != nil {
		return err
	}
	request.ThreadsCount = uint64(len(s.slots))
	request.Stack = (at + stackSize) &^ 15
	if request.Stack > s.scratch+s.scratchSize {
		return errors.New("BUG: scratch memory has no room for a stack")
	}
	if _, err := s.Mem.WriteAt(handover.Bytes(request), int64(s.scratch)); err != nil {
		return err
	}
	return s.run(c, base, b, request)
}

// scratchFor is how much memory work needs, with lists of so many bytes in all.
func (s *session) scratchFor(lists map[*uint64][]byte) uint64 {
	size := uint64(handover.AttachSize+len(s.Threads)*handover.ParkedSize) + 128<<10
	for _, l := range lists {
		size += uint64(len(l)) + 64
	}
	return size
}

func (s *session) slotOf(t *ptrace.Thread) handover.Parked {
	r, numbers := s.before[t], s.statuses[t].Numbers
	here := handover.Place{
		RIP: r.Rip, RSP: r.Rsp, RAX: r.Rax, EFlags: r.Eflags,
		RBX: r.Rbx, RCX: r.Rcx, RDX: r.Rdx, RSI: r.Rsi, RDI: r.Rdi, RBP: r.Rbp, R8: r.R8, R9: r.R9,
		R10: r.R10, R11: r.R11, R12: r.R12, R13: r.R13, R14: r.R14, R15: r.R15,
	}
	return handover.Parked{
		From: here, To: here, Mask: t.Mask(), GS: handover.KeepGS, Request: s.scratch, Tid: uint64(numbers[len(numbers)-1]),
	}
}

// run leads all threads to the code, and waits until the worker is done.
func (s *session) run(c *ptrace.Caller, base uint64, b *Blob, request *handover.Attach) error {
	led := func(i int, symbol string) ptrace.Regs {
		r := s.before[s.Threads[i]]
		r.Rip, r.Rbx, r.Orig_rax = base+b.symbols[symbol], request.Threads+uint64(i)*handover.ParkedSize, ^uint64(0)
		return r
	}
	worker := slices.Index(s.Threads, s.worker)
	for i, t := range s.Threads {
		if i == worker {
			continue
		}
		r := led(i, "dp_park")
		if err := t.Lead(&r); err != nil {
			s.unpark()
			return err
		}
	}
	r := led(worker, "dp_write")
	s.led = true
	err := s.worker.Set(&r)
	if err == nil {
		err = c.Leave()
	}
	if err == nil {
		err = s.worker.Run(&r)
	}
	if err == nil {
		err = s.await()
	}
	if err != nil {
		return err // they find back by themselves
	}
	if err := s.fetch(request); err != nil {
		return err
	}
	return nil
}

// unpark gives all threads but the worker their registers and signals again.
func (s *session) unpark() {
	for _, t := range s.Threads {
		if t != s.worker {
			t.Restore(&t.Regs) // who is gone needs none
		}
	}
}

// await waits until the worker says that it is done.
func (s *session) await() error {
	const most = time.Minute
	head := make([]byte, handover.HeadSize)
	for begun := time.Now(); ; ptrace.Pause(time.Since(begun)) {
		if _, err := s.Mem.ReadAt(head, int64(s.scratch)); err != nil {
			return fmt.Errorf("process %d has ended", s.Pid)
		}
		if head[0] == handover.Done {
			return nil
		}
		if socket := binary.LittleEndian.Uint64(head[handover.SocketAt:]); socket != 0 && s.sends != nil {
			s.unsent, s.sends = s.send(int(socket-1)), nil // it waits a second for that
		}
		if sig, is := s.worker.Stopped(); is {
			return fmt.Errorf("process %d: BUG: its thread %d got signal %d in our code", s.Pid, s.worker.Tid, sig)
		}
		if time.Since(begun) > most {
			return fmt.Errorf("process %d: its thread %d does not come to an end in our code", s.Pid, s.worker.Tid)
		}
	}
}

// send sends the table by a socket of the process's.
func (s *session) send(socket int) error {
	pidfd, err := unix.PidfdOpen(s.Pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	to, err := unix.PidfdGetfd(pidfd, socket, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_getfd", err)
	}
	defer unix.Close(to)
	return os.NewSyscallError("sendmsg", unix.Sendmsg(to, []byte{0}, unix.UnixRights(int(s.sends.Fd())), nil, 0))
}

// fetch stops the worker again, and reads what it has left. All threads get the registers
// that they go on with.
func (s *session) fetch(request *handover.Attach) error {
	if _, err := s.worker.Fetch(forOne); err != nil {
		return err
	}
	b := make([]byte, handover.AttachSize)
	if _, err := s.Mem.ReadAt(b, int64(s.scratch)); err != nil {
		return err
	}
	threads := request.Threads
	if err := handover.Read(b, request); err != nil {
		return err
	}
	b = make([]byte, len(s.slots)*handover.ParkedSize)
	if _, err := s.Mem.ReadAt(b, int64(threads)); err != nil {
		return err
	}
	if err := handover.Read(b, s.slots); err != nil {
		return err
	}
	for i, t := range s.Threads {
		if err := s.goOn(t, &s.slots[i], request.Outcome == handover.Succeeded); err != nil {
			return err
		}
	}
	return nil
}

// goOn gives a thread the registers that it goes on with.
func (s *session) goOn(t *ptrace.Thread, slot *handover.Parked, moved bool) error {
	r := t.Regs
	if to := slot.To; t == s.worker || moved && to != slot.From {
		r = s.before[t]
		if moved {
			r.Rip, r.Rsp, r.Rax, r.Eflags = to.RIP, to.RSP, to.RAX, to.EFlags
			r.Rbx, r.Rcx, r.Rdx, r.Rsi, r.Rdi, r.Rbp = to.RBX, to.RCX, to.RDX, to.RSI, to.RDI, to.RBP
			r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15 = to.R8, to.R9, to.R10, to.R11, to.R12, to.R13, to.R14, to.R15
		}
	}
	if moved && slot.GS != handover.KeepGS {
		r.Gs_base = slot.GS
	}
	if t != s.worker {
		return t.Return(&r)
	}
	s.state = r
	if slot.Left != 0 { // it was slow to be fetched, and is on its way
		s.stay = true
		return nil
	}
	return t.Return(&r)
}

// setGS sets the base that all threads go on with. Their registers were set.
func (s *session) setGS(base uint64) error {
	for _, t := range s.Threads {
		var r ptrace.Regs
		err := unix.PtraceGetRegs(t.Tid, &r)
		if err == nil {
			r.Gs_base = base
			err = t.Set(&r)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
