package survey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// OnlyMaps reports a kernel site that only maps memory, or takes it away.
func OnlyMaps(s *stubgen.KernelSite) bool { return mayMap(s.Number) }

func mayMap(number uint32) bool {
	return number == sysMmap || number == sysMunmap || number == sysMremap || number == sysMadvise
}

// System calls that make a thread or process, and that end one (endsite.go), those
// that install filters, the one that installs signal handlers, the one that
// resumes contexts, the one that sets the GS base, the one that locks all memory,
// and those by which text becomes writable, or other memory takes its place.
const (
	sysMmap        = 9
	sysMprotect    = 10
	sysMunmap      = 11
	sysRtSigaction = 13
	sysRtSigreturn = 15
	sysMremap      = 25
	sysMadvise     = 28

	sysClone        = 56
	sysFork         = 57
	sysVfork        = 58
	sysExit         = 60
	sysMlockall     = 151
	sysPrctl        = 157
	sysArchPrctl    = 158
	sysExitGroup    = 231
	sysSeccomp      = 317
	sysPkeyMprotect = 329
	sysClone3       = 435
)

// watched are the system calls that have kernel sites. libdynprof/resident/sites/watched.h is
// generated from it, in this order, but for those that slowpath.S asks for first.
var watched = []struct {
	name   string
	number uint32
	first  bool
}{
	{"rt_sigaction", sysRtSigaction, true},
	{"rt_sigreturn", sysRtSigreturn, true},
	{"mmap", sysMmap, true},
	{"munmap", sysMunmap, true},
	{"madvise", sysMadvise, true},
	{"mremap", sysMremap, true},
	{"mprotect", sysMprotect, false},
	{"clone", sysClone, false},
	{"fork", sysFork, false},
	{"vfork", sysVfork, false},
	{"exit", sysExit, false},
	{"exit_group", sysExitGroup, false},
	{"mlockall", sysMlockall, false},
	{"prctl", sysPrctl, false},
	{"arch_prctl", sysArchPrctl, false},
	{"seccomp", sysSeccomp, false},
	{"pkey_mprotect", sysPkeyMprotect, false},
	{"clone3", sysClone3, false},
}

func isWatched(number uint32) bool {
	for i := range watched {
		if watched[i].number == number {
			return true
		}
	}
	return false
}

const (
	setupLen = 5
	opMovEAX = 0xb8
)

var (
	opSyscall = []byte{0x0f, 0x05}
	// The end of libc's syscall(3), by any number: the last argument comes
	// from the stack, and behind the system call is a comparison with -4095,
	// so that no flag is live.
	anySetup = []byte{0x4c, 0x8b, 0x4c, 0x24, 0x08}
	opCmpRAX = []byte{0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff}
)

// SetsHandlers reports a kernel site that installs signal handlers.
func SetsHandlers(s *stubgen.KernelSite) bool {
	return len(s.Setup) == setupLen && s.Setup[0] == opMovEAX && binary.LittleEndian.Uint32([]byte(s.Setup[1:])) == sysRtSigaction
}

// sitePattern is the bytes of a kernel site.
type sitePattern struct {
	code   []byte
	number uint32
}

var sitePatterns = func() (all []sitePattern) {
	for _, w := range watched {
		mov := binary.LittleEndian.AppendUint32([]byte{opMovEAX}, w.number)
		all = append(all, sitePattern{append(mov, opSyscall...), w.number})
	}
	return append(all, sitePattern{slices.Concat(anySetup, opSyscall, opCmpRAX), stubgen.AnyNumber})
}()

// KernelSites lists the kernel sites of the object's functions, in address
// order. libc has twenty-two: in _Fork, vfork, clone and __clone2, which end the
// thread, too, clone3, __libc_sigaction, prctl, arch_prctl, mprotect,
// pkey_mprotect, mlockall, mmap, munmap, mremap, madvise, posix_madvise and syscall,
// where threads end otherwise, and two in _exit.
func (s *Survey) KernelSites() []stubgen.KernelSite { return s.sites }

// site looks at a system call, at offset at of the function's code, for what
// makes it a kernel site.
func (w *sweep) site(code []byte, at int, pc uint64) {
	w.line.goTo(code, at)
	if s, ready := w.readySite(code, at, pc); ready && !w.isEntry(s.Addr) {
		w.sites = append(w.sites, s)
	} else if ready {
		w.entrySite(s, code, at)
	} else if number, ok := w.line.loadsWatched(code); ok {
		setup := w.line.setup(code, at)
		s := stubgen.KernelSite{Addr: pc - uint64(len(setup)), Setup: setup, Number: number}
		if mayMap(number) && w.isEntry(s.Addr) {
			w.entrySite(s, code, at)
		} else if setup != "" {
			w.spread = append(w.spread, spreadSite{KernelSite: s})
		}
	} else if s, ok := endSite(code, at, w.low); ok {
		w.spread = append(w.spread, spreadSite{KernelSite: s})
	}
}

