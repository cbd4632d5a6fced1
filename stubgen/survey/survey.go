// Package survey decodes every function of an object once, and learns where its code
// goes: which branches reach the windows of entries, which bodies can move, which
// functions are none, and where the system calls are that the library must know of.
package survey

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Survey is what one decoding of all functions of an object tells: for each
// function whether its body can be moved, and which branches reach its window.
type Survey struct {
	obj     *stubgen.Object
	facts   []facts
	entries *entryMap
	loops   map[int][]Site    // by function: branches of its own to its entry
	inside  map[int][]Arrival // by function: branches between the bytes of its window
	sites   []stubgen.KernelSite
	fixed   []stubgen.Fixed // sorted, disjoint
	owner   map[int]int     // by part: the function that alone jumps to it
	index   *stubgen.Index  // to note calls; nil: they are not noted
	calls   [][]Call        // by run of functions
	gs      bool
	untold  uint64 // bytes

	oldBirths bool

	entriesRead atomic.Int64 // of jump tables
}

// facts of one function.
type facts struct {
	traits   traits
	start    uint8 // window offset from the entry: behind an endbr64, and a signature
	targeted targeted
}

// targeted says who branches to a byte strictly inside the window.
type targeted uint8

const (
	fromOwnBody targeted = 1 << iota
	fromElsewhere
)

type traits uint16

const (
	hasCall traits = 1 << iota
	hasIndirectJump
	hasSystemCall
	hasUnmovable // xbegin, 16-bit branches, far transfers
	hasGap       // bytes that do not decode
	loopsByTable // a jump table leads back to the entry
	isColdPart   // reached as only a part of another function is
	isNested     // ends inside another function
	isOverlapped // starts inside another function
	sharesTable  // a jump table of another function may lead into it
	isMisplaced  // starts inside an instruction
	isGoexit     // Go's runtime.goexit
	isClosed     // its last instruction does not go on behind it
)

// Site is a direct branch. A Len of 0 means that it is not known: a jump
// table, a pointer, the unwinder, or code that may be none.
type Site struct {
	Addr uint64
	Len  uint8
	Rel8 bool
}

// Arrival is a branch to Target.
type Arrival struct {
	Target uint64
	From   Site
}

// New decodes every function of o with up to workers goroutines; 0 means
// one for each CPU.
func New(o *stubgen.Object, workers int) *Survey {
	s := &Survey{obj: o, facts: make([]facts, len(o.Functions)), entries: newEntryMap(o.Text), loops: map[int][]Site{}, inside: map[int][]Arrival{}}
	end := uint64(0)
	for i := range o.Functions {
		s.enter(i)
		f := &o.Functions[i]
		if f.Addr+f.Size <= end {
			s.facts[i].traits |= isNested
		}
		if f.Addr < end {
			s.facts[i].traits |= isOverlapped
		}
		end = max(end, f.Addr+f.Size)
	}
	for _, addr := range o.CodePointers {
		s.entries.take(addr)
		s.hit(windowHit{target: addr, who: fromElsewhere})
	}
	for _, addr := range o.LandingPads {
		s.entries.take(addr)
		s.hit(windowHit{target: addr, who: fromElsewhere})
	}
	s.fix()
	if o.NoteCalls {
		s.index = stubgen.NewIndex(o)
	}
	var labels []uint64
	if o.Absolute {
		labels = s.entries.takeWords(o.Data)
	}
	s.merge(s.decodeAll(workers))
	for _, at := range labels {
		if !s.insideInstruction(at) {
			s.hit(windowHit{target: at, who: fromElsewhere})
		}
	}
	return s
}

// insideInstruction reports whether an address is surely inside an instruction of a
// function that decodes without a gap and overlaps no other.
func (s *Survey) insideInstruction(addr uint64) bool {
	i := s.obj.FunctionAt(addr)
	if i < 0 || s.facts[i].traits&(isOverlapped|isNested|isMisplaced|hasGap) != 0 {
		return false
	}
	code, pc := s.obj.Body(i), s.obj.Functions[i].Addr
	var in x86.Inst
	for at := 0; pc < addr && at < len(code) && x86.Decode(code[at:], &in) == nil; at += int(in.Len) {
		pc += uint64(in.Len)
	}
	return pc > addr
}

// enter notes where function i and its window start.
func (s *Survey) enter(i int) {
	f := &s.obj.Functions[i]
	code := s.obj.Body(i)
	s.facts[i].start = uint8(headLen(code))
	if s.obj.Go && isGoexitCode(code) {
		s.facts[i].traits |= isGoexit
	}
	s.entries.add(f.Addr, s.facts[i].start)
}

var (
	endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

	// clang's -fsanitize=function compares these bytes of what is called by
	// pointer, and reads four bytes behind them: "jmp .+6", a mark, the type.
	signature = []byte{0xeb, 0x06, 'v', '2'}
)

