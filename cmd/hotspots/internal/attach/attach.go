// Package attach has the calls of a process counted that runs already, and ends that again
// (docs/attach.md).
package attach

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/handover"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/remote"
)

// Request is what is wanted.
type Request struct {
	Pid    int
	Output string // pattern of the table's name; empty: the default place, for a new one
	// Replaces: a table of another program that has that name makes way.
	Replaces bool
	Options  patcher.Options
	Blob     *Blob
	Listen   string // address of an endpoint for metrics, for the table
	// Companion plans what comes later; nil: nobody does.
	Companion *Companion

	// Of Start, for the table.
	RunID       [16]byte
	Args        bool // it has the command line
	FollowsExec bool
	Inherits    bool // its seccomp filters, if it has any, are ours
}

// Result tells of it.
type Result struct {
	Table   string
	Nonce   [16]byte      // of the table
	GoesOn  bool          // the table has the counts of an earlier Attach
	Anew    error         // why it has not, though it was named
	ByCall  bool          // blocks were asked for, and are not counted: it has a Go runtime
	Added   int           // objects that came when nobody planned; the process was counted already
	Pause   time.Duration // the longest for which the process was stopped
	Threads int
}

// errAgain is what is to be tried again, in a moment.
type errAgain struct{ why error }

func (e *errAgain) Error() string { return e.why.Error() }
func (e *errAgain) Unwrap() error { return e.why }

func again(format string, args ...any) error { return &errAgain{fmt.Errorf(format, args...)} }

func isAgain(err error) bool {
	var moment *errAgain
	return errors.As(err, &moment)
}

// Attach has a process counted. After an error it is as it was. Of one that is counted already what
// it has loaded meanwhile is counted, too.
func Attach(r *Request) (*Result, error) {
	if err := check(r.Pid); err != nil {
		return nil, err
	}
	err := tidy(r.Pid, r.Blob)
	if counted := (*errCounted)(nil); errors.As(err, &counted) && counted.byUs {
		return add(r, counted)
	}
	if err != nil {
		return nil, err
	}
	var result *Result
	tries := 0
	err = retry(r.Pid, func() (err error) {
		result, err = attachOnce(r, nil, tries)
		tries++
		return err
	})
	return result, orEnded(r.Pid, err)
}

// leftFree is how many bytes are left to a program below each of its mappings: it may map something
// there while it is planned for, the more often the longer that takes. Most do not.
func leftFree(tries int) uint64 {
	const first, most = 64 << 20, 512 << 20
	if tries == 0 {
		return 0
	}
	return min(uint64(first)<<(tries-1), most)
}

// Start has a program counted from its first instruction on, or its libraries': it is stopped in
// front of that of its dynamic linker, if it has one, and goes on when it is released. After an
// error it is as it was, or has ended (ptrace.Ended).
func Start(r *Request, stopped *ptrace.Process) (*Result, error) {
	if err := checkKind(r.Pid); err != nil && !errors.Is(err, errGo) {
		return nil, err
	}
	if err := load(r.Pid, stopped); err != nil {
		return nil, err
	}
	result, err := attachOnce(r, stopped, 0)
	return result, orEnded(r.Pid, err)
}

// load has the dynamic linker of a program that was just executed load its libraries.
func load(pid int, stopped *ptrace.Process) error {
	maps, err := procmaps.Of(strconv.Itoa(pid))
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return err
	}
	auxv := remote.ParseAuxv(raw)
	l, err := remote.Begun(stopped.Mem, auxv, maps)
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	if l.Static {
		return nil
	}
	s := &session{maps: maps, tails: l.Tails}
	return stopped.RunToEntry(auxv[remote.AtEntry], s.places)
}

// orEnded is an error, or, where a process is gone, that instead of what comes of it.
func orEnded(pid int, err error) error {
	if err != nil && alive.Start(uint32(pid)) == 0 {
		return fmt.Errorf("process %d has ended", pid)
	}
	return err
}

// retry tries for some seconds: libraries may come and go, threads may be where nothing may
// be changed.
func retry(pid int, try func() error) error { return retryFor(pid, 15*time.Second, try) }

