package entry

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Where no jump finds room an int3 does: one byte, whose SIGTRAP the library's
// handler (libdynprof/resident/signals/traps.c) answers by going on in the stub. It costs some
// microseconds, so it is for those who ask, and comes when all else has failed.

// trapSize is the length of int3.
const trapSize = 1

// mayBeTrapped reports whether a function that was refused for that reason may
// be served by int3: it has no room, or what is wrong lies behind its first
// instruction. All others stay:
//
//   - undecodable: its bytes may be data, which somebody reads;
//   - may-fault: the moved instruction would fault at an address that the Go
//     runtime does not know, just as in a longer window;
//   - inside-instruction, not-mapped, breakpoint: there is no entry;
//   - what concerns the whole object, or was not asked for.
func mayBeTrapped(why ledger.Reason) bool {
	return wantsRoom(why) || why == ledger.ReasonUnsupported
}

// trapAll is the third round: it takes what the second has left.
func (d *detours) trapAll() {
	d.mayEvict, d.mayTrap = false, true
	for i := range d.plans {
		if mayBeTrapped(d.plans[i].Reason) {
			d.trap(i)
		}
	}
}

// trap tries to count function i: with a jump or a hop at its entry, if only a
// loop's branch is in the way, which is a trap then; else by a trap at the
// entry.
func (d *detours) trap(i int) {
	for _, window := range []uint64{stubgen.WindowSize, hopSize, trapSize} {
		if d.try(i, window) {
			return
		}
	}
}

// trapBranch makes the branch at from, which must lead to the copy of what is
// at to, a trap, and moves it behind the stub. Only its first byte changes, so
// it does not matter who arrives nearby.
func (d *detours) trapBranch(p *Plan, from survey.Site, to uint64) bool {
	j := d.obj.FunctionAt(from.Addr)
	if to != p.Start || j < 0 || from.Addr-p.Start < d.window || d.survey.HasGap(j) || d.overlapsOtherWindow(p, from.Addr) {
		return false
	}
	var in x86.Inst
	code := d.obj.Code(from.Addr)
	x86.DecodeAgain(code, &in)
	if !emit.Movable(&in, code) {
		return false
	}
	size := d.movedAlone(&in, code, from.Addr)
	e := emit.Eviction{Addr: from.Addr, To: to, Len: in.Len, Size: uint8(size), Trap: true}
	if d.overlapsEvicted(e) {
		return false
	}
	d.detour.Evicted = append(d.detour.Evicted, e)
	return true
}

// overlapsOtherWindow reports whether addr lies in the window of another
// function that is patched.
func (d *detours) overlapsOtherWindow(p *Plan, addr uint64) bool {
	for j := d.obj.FunctionAt(addr); j >= 0 && d.obj.Functions[j].Addr+stubgen.MaxHead+stubgen.WindowSize > addr; j-- {
		if other := &d.plans[j]; other.Counted() && other.Function != p.Function && addr-other.Start < stubgen.WindowSize {
			return true
		}
	}
	return false
}
