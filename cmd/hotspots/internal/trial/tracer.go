package trial

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// tracer leads a program from one breakpoint to the next, each of which is come to once:
//
//  1. its entry: what it is linked with is mapped, so that it is known where all others are
//  2. where calls that ask for blocks return to: the block is what they return
//  3. points of the plan: what was touched since the last one is looked at, or memory is given back
//
// Children that have memory of their own go on untraced, without breakpoints; those that have the program's,
// as of vfork, until they execute another.
type tracer struct {
	plan   *Plan
	pid    int
	first  ptrace.Tracee
	mem    *os.File
	result Run

	breaks map[uint64]*breakpoint
	known  map[ptrace.Tracee]bool // these run, or will
	early  map[ptrace.Tracee]bool // these have stopped for the first time before who has made them
	alone  map[ptrace.Tracee]bool // these have not, and have memory of their own
	blocks map[Spot]uint64        // where they are
	lows   map[string]uint64      // where objects are
	given  []span
	come   func(point int, of ptrace.Tracee) error
	looks  bool // pages are known that were touched since it came to a point
}

type span struct{ from, to uint64 }

// breakpoint is an instruction that a trap is in the place of.
type breakpoint struct {
	was  byte
	gone bool
	come []func(ptrace.Tracee, *ptrace.Regs) error // in this order
}

const trap = 0xcc

func newTracer(pid int, plan *Plan) *tracer {
	return &tracer{plan: plan, pid: pid, result: Run{Point: -1}, breaks: map[uint64]*breakpoint{}, known: map[ptrace.Tracee]bool{}, early: map[ptrace.Tracee]bool{}, alone: map[ptrace.Tracee]bool{}, blocks: map[Spot]uint64{}, lows: map[string]uint64{}}
}

// run goes on until the program has ended.
func (t *tracer) run() (err error) {
	if t.first, err = ptrace.Begun(t.pid); err != nil {
		return err
	}
	if t.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", t.pid), os.O_RDWR, 0); err != nil {
		return err
	}
	defer t.mem.Close()
	t.known[t.first] = true
	entry, err := t.entry()
	if err == nil {
		err = t.set(entry, t.entered)
	}
	if err == nil {
		err = t.first.Run(0)
	}
	if err != nil {
		return err
	}
	for {
		e, status, err := ptrace.Come()
		if err != nil {
			return err
		}
		if e.What == ptrace.Gone && e.Of == t.first {
			if t.result.Status = status.ExitStatus(); status.Signaled() {
				t.result.Status = 128 + int(status.Signal())
			}
			return nil
		}
		if err := t.handle(e); err != nil {
			return err
		}
	}
}

// end ends a program of which nothing is to be known any more.
func (t *tracer) end() {
	syscall.Kill(t.pid, syscall.SIGKILL)
	for {
		e, _, err := ptrace.Come()
		if err != nil || e.What == ptrace.Gone && e.Of == ptrace.Tracee(t.pid) {
			return
		}
		e.Of.Run(0) // it stops where it ends
	}
}

func (t *tracer) handle(e ptrace.Event) error {
	switch {
	case e.What == ptrace.Gone:
		delete(t.known, e.Of)
		return nil
	case !t.known[e.Of]:
		return t.begins(e.Of)
	}
	signal := 0
	switch e.What {
	case ptrace.Forked:
		if err := t.forked(e.Of); err != nil {
			return err
		}
	case ptrace.Executed:
		if e.Of != t.first {
			delete(t.known, e.Of)
			return gone(e.Of.Leave(0))
		}
		clear(t.breaks)
		t.given, t.looks = nil, false
	case ptrace.Ends:
		t.look(e.Of)
	case ptrace.Signal:
		if signal = e.Signal; signal == int(syscall.SIGTRAP) {
			if hit, err := t.hit(e.Of); hit || err != nil {
				signal = 0
				if err != nil {
					return err
				}
			}
		}
	}
	return gone(e.Of.Run(signal))
}

// gone is the error but for one that is killed at that moment.
func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// begins is a thread or a process that has stopped for the first time.
func (t *tracer) begins(of ptrace.Tracee) error {
	if alone, is := t.alone[of]; is {
		delete(t.alone, of)
		return t.letGo(of, alone)
	}
	t.early[of] = true
	return nil
}