// retryFor tries, some times in any case: on a busy machine one try may take longer than that.
func retryFor(pid int, patience time.Duration, try func() error) error {
	const least, most = 5, 200
	end := time.Now().Add(patience)
	for n := 1; ; n++ {
		err := try()
		if !isAgain(err) || alive.Start(uint32(pid)) == 0 {
			return err
		}
		if n == most || n >= least && time.Now().After(end) {
			return fmt.Errorf("%w, each time in %d tries", err, n)
		}
		time.Sleep(time.Duration(min(n, 20)) * time.Millisecond)
	}
}

// prepared is all that is known before the process is stopped.
type prepared struct {
	*Request
	pid     int
	started *ptrace.Process // that is stopped already, in front of its first instruction; or nil
	process *remote.Process
	maps    []procmaps.Mapping
	auxv    []byte
	linker  *remote.Linker
	isGo    bool
	plan    *patcher.Plan
	held    place.Span // what will be mapped
	code    place.Span // in front, the code and its data
	table   *build.File
	place   string // the path of a table whose place that one takes; or empty
	goesOn  bool   // with its counts
	anew    error  // why not

	leavesStruck bool // see handover.Attach

	arenas []handover.Arena // of the plan, as the process reads them
	texts  []handover.Text
	used   uint64        // bytes of the arenas
	pause  time.Duration // the longest stop until then
	file   *os.File      // what it maps
}

// scratchRoom is how much memory may be needed while the process is stopped: for 70,000 threads.
const scratchRoom = 16 << 20

// readAuxv reads a process's auxiliary vector, by a thread that lives: the leader may have ended.
// In the middle of an execution there is none yet.
func readAuxv(pid int) ([]byte, error) {
	b, err := os.ReadFile(remote.Living(pid) + "/auxv")
	if err == nil && len(remote.ParseAuxv(b)) == 0 {
		err = errExecutes
	}
	return b, err
}

var errExecutes = errors.New("it executes a program")

// isAnother reports whether a process has executed something since it was looked at.
func (p *prepared) isAnother() bool {
	now, err := readAuxv(p.pid)
	return errors.Is(err, errExecutes) || err == nil && !bytes.Equal(now, p.auxv)
}

// look reads what is loaded. What tells which program it is comes first: of who executes another
// meanwhile the rest is of two.
func look(pid int) (*prepared, error) {
	p := &prepared{pid: pid}
	var err error
	if p.auxv, err = readAuxv(pid); err == nil {
		err = p.look()
	}
	if err != nil && p.isAnother() {
		err = errExecutes
	}
	if errors.Is(err, errExecutes) || errors.Is(err, remote.ErrLoading) || isGone(err) {
		err = &errAgain{err}
	}
	if err != nil {
		if p.process != nil {
			p.process.Close()
		}
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p.findLibrary()
	return p, nil
}

func (p *prepared) look() (err error) {
	if p.process, err = remote.Open(p.pid); err != nil {
		return err
	}
	p.process.Apart = isContained(p.pid)
	if p.maps, err = procmaps.Of(strconv.Itoa(p.pid)); err != nil {
		return err
	}
	if p.linker, err = remote.FindLinker(p.process.Memory, remote.ParseAuxv(p.auxv), p.maps); err != nil {
		return err
	}
	p.isGo = p.linker.Static && isGo(p.process.Thread()+"/exe")
	return p.findOwnLinker()
}

// isGone is the error of reading what /proc tells of a thread that has ended, as that may by which
// we look.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// mostForStruck is how many tries there are until no handler runs that a fault has called where text
// is to be changed. A thread may come to that over and over, or a handler wait for ever.
const mostForStruck = 12

// attachOnce is a try, after some.
func attachOnce(r *Request, started *ptrace.Process, tries int) (*Result, error) {
	p, err := look(r.Pid)
	if err != nil {
		return nil, err
	}
	defer p.process.Close()
	p.process.LeftFree = leftFree(tries)
	p.Request, p.started, p.leavesStruck = r, started, tries >= mostForStruck
	result, err := p.attach()
	if err != nil && started == nil && p.isAnother() {
		err = again("process %d: %w", r.Pid, errExecutes) // what was found is of two programs
	}
	return result, err
}

func (p *prepared) attach() (*Result, error) {
	err := checkLibc(p.linker)
	if err == nil && p.started == nil { // no goroutine runs yet
		err = p.checkLibraries()
	}
	if err != nil {
		return nil, fmt.Errorf("process %d %w", p.Pid, err)
	}
	if err := p.makePlan(); err != nil {
		return nil, err
	}
	if err := p.makeTable(); err != nil {
		return nil, err
	}
	defer p.table.Close()
	result, err := p.warmAndBegin()
	if err != nil {
		os.Remove(p.table.Path()) // nobody has counted into it
		return nil, err
	}
	result.Table, result.Nonce, result.GoesOn, result.Anew = p.tableNow(), p.table.Nonce, p.goesOn, p.anew
	result.ByCall = p.Options.On[setting.Blocks] && p.plan.IsGo()
	p.tellLibrary()
	return result, nil
}

// findLibrary finds our own among the objects, which has been loaded into a program that it
// cannot count, as one of musl: nobody counts that.
func (p *prepared) findLibrary() {
	for i := range p.linker.Objects {
		o := &p.linker.Objects[i]
		o.Self = path.Base(o.Name) == "libdynprof.so"
	}
}

// tellLibrary tells it that it need not say so.
func (p *prepared) tellLibrary() {
	for _, o := range p.linker.Objects {
		if !o.Self {
			continue
		}
		if at, err := p.symbol(&o, "dynprof_here"); err == nil {
			p.process.Memory.WriteAt([]byte{1}, int64(at)) // else it says that it does not count, which is so
		}
	}
}

// symbol is where an object has what it defines by a name.
func (p *prepared) symbol(o *target.Loaded, name string) (uint64, error) {
	file, err := p.process.Open(o.Name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return 0, err
	}
	all, err := f.DynamicSymbols()
	if i := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF }); i >= 0 {
		return o.Bias + all[i].Value, nil
	}
	return 0, cmp.Or(err, fmt.Errorf("%s has no %s", o.Name, name))
}

