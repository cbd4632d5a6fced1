package patcher

import (
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// findReturns finds what signal handlers return to, and adds it to the object's kernel sites, if
// the library takes these returns (libdynprof/resident/signals/kept.c). What unwinders know by
// its bytes, as no frame information says that it is a signal's frame, stays as it is.
func (o *object) findReturns(p *Plan) {
	if p.Entries.Return == 0 || o.code == nil || o.err != nil {
		return
	}
	found := survey.FindReturnSites(o.code.Text)
	if len(found) == 0 {
		return
	}
	scan := o.scan
	defer func() { o.scan = scan }()
	f, err := o.open(p.maps)
	if err != nil {
		return // they stay as they are
	}
	defer f.Close()
	frames, err := elfscan.SignalFrames(f, f.Size())
	if err != nil {
		return
	}
	lies := func(s stubgen.KernelSite, r elfscan.Range) bool { return r.Low <= s.Addr && s.End() <= r.High }
	for _, s := range found {
		if !slices.ContainsFunc(frames, func(r elfscan.Range) bool { return lies(s, r) }) {
			continue
		}
		overlaps := func(k stubgen.KernelSite) bool { return k.Addr < s.End() && s.Addr < k.End() }
		o.sites = append(slices.DeleteFunc(o.sites, overlaps), s)
		o.returns = append(o.returns, s.Addr)
	}
}

// Returns is where signal handlers return to, of what is patched.
func (p *Plan) Returns() (all []uint64) {
	for _, o := range p.all {
		for _, s := range o.sites {
			if o.arena != nil && slices.Contains(o.returns, s.Addr) {
				all = append(all, uint64(o.code.Run(s.Addr)))
			}
		}
	}
	return all
}

// slowOf is where the thunk of a kernel site leads to.
func (p *Plan) slowOf(o *object, s *stubgen.KernelSite) uint64 {
	if slices.Contains(o.returns, s.Addr) {
		return p.Entries.Return
	}
	return p.Entries.Site
}