// readySite is a kernel site whose setup is one instruction of 5 bytes.
func (w *sweep) readySite(code []byte, at int, pc uint64) (stubgen.KernelSite, bool) {
	for _, p := range sitePatterns {
		if at-w.line.last == setupLen && bytes.HasPrefix(code[w.line.last:], p.code) {
			return stubgen.KernelSite{Addr: pc - setupLen, Setup: string(p.code[:setupLen]), Number: p.number}, true
		}
	}
	return stubgen.KernelSite{}, false
}

// isEntry reports whether address at is in the window of the function at hand.
func (w *sweep) isEntry(at uint64) bool { return at-w.inside+1 < stubgen.WindowSize }

// entrySite adds a site whose setup is the function's entry: so that the function
// can be counted, it is the system call with the comparison behind it that is
// replaced, if nothing jumps in between. Else what only maps memory is no site.
func (w *sweep) entrySite(s stubgen.KernelSite, code []byte, at int) {
	spread := spreadSite{KernelSite: s}
	if behind := code[at+len(opSyscall):]; bytes.HasPrefix(behind, opCmpRAX[:2]) && len(behind) >= len(opCmpRAX) {
		spread.KernelSite = stubgen.KernelSite{Addr: w.low + uint64(at), Behind: string(behind[:len(opCmpRAX)]), Number: s.Number}
		spread.instead = s
	}
	if !mayMap(s.Number) || spread.instead.Setup != "" {
		w.spread = append(w.spread, spread)
	}
}

// spreadSite is a site of the function at hand, into which it may not jump itself.
type spreadSite struct {
	stubgen.KernelSite
	instead stubgen.KernelSite // what else is one, if it has a setup
}

// line is the last plain instructions in front of the one at hand.
type line struct {
	at   [8]int // offsets, in a ring
	n    int
	end  int // offset of the one at hand
	last int // and of the one in front
}

// goTo goes on to the instruction at offset to of a function's code, which a sweep
// from its start comes to.
func (l *line) goTo(code []byte, to int) {
	var in x86.Inst
	for l.end < to {
		switch err := x86.Decode(code[l.end:], &in); {
		case err != nil:
			in.Len, l.n = 1, 0
		case in.Kind == x86.Plain:
			l.at[l.n%len(l.at)] = l.end
			l.n++
		default:
			l.n = 0
		}
		l.last, l.end = l.end, l.end+int(in.Len)
	}
}

// back yields the offsets, the last first.
func (l *line) back(yield func(at int) bool) {
	for i := l.n - 1; i >= max(0, l.n-len(l.at)) && yield(l.at[i%len(l.at)]); i-- {
	}
}

// loadsWatched returns the watched number that the line loads into eax, and whether
// there is one.
func (l *line) loadsWatched(code []byte) (number uint32, ok bool) {
	number, ok = l.number(code)
	return number, ok && isWatched(number)
}

// number returns the number that the line loads into eax, and whether it does, and
// behind it loads only other registers.
func (l *line) number(code []byte) (number uint32, ok bool) {
	for at := range l.back {
		if code[at] == opMovEAX && len(code) >= at+setupLen {
			return binary.LittleEndian.Uint32(code[at+1:]), true
		}
		if !loadsArgument(code[at:]) {
			break
		}
	}
	return 0, false
}

// setup returns the end of the line that, with the system call, has room for a
// jump.
func (l *line) setup(code []byte, at int) string {
	const least = stubgen.WindowSize - 2
	for from := range l.back {
		if code[from] != opMovEAX && !loadsArgument(code[from:]) {
			return ""
		}
		if at-from >= least {
			return string(code[from:at])
		}
	}
	return ""
}

// loadsArgument reports whether an instruction does nothing but load a register
// other than rax, and runs the same elsewhere: mov, lea and xor in the forms in
// which arguments are loaded.
func loadsArgument(code []byte) bool {
	var in x86.Inst
	const other = x86.PrefixREX // the only prefix that may be there
	if x86.Decode(code, &in) != nil || in.Kind != x86.Plain || in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy || in.Prefix&^other != 0 || in.RIPRel() {
		return false
	}
	reg := in.ModRM>>3&7 | in.Rex&x86.RexR<<1
	rm := in.ModRM&7 | in.Rex&x86.RexB<<3
	direct := in.ModRM >= 0xc0
	const (
		opXor, opMov, opXorTo, opMovTo, opMovImm = 0x31, 0x89, 0x33, 0x8b, 0xc7
	)
	switch {
	case in.Op == opXor || in.Op == opMov || in.Op == opMovImm:
		return direct && rm != 0
	case in.Op == opXorTo || in.Op == opMovTo || in.Op == opLea:
		return reg != 0
	case in.Op&0xf8 == opMovEAX: // mov $imm,%reg
		return in.Op&7|in.Rex&x86.RexB<<3 != 0
	}
	return false
}