// makePlan plans while the process runs.
func (p *prepared) makePlan() error {
	main, code, reserve := p.linker.Objects[0].Span, uint64(len(p.Blob.image)), p.reserveFor()
	size := code + reserve + scratchRoom
	maps, err := p.process.Maps()
	if err != nil {
		return err
	}
	low, ok := place.NewSpace(maps, p.process.Lowest(), p.process.Growth()).PlaceAnywhere(main, size)
	if !ok {
		return fmt.Errorf("process %d has no room for the code to attach", p.Pid)
	}
	p.held, p.code = place.Span{Low: low, High: low + size}, place.Span{Low: low, High: low + code}
	p.process.Held, p.process.ReserveSize = p.held, reserve
	entry := func(name string) uint64 { return low + p.Blob.symbols[name] }
	request := &patcher.Request{
		Options: p.Options,
		Objects: p.linker.Objects,
		Entries: patcher.Entries{
			Cold: entry("dp_cold"), Keep: entry("dp_keeper"), Site: entry("dp_kernel_site"),
			Signal: entry("dp_signal_site"), Changed: entry("dp_objects_changed"), Return: entry("dp_return_site"),
		},
		LinkerHook:  p.linker.Hook,
		Static:      p.linker.Static,
		Early:       p.started != nil && p.linker.Static,
		ReserveSize: p.process.ReserveSize,
		Miss:        func(int, ledger.Reason) {},
		Stop:        func() {},
	}
	if p.plan, err = patcher.New(request, p.process); err == nil {
		p.plan.Patch()
	}
	if unread := p.process.Checked(); unread != nil { // unmapped meanwhile
		return again("process %d: %w", p.Pid, unread)
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p.Pid, err)
	}
	if p.linker.Static && !countsAny(p.plan) { // it may be packed, and put anything anywhere when it unpacks itself
		return fmt.Errorf("process %d: no function of %s is known that could be counted: build it with symbols, or with unwind tables", p.Pid, p.plan.Program())
	}
	if p.plan.IsGo() && p.Options.Threshold.Any() { // it would have to run at entries, in front of the check of the stack
		return fmt.Errorf("process %d: %s has a Go runtime, whose stacks have no room for what --threshold takes", p.Pid, p.plan.Program())
	}
	if p.started == nil && p.plan.IsGo() != p.isGo { // its file tells less than its code
		return fmt.Errorf("process %d: %s %w", p.Pid, p.plan.Program(), errGo)
	}
	if p.plan.HeapEnd() != 0 || p.plan.NeedsTraps() {
		return fmt.Errorf("process %d: the plan needs what only a start can give", p.Pid)
	}
	return nil
}

