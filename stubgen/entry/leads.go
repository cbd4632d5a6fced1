package entry

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// lead plans the branches that must lead into the stub: all loops to the entry,
// and those between the bytes of the window.
func (d *detours) lead(p *Plan, window uint64) bool {
	i := int(p.Function)
	for _, from := range d.survey.Loops(i) {
		if !p.Holds(from.Addr) && !d.leadOne(p, from, p.Start) {
			return false
		}
	}
	for _, a := range d.survey.Inside(i) {
		if a.Target >= p.Start+window {
			continue
		}
		if !d.startsInst(p, a.Target) {
			return false // between two instructions, or behind a ret that ends what is moved
		}
		if a.From.Len != 0 && p.Holds(a.From.Addr) {
			continue // in the copy it leads to the copy
		}
		if !d.leadOne(p, a.From, a.Target) {
			return false
		}
	}
	return true
}

// startsInst reports whether one of p's moved instructions starts at addr.
func (d *detours) startsInst(p *Plan, addr uint64) bool {
	for at := p.Start; at < p.Start+uint64(p.Moved); {
		if at == addr {
			return true
		}
		var in x86.Inst
		x86.DecodeAgain(d.obj.Code(at), &in)
		at += uint64(in.Len)
	}
	return false
}

// leadOne plans to lead the branch at from to the copy of what is at to.
func (d *detours) leadOne(p *Plan, from survey.Site, to uint64) bool {
	if from.Len == 0 || d.movedElsewhere(p, from.Addr) {
		return false
	}
	if d.planner.overlapsWindow(from) {
		return d.mayTrap && d.trapBranch(p, from, to)
	}
	l := Lead{Addr: from.Addr, To: to, Len: from.Len, Host: NoHost}
	if !from.Rel8 {
		d.detour.Leads = append(d.detour.Leads, l)
		return true
	}
	j := d.obj.FunctionAt(from.Addr)
	if j < 0 || d.survey.HasGap(j) {
		return false // two bytes of data may look like it
	}
	end := from.Addr + uint64(from.Len)
	const opJmpRel8 = 0xeb
	if d.obj.Code(from.Addr)[0] == opJmpRel8 && from.Len == 2 && d.free.claim(end, end+3) {
		d.took(freeRun{end, end + 3, NoHost})
		l.Wide = true
	} else if d.mayEvict && d.evictBranch(from, to) {
		return true
	} else if at, host, ok := d.island(end); ok {
		l.Island, l.Host = at, host
	} else {
		return d.mayTrap && d.trapBranch(p, from, to)
	}
	d.detour.Leads = append(d.detour.Leads, l)
	return true
}

// island takes an island for a short branch that ends at end. A signal that finds
// a thread on it must show the branch (Islands): Go's handlers for preemption and
// profiles look up what the stack is like by the address, so where islands cannot
// be shown there are none in Go.
func (d *detours) island(end uint64) (at uint64, host int32, ok bool) {
	if d.obj.Go && !d.planner.opt.KnownFaults {
		return 0, NoHost, false
	}
	if at, host, ok = d.free.take(end); ok {
		return at, host, d.took(freeRun{at, at + islandSize, host})
	}
	if d.mayEvict {
		at, ok = d.evict(end)
	}
	return at, NoHost, ok
}

// movedElsewhere reports whether the branch at addr runs in the stub of another
// function than p's.
func (d *detours) movedElsewhere(p *Plan, addr uint64) bool {
	for j := d.obj.FunctionAt(addr); j >= 0; j-- {
		other := &d.plans[j]
		if d.obj.Functions[j].Addr+2*wholeBodyLoop < addr {
			return false
		}
		if other.Counted() && other.Function != p.Function && other.Holds(addr) {
			return true
		}
	}
	return false
}
