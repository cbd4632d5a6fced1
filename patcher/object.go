package patcher

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
	"github.com/dynprof/dynprof/stubgen/translate"
)

// object is one ELF object of the target.
type object struct {
	target        target.Target
	bias          uint64 // run address minus ELF virtual address
	path          string
	unnamed       bool // no file has that path any more
	main          bool
	selected      bool
	reason        ledger.Reason      // why none of its functions is in the table
	err           error              // of reading its file
	span          place.Span         // run addresses
	files         []procmaps.Mapping // its mappings of the file
	exec          []procmaps.Mapping // those that are executable
	scan          *elfscan.Object
	code          *stubgen.Object
	sites         []stubgen.KernelSite
	returns       []uint64             // those of them that handlers return to
	signals       []stubgen.SignalSite // if traps are allowed
	transfers     []stubgen.Transfer   // if what is touched is noted
	allocators    []stubgen.Allocator  // if the library is told of blocks,
	led           []bool               // which of them are led to it,
	unled         []string             // and those that cannot be
	survey        *survey.Survey
	keeps         []emit.Keep  // by function, if calls can be redirected
	gs            bool         // it uses the GS segment itself
	plans         []entry.Plan // by function, as the following
	stubs         []emit.Stub
	counters      []uint32           // if it is counted
	numbered      uint32             // how many of them
	first         uint32             // the first of them
	firstOfBlocks uint32             // the first that is a block's
	codes         translate.Codes    // the numbers of its instructions, if it is told which touch memory,
	toldCodes     uint32             // and how many of them nothing else has
	thresholds    []uint32           // unless all have the same
	callSites     []elfscan.CallSite // if blocks are counted,
	copies        *copies            // of its functions,
	leads         bool               // direct calls are led to stubs,
	bySite        bool               // and counted by site,
	direct        []callSite         // and these are they
	byCall        bool               // there is no room for copies, or for sites
	groups        patch.Groups
	hook          uint64 // link-time address of the dynamic linker's function that is replaced
	arena         *arena
	taken         bool             // plans were taken back for want of room
	patches       int              // at most, with the site's; 0: not known yet
	id            *target.Identity // of its file, if plans are cached,
	content       uint64           // the sum of that, if its times tell nothing,
	slot          int              // and the one that its arena lies in,
	has           [slots + 1]bool  // those for which there are plans of earlier starts: none need be kept,
	cached        *plancache.Plan  // and that of an earlier start, in place of all that would be found out
}

// readObjects turns what the dynamic linker lists into objects, the executable
// first, and reads and plans each. Ours is left out.
func (p *Plan) readObjects() {
	listed := p.Objects
	if p.Late {
		listed = locate(listed, p.maps)
	}
	for i, l := range listed {
		if !l.Self {
			p.all = append(p.all, p.newObject(l, i == 0 && !p.Late))
		}
	}
	p.findCached()
	p.how.traps = p.Options.On[setting.AllowTraps] && !p.how.shared && p.findSignals()
	// The executable, mostly the largest, goes first; meanwhile another
	// goroutine takes the libraries.
	for _, o := range p.all {
		if o.cached == nil && o.selected {
			p.progress.expect(o)
		}
	}
	parallel.Ranges(len(p.all), 1, 0, func(_, first, _ int) {
		if p.all[first].cached == nil {
			p.planObject(p.all[first])
		}
	})
}

// planObject reads an object and plans it.
func (p *Plan) planObject(o *object) {
	if err := o.read(p.maps, p.how.debugged, p.Options.On[setting.Blocks], p.Static, p.Static && !p.Early); err != nil {
		o.reason, o.err = ledger.ReasonNoFile, err
		if o.code == nil && len(o.signals) > 0 {
			o.code = &stubgen.Object{Bias: o.bias, Text: o.text()}
		}
	}
	o.findHook(p.LinkerHook)
	o.findAllocators(p)
	o.findTransfers(p)
	if (p.Late || p.Early) && o.scan != nil && o.scan.TextRel {
		o.reason = ledger.ReasonUnsupported // its text is not what it will be
	}
	if o.scan != nil && o.scan.Mono {
		o.reason = ledger.ReasonUnsupported // its run time reads its calls, and aborts where they lead to stubs
	}
	p.plan(o)
	o.findReturns(p)
	if !p.Static { // else they are the program's
		o.leaveMapping(p.LinkerHook)
	}
	o.gs = o.usesGS()
}

// unreadable is why no selected object could be read, nil if some could or none
// was selected.
func unreadable(all []*object) (err error) {
	for _, o := range all {
		if o.selected && o.err == nil {
			return nil
		}
		if o.selected && err == nil {
			err = fmt.Errorf("cannot read what is loaded: %w", o.err)
		}
	}
	return err
}

func (p *Plan) newObject(l target.Loaded, main bool) *object {
	o := &object{target: p.target, bias: l.Bias, main: main, span: l.Span}
	for _, m := range from(p.maps, l.Span.Low) {
		if m.Start >= l.Span.High {
			break
		}
		if m.Inode == 0 {
			continue
		}
		if o.path == "" {
			o.path, o.unnamed = strings.CutSuffix(m.Path, deleted)
		}
		o.files = append(o.files, m)
		if m.Prot&procmaps.ProtExec != 0 {
			o.exec = append(o.exec, m)
		}
	}
	if o.path == "" && p.Late { // nobody knows where it lies: it is named all the same
		o.path, o.unnamed = l.Name, true
	}
	o.selected = p.Options.selects(o, l.Name)
	return o
}