// keepSpread keeps those of the function's sites whose number is loaded further
// in front into which it does not jump itself.
func (w *sweep) keepSpread(code []byte) {
	for _, s := range w.spread {
		if !w.mayJumpInto(code, s.Addr+1, max(s.End(), s.Addr+stubgen.WindowSize)) {
			w.sites = append(w.sites, s.KernelSite)
		} else if s.instead.Setup != "" && !mayMap(s.Number) {
			w.sites = append(w.sites, s.instead)
		}
	}
	w.spread = w.spread[:0]
}

// mayJumpInto reports whether a branch in code may lead into [from, to): a direct
// one, or one by a jump table.
func (w *sweep) mayJumpInto(code []byte, from, to uint64) bool {
	var in x86.Inst
	for at := 0; at < len(code); at += int(in.Len) {
		if x86.Decode(code[at:], &in) != nil {
			return true // it cannot be told
		}
		switch in.Kind {
		case x86.Jcc, x86.Jmp, x86.Loop, x86.Call, x86.Xbegin:
			if t := in.BranchTarget(code[at:], w.low+uint64(at)); from <= t && t < to {
				return true
			}
		case x86.JmpInd:
			if in.ModRM < 0xc0 || w.byTable {
				return true
			}
		}
	}
	return false
}

// FindKernelSites looks for kernel sites by their bytes, in text whose functions
// are not known.
func FindKernelSites(text []stubgen.Segment) []stubgen.KernelSite {
	var sites []stubgen.KernelSite
	for _, seg := range text {
		sites = appendSites(sites, seg, 0, len(seg.Code))
	}
	slices.SortFunc(sites, func(a, b stubgen.KernelSite) int { return cmp.Compare(a.Addr, b.Addr) })
	return sites
}

// appendSites looks for kernel sites whose system call lies in [from, to) of the
// segment.
func appendSites(sites []stubgen.KernelSite, seg stubgen.Segment, from, to int) []stubgen.KernelSite {
	from = max(from-setupLen, 0)
	code := seg.Code[:to]
	for end := from + setupLen; ; end++ { // of the setup
		k := bytes.IndexByte(code[min(end+1, to):], opSyscall[1])
		if k < 0 {
			return sites
		}
		end += k
		if code[end] != opSyscall[0] {
			continue
		}
		if s, ok := endSite(code, end, seg.Addr); ok && nobodyJumpsInto(seg, s) {
			sites = append(sites, s)
			continue
		}
		at := end - setupLen
		for _, p := range sitePatterns {
			if bytes.HasPrefix(code[at:], p.code) && likelyBoundary(seg.Code, at) {
				sites = append(sites, stubgen.KernelSite{Addr: seg.Addr + uint64(at), Setup: string(p.code[:setupLen]), Number: p.number})
			}
		}
	}
}

// sitesBetween looks where the sweep does not: in text that no function is
// known to cover. In libc's clone3 the FDE ends in front of the syscall, since
// in the child it would be wrong.
func (s *Survey) sitesBetween() {
	for _, seg := range s.obj.Text {
		if seg.Tail {
			continue
		}
		covered := seg.Addr
		for i := range s.obj.Functions {
			f := &s.obj.Functions[i]
			if f.Addr < seg.Addr || f.Addr >= seg.End() {
				continue
			}
			if f.Addr > covered && bytes.Contains(seg.Code[covered-seg.Addr:f.Addr-seg.Addr], opSyscall) {
				s.sites = appendSites(s.sites, seg, int(covered-seg.Addr), int(f.Addr-seg.Addr))
			}
			covered = max(covered, f.Addr+f.Size)
		}
		if covered < seg.End() {
			s.sites = appendSites(s.sites, seg, int(covered-seg.Addr), len(seg.Code))
		}
	}
}

// likelyBoundary reports whether an instruction starts at offset at: decoding
// falls into step with the true instructions within a few, so of the starts
// in front of it most must arrive there.
func likelyBoundary(code []byte, at int) bool {
	const starts, near = 32, 16
	arrived, tried := 0, 0
	for from := at - near - starts; from < at-near; from++ {
		if from < 0 {
			continue
		}
		tried++
		var in x86.Inst
		pos := from
		for pos < at {
			if x86.Decode(code[pos:], &in) != nil {
				in.Len = 1
			}
			pos += int(in.Len)
		}
		if pos == at {
			arrived++
		}
	}
	return arrived*4 >= tried*3 && tried > 0
}
