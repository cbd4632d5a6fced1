package survey

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// OnlyMaps reports a kernel site that only maps memory, or takes it away.
func OnlyMaps(s *stubgen.KernelSite) bool { return mayMap(s.Number) }

func mayMap(number uint32) bool {
	return number == sysMmap || number == sysMunmap || number == sysMremap || number == sysMadvise
}

const (
	setupLen   = 5
	opMovEAX   = 0xb8
	opMovAL    = 0xb0
	opPopRAX   = 0x58
	opPushImm8 = 0x6a
)

var (
	opMovRAX  = []byte{0x48, 0xc7, 0xc0}
	opXorEAX  = []byte{0x31, 0xc0}
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
	} else if s, ok := rareSite(code, w.line.last, at, w.low); ok {
		w.spread = append(w.spread, spreadSite{KernelSite: s})
	} else if w.s.obj.Given {
		if s, ok := w.goSite(code, at); ok {
			w.spread = append(w.spread, spreadSite{KernelSite: s})
		}
	}
}

// rareSite is a kernel site whose number comes from further away: the system call at offset at,
// the instruction in front of it at offset from.
func rareSite(code []byte, from, at int, low uint64) (s stubgen.KernelSite, ok bool) {
	for _, site := range []func([]byte, int, int, uint64) (stubgen.KernelSite, bool){endSite, cloneSite, givenSite} {
		if s, ok = site(code, from, at, low); ok {
			break
		}
	}
	return s, ok
}

// rareSiteIn is rareSite, or a site whose number is loaded further in front, in text whose
// functions are not known.
func rareSiteIn(seg stubgen.Segment, code []byte, at int) (s stubgen.KernelSite, ok bool) {
	const shortest, longest, near = 2, 8, 48
	for from := at - shortest; from >= max(0, at-longest) && !ok; from-- {
		if s, ok = rareSite(code, from, at, seg.Addr); ok {
			ok = nobodyJumpsInto(seg, s)
		}
	}
	for from := at - setupLen - 1; from >= max(0, at-near) && !ok; from-- {
		if code[from] != opMovEAX || !isWatched(binary.LittleEndian.Uint32(code[from+1:])) || !keepsRAX(code, from+setupLen, at) {
			continue
		}
		l := line{end: from}
		l.goTo(code, at)
		setup := l.setup(code, at)
		s = stubgen.KernelSite{Addr: seg.Addr + uint64(at-len(setup)), Setup: setup, Number: binary.LittleEndian.Uint32(code[from+1:])}
		ok = setup != "" && likelyBoundary(seg.Code, from) && nobodyJumpsInto(seg, s)
	}
	return s, ok
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
		if s, ok := rareSiteIn(seg, code, end); ok {
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
// in the child it would be wrong. What a section says is data is not looked at.
func (s *Survey) sitesBetween() {
	known := len(s.sites)
	defer func() {
		s.sites = slices.Concat(s.sites[:known], slices.DeleteFunc(s.sites[known:], func(k stubgen.KernelSite) bool {
			return slices.ContainsFunc(s.obj.DataInText, func(r elfscan.Range) bool { return k.Addr < r.High && r.Low < k.End() })
		}))
	}()
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
