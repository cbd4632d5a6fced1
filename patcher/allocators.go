package patcher

import (
	"errors"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Functions that hand out blocks of memory, or take them back, by what their arguments are:
// enum dp_allocator of libdynprof/resident/table/allocs.h.
const (
	allocFree = iota
	allocSize
	allocArray
	allocAgain
	allocAgainArray
	allocAligned
	allocInto
)

// allocators are those that malloc(3) and C++ have. Who asks for a block of operator new has
// asked for it, although that asks malloc.
var allocators = map[string]uint8{
	"malloc": allocSize, "valloc": allocSize, "pvalloc": allocSize,
	"calloc": allocArray, "realloc": allocAgain, "reallocarray": allocAgainArray,
	"aligned_alloc": allocAligned, "memalign": allocAligned, "posix_memalign": allocInto,
	"free": allocFree, "cfree": allocFree, "free_sized": allocFree, "free_aligned_sized": allocFree,

	"_Znwm": allocSize, "_Znam": allocSize,
	"_ZnwmRKSt9nothrow_t": allocSize, "_ZnamRKSt9nothrow_t": allocSize,
	"_ZnwmSt11align_val_t": allocSize, "_ZnamSt11align_val_t": allocSize,
	"_ZnwmSt11align_val_tRKSt9nothrow_t": allocSize, "_ZnamSt11align_val_tRKSt9nothrow_t": allocSize,
	"_ZdlPv": allocFree, "_ZdaPv": allocFree, "_ZdlPvm": allocFree, "_ZdaPvm": allocFree,
	"_ZdlPvRKSt9nothrow_t": allocFree, "_ZdaPvRKSt9nothrow_t": allocFree,
	"_ZdlPvSt11align_val_t": allocFree, "_ZdaPvSt11align_val_t": allocFree,
	"_ZdlPvmSt11align_val_t": allocFree, "_ZdaPvmSt11align_val_t": allocFree,
	"_ZdlPvSt11align_val_tRKSt9nothrow_t": allocFree, "_ZdaPvSt11align_val_tRKSt9nothrow_t": allocFree,
}

func allocatorOf(f *elfscan.Function) (kind uint8, is bool) {
	for _, name := range append([]string{f.Name}, f.Aliases...) {
		if kind, is = allocators[name]; is {
			return kind, true
		}
	}
	return 0, false
}

// findAllocators finds those of an object, and sees to it that their windows stay as they are.
func (o *object) findAllocators(p *Plan) {
	if p.Entries.Allocator == 0 || o.code == nil || o.err != nil {
		return
	}
	scan := o.scan
	if scan == nil { // it is not selected
		f, err := o.open(p.maps)
		if err != nil {
			return
		}
		defer f.Close()
		scan, o.scan = o.scan, nil
	}
	for i := range scan.Functions {
		f := &scan.Functions[i]
		kind, is := allocatorOf(f)
		if !is || f.IFuncResolver || f.Excluded != ledger.ReasonNone {
			continue
		}
		a := stubgen.Allocator{Window: f.Addr, Kind: kind}
		next := uint64(0)
		if i+1 < len(scan.Functions) {
			next = scan.Functions[i+1].Addr
		}
		if !o.findWindow(&a, f, next) {
			o.unled = append(o.unled, f.Name)
			continue
		}
		o.allocators = append(o.allocators, a)
		o.code.Fixed = append(o.code.Fixed, stubgen.Fixed{Low: a.Window, High: a.Window + max(a.Bytes, stubgen.WindowSize), Why: ledger.ReasonAllocator})
	}
}

// findWindow finds what moves. It reports false if that cannot be: as nothing may lead there,
// nor come back, and it has to run the same elsewhere.
func (o *object) findWindow(a *stubgen.Allocator, f *elfscan.Function, next uint64) bool {
	code := o.code.Code(f.Addr)
	size := min(f.Size, uint64(len(code)))
	var in x86.Inst
	ended := false
	for at := uint64(0); at < size; at += uint64(in.Len) {
		pc, b := f.Addr+at, code[at:size]
		if x86.Decode(b, &in) != nil {
			return false
		}
		b = b[:in.Len]
		if at == 0 && in.Kind == x86.Endbr {
			a.Window += uint64(in.Len)
			continue
		}
		if pc == a.End() && a.Bytes < stubgen.WindowSize && !ended {
			if !emit.Movable(&in, b) || in.Kind == x86.Syscall || in.Kind == x86.Loop {
				return false
			}
			a.Bytes += uint64(in.Len)
			ended = emit.EndsFlow(&in, b)
		}
	}
	if a.Bytes == 0 || a.Bytes < stubgen.WindowSize && (!ended || !o.isPadding(a.End(), a.Window+stubgen.WindowSize, next)) {
		return false
	}
	for at := uint64(0); at < size; at += uint64(in.Len) { // all lengths are known to be right
		if x86.Decode(code[at:size], &in) != nil {
			return false
		}
		switch in.Kind {
		case x86.Jmp, x86.Jcc, x86.Loop, x86.Call:
			if to := in.BranchTarget(code[at:], f.Addr+at); to > a.Window && to < max(a.End(), a.Window+stubgen.WindowSize) {
				return false
			}
		}
	}
	return true
}

// isPadding reports whether nothing is in [low, high), in front of what comes next.
func (o *object) isPadding(low, high, next uint64) bool {
	code := o.code.Code(low)
	if next != 0 && next < high || uint64(len(code)) < high-low {
		return false
	}
	var in x86.Inst
	for at := uint64(0); at < high-low; at += uint64(in.Len) {
		switch b := code[at:]; {
		case b[0] == 0xcc || b[0] == 0:
			in.Len = 1
		case x86.Decode(b, &in) != nil || in.Kind != x86.Nop:
			return false
		}
	}
	return true
}

// emitAllocators writes the thunks of object k. What refers to something out of reach stays.
func (a *arena) emitAllocators(k int, p *Plan, origins *emit.Origins) error {
	o := a.objects[k]
	o.led = make([]bool, len(o.allocators))
	for i, f := range o.allocators {
		at := o.allocatorsAt(a.thunks[k]) + i*emit.AllocatorSize
		run := x86.RunAddr(a.at).Add(at)
		lengths, err := emit.EmitAllocator(o.code, f, a.buf[at:at+emit.AllocatorSize], run, p.Entries.Allocator)
		if errors.Is(err, x86.ErrReach) {
			o.unled = append(o.unled, o.nameAt(f.Window))
			continue
		}
		if err != nil {
			return err
		}
		o.led[i] = true
		origins.AddAllocator(o.code, f, run, lengths)
	}
	return nil
}

// dropAllocators is for an object without an arena.
func (o *object) dropAllocators() {
	for _, f := range o.allocators {
		o.unled = append(o.unled, o.nameAt(f.Window))
	}
	o.allocators = nil
}

// allocatorsAt is where the thunks of functions are, of those that begin at an offset in the arena.
func (o *object) allocatorsAt(thunks int) int {
	return thunks + (o.transfersAt()+len(o.transfers))*emit.ThunkSize
}

func (o *object) nameAt(window uint64) string {
	for i := range o.code.Functions {
		if f := &o.code.Functions[i]; f.Addr <= window && window < f.Addr+f.Size {
			return f.Name
		}
	}
	return "?"
}

// appendAllocators adds the patches that lead to them.
func (o *object) appendAllocators(list []patch.Patch) []patch.Patch {
	for i, f := range o.allocators {
		if o.led[i] {
			at := o.arena.thunk(o, 0).Add(o.allocatorsAt(0) + i*emit.AllocatorSize + emit.AllocatorEntry)
			list = append(list, patch.Allocator(o.code, f, at))
		}
	}
	return list
}

// NotLed are the functions that hand out blocks, or take them back, and could not be led to
// the library: name, and the path of the object.
func (p *Plan) NotLed() (all []string) {
	for _, o := range p.all {
		for _, name := range slices.Compact(o.unled) {
			all = append(all, name+" of "+o.path)
		}
	}
	return all
}