// forked is that a thread has made another, or a process.
func (t *tracer) forked(by ptrace.Tracee) error {
	of, err := by.Message()
	if err != nil {
		return gone(err)
	}
	r, err := by.Regs()
	if err != nil {
		return gone(err)
	}
	alone := !ptrace.SharesMemory(&r, func(at uint64) uint64 {
		var b [8]byte
		t.mem.ReadAt(b[:], int64(at))
		return binary.LittleEndian.Uint64(b[:])
	})
	if t.early[of] {
		delete(t.early, of)
		return t.letGo(of, alone)
	}
	t.alone[of] = alone
	return nil
}

func (t *tracer) letGo(of ptrace.Tracee, alone bool) error {
	if !alone {
		t.known[of] = true
		return gone(of.Run(0))
	}
	if mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", of), os.O_RDWR, 0); err == nil {
		for at, b := range t.breaks { // also those that are gone: it was made before that, perhaps
			mem.WriteAt([]byte{b.was}, int64(at))
		}
		mem.Close()
	}
	return gone(of.Leave(0))
}

// set puts a breakpoint somewhere, or has one do something besides.
func (t *tracer) set(at uint64, come func(ptrace.Tracee, *ptrace.Regs) error) error {
	if b := t.breaks[at]; b != nil {
		b.come = append(b.come, come)
		return nil
	}
	var was [1]byte
	_, err := t.mem.ReadAt(was[:], int64(at))
	if err == nil {
		_, err = t.mem.WriteAt([]byte{trap}, int64(at))
	}
	if err != nil {
		return fmt.Errorf("it cannot be stopped at 0x%x: %w", at, err)
	}
	t.breaks[at] = &breakpoint{was: was[0], come: []func(ptrace.Tracee, *ptrace.Regs) error{come}}
	return nil
}

// hit reports whether a thread has come to a breakpoint, and handles it. Others may have come to it before it
// was taken away.
func (t *tracer) hit(of ptrace.Tracee) (bool, error) {
	r, err := of.Regs()
	if err != nil {
		return false, gone(err)
	}
	b := t.breaks[r.Rip-1]
	if b == nil {
		return false, nil
	}
	r.Rip--
	if err := of.SetRegs(&r); err != nil {
		return true, gone(err)
	}
	if b.gone {
		return true, nil
	}
	b.gone = true
	_, err = t.mem.WriteAt([]byte{b.was}, int64(r.Rip))
	for _, come := range b.come {
		if err == nil {
			err = come(of, &r)
		}
	}
	return true, err
}

// entry is where the program begins, behind its dynamic linker.
func (t *tracer) entry() (uint64, error) {
	b, err := procfile.Read(fmt.Sprintf("/proc/%d/auxv", t.pid))
	at, is := remote.ParseAuxv(b)[remote.AtEntry]
	if !is {
		return 0, fmt.Errorf("it is not known where it begins: %w", err)
	}
	return at, nil
}