const (
	endbrLen     = 4
	signatureLen = stubgen.MaxHead - endbrLen
)

// headLen is the length of what stays at an entry, in front of the window.
func headLen(code []byte) int {
	n := dataLen(code)
	if bytes.HasPrefix(code[n:], endbr64) {
		n += endbrLen
	}
	return n
}

// dataLen is the length of the data at an entry, a jump over them included.
func dataLen(code []byte) int {
	if len(code) > signatureLen && bytes.HasPrefix(code, signature) {
		return signatureLen
	}
	return 0
}

// isGoexitCode recognises runtime.goexit (asm_amd64.s): nop, call, nop. It is
// the return address at the bottom of every goroutine's stack, entered by a
// return to its second byte and never by a call.
func isGoexitCode(code []byte) bool {
	const nop, call = 0x90, 0xe8
	return len(code) >= 7 && code[0] == nop && code[1] == call && code[6] == nop
}

// decodeAll shares the functions out in runs of neighbours.
func (s *Survey) decodeAll(workers int) []*sweep {
	sweeps := make([]*sweep, parallel.Workers(workers))
	for w := range sweeps {
		sweeps[w] = &sweep{s: s, skim: s.entries.skim(s.obj.Absolute), untold: untold{ranges: s.obj.Ranges}}
	}
	const grain = 256
	s.calls = make([][]Call, len(s.obj.Functions)/grain+1)
	parallel.Ranges(len(s.obj.Functions), grain, workers, func(w, first, end int) {
		for i := first; i < end; i++ {
			sweeps[w].function(i)
		}
		s.calls[first/grain], sweeps[w].calls = sweeps[w].calls, nil
	})
	return sweeps
}

// merge brings the workers' findings about other functions together.
func (s *Survey) merge(found []*sweep) {
	owner := s.decideParts(found)
	rest := untold{ranges: s.obj.Ranges}
	rest.outside(s.obj)
	rest.guessed(s.obj)
	s.untold = rest.bytes
	for _, w := range found {
		s.gs, s.oldBirths = s.gs || w.gs, s.oldBirths || w.oldBirths
		s.untold += w.untold.bytes
		for _, i := range w.misplaced {
			s.facts[i].traits |= isMisplaced
		}
		for _, i := range w.doubtful {
			// A true entry behind data is called, or aligned by its assembler.
			if addr := s.obj.Functions[i].Addr; addr%granule != 0 && !s.entries.taken(addr) {
				s.facts[i].traits |= isMisplaced
			}
		}
		s.sites = append(s.sites, w.sites...)
		for _, l := range w.loops {
			s.loops[l.to] = append(s.loops[l.to], l.site)
		}
		for _, l := range w.entryJumps {
			if o, ok := owner[l.from]; ok && o == l.to {
				s.loops[l.to] = append(s.loops[l.to], l.site)
			}
		}
	}
	for _, w := range found {
		for _, h := range w.hits {
			if !h.past || !s.insideInstruction(h.target) {
				s.hit(h)
			}
		}
	}
	s.shareTables(found)
	s.sitesBetween()
	slices.SortFunc(s.sites, func(a, b stubgen.KernelSite) int { return cmp.Compare(a.Addr, b.Addr) })
	s.sites = slices.Compact(s.sites) // a function inside another is decoded twice
}

// shareTables marks functions and parts that jump to each other where one has
// a jump table: it may lead into the other, and what the survey knows of the
// table may not be all.
func (s *Survey) shareTables(found []*sweep) {
	for _, w := range found {
		for _, e := range w.jumps {
			if (s.facts[e.from].traits|s.facts[e.to].traits)&hasIndirectJump != 0 {
				s.facts[e.from].traits |= sharesTable
				s.facts[e.to].traits |= sharesTable
			}
		}
	}
}

// hit records a branch strictly inside the window of one or more functions. A
// branch from [low, high) is one of the function's own.
func (s *Survey) hit(h windowHit) {
	target := h.target
	for i := s.obj.FunctionAt(target); i >= 0; i-- {
		f := &s.obj.Functions[i]
		start := f.Addr + uint64(s.facts[i].start)
		if target >= start+stubgen.WindowSize+15 { // no window further down reaches this far
			return
		}
		if target <= start || target >= start+stubgen.WindowSize {
			continue
		}
		s.inside[i] = append(s.inside[i], Arrival{target, h.from})
		if h.who == fromOwnBody && f.Addr == h.low && h.low != h.high {
			s.facts[i].targeted |= fromOwnBody
		} else {
			s.facts[i].targeted |= fromElsewhere
		}
	}
}

// isPart reports whether function i of o is a cold part by its name or its FDE.
func isPart(o *stubgen.Object, i int) bool {
	return o.Functions[i].Excluded == ledger.ReasonColdPart
}
