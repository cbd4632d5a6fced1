package patcher

import (
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// patchedText is a run of pages of an object with its patches, in address order.
type patchedText struct {
	*object
	patches []patch.Patch
	calls   []patch.Call // once they are all known
	kept    *patch.Undos // in place of both, if the object's plan is an earlier start's
}

// leadCalls adds the calls in the text of functions that are counted. Those that
// find no room go by way of the entry, as all would without it.
func (p *patchedText) leadCalls(list []patch.Call, t *text) []patch.Call {
	if p.survey == nil || !p.leads {
		return list
	}
	next, writable, ahead := 0, slices.ContainsFunc(p.exec, isWritable), callsAhead{p.direct}
	for c, sure := range p.survey.NotedCalls() {
		site := ahead.of(c)
		at, from := p.code.Run(c.At), &p.plans[c.From]
		dead := from.Counted() && from.Holds(c.At) // what runs is the copy in the stub
		if !sure || dead || !p.plans[c.To].Counted() || uint64(at) < t.Start || uint64(at)+survey.CallSize > t.End || writable && p.isOpen(c.To) {
			continue
		}
		if len(list) == cap(list) {
			return list
		}
		next = p.behind(next, at)
		var near *patch.Patch
		if next < len(p.patches) {
			near = &p.patches[next]
		}
		stub := p.stubs[c.To].At
		if site != nil {
			stub = x86.RunAddr(p.arena.at).Add(int(site.stub))
		}
		if call, ok := p.groups.LeadCall(p.code, c, stub, x86.RunAddr(t.Start), near); ok {
			list = append(list, call)
			if site != nil {
				site.led = true
			}
		}
	}
	return list
}

// closed is what of the object's data was made read-only when it was relocated (RELRO).
func (o *object) closed(maps []procmaps.Mapping) (list []elfscan.Range) {
	for _, m := range from(maps, o.span.Low) {
		if m.Start >= o.span.High {
			break
		}
		if m.Prot&(procmaps.ProtRead|procmaps.ProtWrite|procmaps.ProtExec) == procmaps.ProtRead {
			list = append(list, elfscan.Range{Low: m.Start - o.bias, High: m.End - o.bias})
		}
	}
	return list
}

func isWritable(m procmaps.Mapping) bool { return m.Prot&procmaps.ProtWrite != 0 }

// isOpen is whether the program can write over the entry of function i at any
// time, and nobody sees it: calls have to meet what it writes there.
func (p *patchedText) isOpen(i int32) bool {
	at := uint64(p.code.Run(p.code.Functions[i].Addr))
	return slices.ContainsFunc(p.exec, func(m procmaps.Mapping) bool { return isWritable(m) && m.Start <= at && at < m.End })
}

// behind is the first patch that ends behind at; from where it is looked for, calls
// are mostly in order.
func (p *patchedText) behind(from int, at x86.RunAddr) int {
	end := func(i int) x86.RunAddr { return p.patches[i].At + x86.RunAddr(p.patches[i].Len) }
	if from > 0 && end(from-1) > at {
		from, _ = slices.BinarySearchFunc(p.patches, at, func(q patch.Patch, at x86.RunAddr) int {
			if q.At+x86.RunAddr(q.Len) > at {
				return 1
			}
			return -1
		})
	}
	for from < len(p.patches) && end(from) <= at {
		from++
	}
	return from
}