// entered is when it does.
func (t *tracer) entered(ptrace.Tracee, *ptrace.Regs) error {
	maps, err := procmaps.Of(strconv.Itoa(t.pid))
	if err != nil {
		return err
	}
	for i := range maps {
		if _, is := t.lows[maps[i].Path]; !is {
			t.lows[maps[i].Path] = maps[i].Start
		}
	}
	if _, is := t.lows[t.plan.Program]; !is {
		return ErrOther
	}
	for _, d := range t.plan.Dead {
		if b := d.Block; b != nil {
			if low, is := t.lows[b.Object]; is {
				if err := t.set(low+b.Offset, func(_ ptrace.Tracee, r *ptrace.Regs) error {
					t.blocks[*b] = r.Rax
					return nil
				}); err != nil {
					return err
				}
			}
		}
	}
	for i, s := range t.plan.Points {
		if low, is := t.lows[s.Object]; is {
			if err := t.set(low+s.Offset, func(of ptrace.Tracee, _ *ptrace.Regs) error { return t.come(i, of) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// each does something with all memory of the plan that there is, by an instruction for system calls.
func (t *tracer) each(do func(at uint64, s span)) error {
	maps, err := procmaps.Of(strconv.Itoa(t.pid))
	if err != nil {
		return err
	}
	at, err := t.syscallIn(maps)
	for i := range t.plan.Dead {
		if err == nil {
			for _, s := range t.spans(&t.plan.Dead[i], maps) {
				do(at, s)
			}
		}
	}
	return err
}

// giveBack is when the program comes to the point where memory is dead.
func (t *tracer) giveBack(_ int, of ptrace.Tracee) error {
	t.result.Came = true
	return t.each(func(at uint64, s span) {
		there := resident(of, s)
		if _, err := of.Call(at, syscall.SYS_MADVISE, s.from, s.to-s.from, syscall.MADV_DONTNEED); err != nil {
			t.result.Denied = err
			return
		}
		t.result.Asked += (s.to - s.from) / page
		t.result.Given += there - min(there, resident(of, s))
		t.given = append(t.given, s)
	})
}

// compare is when the program comes to a point: what of the memory was touched since the last one is known by
// its mappings, as soon as there are some of it alone. MADV_DONTDUMP makes them, and changes nothing else that the program
// can see.
func (t *tracer) compare(point int, of ptrace.Tracee) error {
	var all []span
	if err := t.each(func(at uint64, s span) {
		of.Call(at, syscall.SYS_MADVISE, s.from, s.to-s.from, dontDump) // else more was touched, it seems
		all = append(all, s)
	}); err != nil {
		return err
	}
	t.given = all
	if !t.looks || t.referenced(of) {
		t.result.Point = point
	}
	for _, what := range []string{"1", "4"} { // referenced; the other has CPUs forget what they know of pages, too
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", of), []byte(what), 0); err != nil {
			return fmt.Errorf("what it touches cannot be looked at: %w", err)
		}
	}
	t.looks = true
	return nil
}

// referenced reports whether any of the memory was touched since it was asked last, by code or by the kernel.
func (t *tracer) referenced(of ptrace.Tracee) bool {
	text, err := procfile.Read(fmt.Sprintf("/proc/%d/smaps", of))
	if err != nil {
		return true
	}
	is := false
	for line := range strings.Lines(string(text)) {
		var from, to, kb uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			is = slices.ContainsFunc(t.given, func(s span) bool { return s.from < to && from < s.to })
		} else if n, _ := fmt.Sscanf(line, "Referenced: %d kB", &kb); n == 1 && kb > 0 && is {
			return true
		}
	}
	return false
}

const (
	page     = 4096
	dontDump = 16 // MADV_DONTDUMP
)

// spans are the whole pages of memory that is dead, as far as they are the program's own, and can be written.
func (t *tracer) spans(d *Dead, maps []procmaps.Mapping) (all []span) {
	var base uint64
	is := false
	switch {
	case d.Block != nil:
		base, is = t.blocks[*d.Block]
	case d.Object != "":
		base, is = t.lows[d.Object]
	default:
		i := slices.IndexFunc(maps, func(m procmaps.Mapping) bool { return m.Path == "[heap]" })
		if is = i >= 0; is {
			base = maps[i].Start
		}
	}
	if !is {
		return nil
	}
	from, to, found := (base+d.Offset+page-1)&^(page-1), (base+d.Offset+d.Bytes)&^(page-1), uint64(0)
	for i := range maps {
		m := &maps[i]
		s := span{max(from, m.Start), min(to, m.End)}
		if s.from < s.to && m.Prot&procmaps.ProtWrite != 0 && !m.Shared && (m.Path == "" || m.Path == "[heap]" || m.Path == d.Object) {
			all, found = append(all, s), found+s.to-s.from
		}
	}
	if d.Block != nil && found < to-from { // it was something else that returned there
		return nil
	}
	return all
}

// syscallIn is an instruction for system calls.
func (t *tracer) syscallIn(maps []procmaps.Mapping) (uint64, error) {
	for i := range maps {
		m := &maps[i]
		if m.Prot&procmaps.ProtExec == 0 || m.Path == "[vsyscall]" {
			continue
		}
		b := make([]byte, min(m.End-m.Start, 16<<20))
		n, _ := t.mem.ReadAt(b, int64(m.Start))
		if at := bytes.Index(b[:n], []byte{0x0f, 0x05}); at >= 0 {
			return m.Start + uint64(at), nil
		}
	}
	return 0, errors.New("it has no instruction for system calls")
}

// resident is how many pages of it are in memory, or in swap.
func resident(of ptrace.Tracee, s span) uint64 {
	n, _ := mem.ResidentOf(strconv.Itoa(int(of)), s.from, s.to) // up to an error, as where it has ended
	return n
}

// look is at what the program has in memory when a thread of it ends: the last one tells.
func (t *tracer) look(of ptrace.Tracee) {
	text, err := procfile.Read(fmt.Sprintf("/proc/%d/smaps_rollup", of))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		var kb uint64
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kb); n == 1 {
			t.result.Resident = kb << 10
		}
	}
	if t.looks {
		if t.referenced(of) {
			t.result.Point = -1
		}
		return
	}
	t.result.Again = 0
	for _, s := range t.given {
		t.result.Again += resident(of, s)
	}
}