// selects applies --objects. Without it everything counts but libc and the
// dynamic linker, which every program spends its time in.
func (c *Options) selects(o *object, linkName string) bool {
	if c.Objects != nil {
		return c.Objects.Match(o.path, o.main)
	}
	name := filepath.Base(linkName)
	return o.main || name != "libc.so.6" && !strings.HasPrefix(name, "ld-linux") && !strings.HasPrefix(name, "ld-musl")
}

// read makes the object's memory readable to the planner and scans its file.
// Code is taken from memory: it may have been relocated. But for what others have
// changed (changed.go). Of an object that is
// not selected only the kernel sites matter.
func (o *object) read(maps []procmaps.Mapping, debugged, blocks, static, runs bool) error {
	if !o.selected {
		o.code = &stubgen.Object{Bias: o.bias, Text: o.text()}
		o.sites = survey.FindKernelSites(o.code.Text)
		o.leaveData(o.dataInText(maps))
		return nil
	}
	f, err := o.open(maps)
	if err != nil {
		return err
	}
	defer f.Close()
	o.leaveData(o.scan.DataInText)
	o.code = &stubgen.Object{
		Bias:         o.bias,
		Absolute:     o.scan.Type == elf.ET_EXEC,
		Go:           o.scan.Go,
		Given:        o.scan.Go && static,
		Functions:    o.scan.Functions,
		Ranges:       o.scan.Code,
		DataInText:   o.scan.DataInText,
		CodePointers: o.scan.CodePointers,
		LandingPads:  o.scan.LandingPads,
		Restartable:  o.scan.Restartable,
		SignalSites:  o.signals,
	}
	for _, s := range o.scan.Segments {
		at := s.Addr + o.bias
		if s.FileSize == 0 || !readable(maps, at, at+s.FileSize) {
			continue
		}
		segment := stubgen.Segment{Addr: s.Addr, Code: o.target.View(at, int(s.FileSize))}
		if s.Flags&elf.PF_X != 0 && !o.scan.TextRel {
			if segment.Code, err = o.keepChanged(f, &s, at, segment.Code); err != nil {
				return err
			}
		}
		if s.Flags&elf.PF_X != 0 {
			o.code.Text = append(o.code.Text, segment)
		} else {
			o.code.Data = append(o.code.Data, segment)
		}
	}
	if debugged {
		o.keepLines(f)
	}
	if o.code.Given && runs {
		if o.code.Held, err = elfscan.Preemptible(f, f.Size()); err != nil {
			return err
		}
	}
	if blocks {
		if o.callSites, err = elfscan.CallSites(f, f.Size()); err != nil {
			return err
		}
	}
	return nil
}

// dataInText is what the file of an object that is not selected says is data among its code.
// It is read only if it has segments of both, as the one with the headers shows.
func (o *object) dataInText(maps []procmaps.Mapping) []elfscan.Range {
	if len(o.sites)+len(o.signals)+len(o.transfers) == 0 || len(o.exec) == 0 || o.exec[0].Offset != 0 {
		return nil
	}
	f, err := o.open(maps)
	if err != nil {
		return nil
	}
	defer f.Close()
	defer func() { o.scan = nil }()
	return o.scan.DataInText
}

// leaveData drops sites that lie in data, which looks like them.
func (o *object) leaveData(data []elfscan.Range) {
	lies := func(low, high uint64) bool {
		return slices.ContainsFunc(data, func(r elfscan.Range) bool { return low < r.High && r.Low < high })
	}
	o.sites = slices.DeleteFunc(o.sites, func(s stubgen.KernelSite) bool { return lies(s.Addr, s.End()) })
	o.signals = slices.DeleteFunc(o.signals, func(s stubgen.SignalSite) bool { return lies(s.Addr, s.End()) })
	o.transfers = slices.DeleteFunc(o.transfers, func(t stubgen.Transfer) bool { return lies(t.Addr, t.End()) })
}

// leaveMapping drops the dynamic linker's sites that map memory: what it unmaps is
// closed, and nobody else uses them. Its function hook is in it.
func (o *object) leaveMapping(hook uint64) {
	if hook >= o.span.Low && hook < o.span.High {
		o.sites = slices.DeleteFunc(o.sites, func(s stubgen.KernelSite) bool { return survey.OnlyMaps(&s) })
	}
}

// text is the object's executable memory, at link-time addresses.
func (o *object) text() (all []stubgen.Segment) {
	for _, m := range o.exec {
		if m.Prot&procmaps.ProtRead != 0 {
			all = append(all, stubgen.Segment{Addr: m.Start - o.bias, Code: o.target.View(m.Start, int(m.End-m.Start))})
		}
	}
	return all
}

// sameFile compares the start of the first segment, mostly ELF header, program
// headers and build-id, with memory: the file may have been replaced since.
func (o *object) sameFile(f io.ReaderAt, maps []procmaps.Mapping) error {
	s := o.scan.Segments[0]
	b := make([]byte, min(s.FileSize, 1024))
	if _, err := f.ReadAt(b, int64(s.Offset)); err != nil {
		return err
	}
	at := s.Addr + o.bias
	if !readable(maps, at, at+uint64(len(b))) || !bytes.Equal(b, o.target.View(at, len(b))) {
		return fmt.Errorf("%s is not the file that was loaded", o.path)
	}
	return nil
}

// readable reports whether readable mappings cover [low, high).
func readable(maps []procmaps.Mapping, low, high uint64) bool {
	for _, m := range from(maps, low) {
		if low >= high || m.Start > low || m.Prot&procmaps.ProtRead == 0 {
			break
		}
		low = m.End
	}
	return low >= high
}

// from is what of maps, which are in order, does not end before address at.
func from(maps []procmaps.Mapping, at uint64) []procmaps.Mapping {
	return maps[sort.Search(len(maps), func(i int) bool { return maps[i].End > at }):]
}