func countsAny(plan *patcher.Plan) bool {
	for range plan.Stubs() {
		return true
	}
	return false
}

// reserveFor is as libdynprof/session.c has it: stubs, and what is told of them, take less
// than the text they count, but for programs of tiny functions; copies, and stubs of calls by
// site, more.
func (p *prepared) reserveFor() uint64 {
	const copies, pairs = 3, 5
	text, times := uint64(0), uint64(1)
	for i := range p.maps {
		if m := &p.maps[i]; isCode(m) {
			text += m.End - m.Start
		}
	}
	switch on := &p.Options.On; {
	case on[setting.Blocks] && on[setting.Control]:
		times = pairs
	case on[setting.Blocks], on[setting.Edges]:
		times = copies
	}
	return layout.RoundUp(4*text+4<<20) * times
}

// isCode reports whether a mapping is code of a file.
func isCode(m *procmaps.Mapping) bool { return m.Inode != 0 && isExecutable(m) }

func (p *prepared) warmAndBegin() (*Result, error) {
	if err := p.warm(); err != nil {
		return nil, err
	}
	defer p.file.Close()
	return p.begin()
}

// warm does what can be done before the process is stopped: it would wait for that.
func (p *prepared) warm() error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Pid))
	if err != nil {
		return err
	}
	if err := p.table.Reserve(len(threads) + 1); err != nil {
		return fmt.Errorf("the table has no room for the threads of process %d: %w", p.Pid, err)
	}
	p.list()
	if err := p.makeFile(); err != nil {
		return fmt.Errorf("what process %d is to map cannot be made: %w", p.Pid, err)
	}
	return nil
}

// list puts down the plan as the process reads it.
func (p *prepared) list() { p.arenas, p.texts, p.used = listed(p.plan) }

// listed is a plan as a process reads it, and how many bytes of its reserve it takes.
func listed(plan *patcher.Plan) (arenas []handover.Arena, texts []handover.Text, used uint64) {
	for _, a := range plan.Arenas() {
		arenas = append(arenas, handover.Arena{
			At: a.At, Offset: a.Offset, Size: a.Size, Pointers: a.Pointers, Cold: a.Cold, Keeps: a.Keeps,
			Origins: a.Origins.Records, Lengths: a.Origins.Lengths, ByText: a.Origins.ByText, OriginsCount: a.Origins.Count,
			Islands: a.Origins.Islands, IslandsCount: a.Origins.IslandsCount,
			Traps: a.Traps, TrapsCount: uint64(a.TrapsCount),
			View: a.View, ViewOffset: a.ViewOffset, ViewSize: a.ViewSize,
		})
		used = max(used, a.Offset+a.Size+a.Pointers)
	}
	for _, t := range plan.Texts() {
		texts = append(texts, handover.Text{Start: t.Start, Size: t.End - t.Start, Arena: uint64(int64(t.Arena))})
	}
	return arenas, texts, layout.RoundUp(used)
}

// makeFile makes the file that the process maps: code, data, stubs, and room behind them.
func (p *prepared) makeFile() error {
	size := int64(len(p.Blob.image))
	stubs, err := p.process.Reserve()
	if err == nil {
		p.file, err = newFile(p.Blob.name(), uint64(size)+p.used+scratchRoom)
	}
	if err != nil {
		return err
	}
	_, err = p.file.WriteAt(p.Blob.image, 0)
	if err == nil {
		_, err = p.file.WriteAt(stubs[:p.used], size)
	}
	if err != nil {
		p.file.Close()
	}
	return err
}

// isAsPlanned is an error if other code is loaded than was planned, or something lies where
// code of ours is to lie.
func (p *prepared) isAsPlanned(now []procmaps.Mapping) error {
	taken := remote.IsTaken(now, p.held.Low, p.held.High)
	for _, a := range p.plan.Arenas() {
		taken = taken || remote.IsTaken(now, a.At, a.At+a.Size+a.Pointers+a.ViewSize)
	}
	if taken {
		return again("process %d has mapped something where its stubs were to lie", p.Pid)
	}
	code := func(all []procmaps.Mapping) []procmaps.Mapping { return only(all, isCode) }
	if !slices.Equal(code(p.maps), code(now)) {
		return again("process %d has loaded or unloaded libraries", p.Pid)
	}
	return nil
}
