package main

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// Kinds of arrivals.
const (
	led       = "call or jump that is led"
	moved     = "direct, from what has moved to an arena"
	movedJcc  = "conditional jump, from there"
	unled     = "direct, left as it is"
	jcc       = "conditional jump"
	short     = "short jump"
	byPLT     = "by the PLT"
	byOwnPLT  = "by the PLT, to a function of its own object"
	pastSlot  = "by the PLT to its own, with closed slots: led"
	bySlot    = "call or jump by a slot of the GOT"
	byPointer = "by pointer"
	byReturn  = "by a return"
	fallsIn   = "falls in from the function before"
	unknown   = "other: signals, threads, the resolver"
)

// object is a file that is mapped, with its plans.
type object struct {
	path    string
	code    *stubgen.Object
	plans   []entry.Plan
	noted   map[uint64]bool // calls that are led, by address
	index   map[uint64]int  // functions, by entry
	plt     [][2]uint64
	got     [][2]uint64
	closed  [][2]uint64       // what is read-only when it is relocated
	offsets map[uint64]uint64 // link-time address minus offset of a segment, by offset of its page
}

type classifier struct {
	all     bool
	objects map[string]*object
	maps    []procmaps.Mapping
}

// at is the object that is mapped at an address, and the link-time address there.
func (c *classifier) at(addr uint64) (*object, uint64) {
	for _, m := range c.maps {
		if addr < m.Start || addr >= m.End {
			continue
		}
		o, ok := c.objects[m.Path]
		if !ok {
			o = load(m.Path)
			c.objects[m.Path] = o
		}
		if o == nil {
			return nil, 0
		}
		return o, addr - m.Start + m.Offset + o.offsets[m.Offset]
	}
	return nil, 0
}

func (c *classifier) name(addr uint64) string {
	o, at := c.at(addr)
	if o == nil {
		return "?"
	}
	name := filepath.Base(o.path)
	if i := o.code.FunctionAt(at); i >= 0 {
		return name + ":" + o.code.Functions[i].Name + "@" + strconv.FormatUint(o.code.Functions[i].Addr, 16)
	}
	return name
}

func (c *classifier) counts(o *object) bool {
	name := filepath.Base(o.path)
	return c.all || !strings.HasPrefix(name, "libc.so") && !strings.HasPrefix(name, "libc-") && !strings.HasPrefix(name, "ld-")
}

// kind is how a step arrives at a counted function's entry; not ok: it does not.
func (c *classifier) kind(s step) (kind string, ok bool) {
	o, to := c.at(s.to)
	if o == nil || strings.Contains(o.path, "valgrind") || !c.counts(o) {
		return "", false
	}
	i, ok := o.index[to]
	if !ok || !o.plans[i].Counted() {
		return "", false
	}
	src, at := c.at(s.from)
	if src == nil {
		return unknown, true
	}
	in, at, found := src.leaves(at, to, src == o)
	if !found {
		return unknown, true
	}
	f := &o.code.Functions[i]
	own := src == o && at-f.Addr < f.Size
	switch in.Kind {
	case x86.Call, x86.Jmp, x86.Jcc, x86.Loop:
		if own && in.Kind != x86.Call {
			return "", false // a loop
		}
		return src.direct(&in, at, c.counts(src)), true
	case x86.CallInd, x86.JmpInd:
		return src.indirect(&in, at, src == o), true
	case x86.Ret:
		return byReturn, true
	}
	return fallsIn, true
}

// leaves finds the instruction of the block at address at by which it goes to link-time
// address to, of the same object if that is so.
func (o *object) leaves(at, to uint64, same bool) (in x86.Inst, pc uint64, ok bool) {
	for range 200 {
		code := o.code.Code(at)
		if x86.Decode(code, &in) != nil {
			return in, at, false
		}
		next := at + uint64(in.Len)
		switch in.Kind {
		case x86.Call, x86.Jmp, x86.Jcc, x86.Loop:
			if same && in.BranchTarget(code, at) == to {
				return in, at, true
			}
			if in.Kind == x86.Call || in.Kind == x86.Jmp {
				return in, at, false
			}
		case x86.CallInd, x86.JmpInd, x86.Ret:
			return in, at, true
		}
		if same && next == to {
			return in, at, true
		}
		at = next
	}
	return in, at, false
}

func (o *object) direct(in *x86.Inst, at uint64, counted bool) string {
	i := o.code.FunctionAt(at)
	switch {
	case i >= 0 && counted && o.plans[i].Counted() && o.plans[i].Holds(at):
		if in.Kind == x86.Jcc {
			return movedJcc
		}
		return moved
	case o.noted[at] && counted:
		return led
	case in.ImmSize != 4:
		return short
	case in.Kind == x86.Jcc:
		return jcc
	}
	return unled
}

func (o *object) indirect(in *x86.Inst, at uint64, own bool) string {
	switch {
	case within(o.plt, at) && own && in.RIPRel() && within(o.closed, in.RIPTarget(o.code.Code(at), at)):
		return pastSlot
	case within(o.plt, at) && own:
		return byOwnPLT
	case within(o.plt, at):
		return byPLT
	}
	if in.RIPRel() && within(o.got, in.RIPTarget(o.code.Code(at), at)) {
		return bySlot
	}
	return byPointer
}

func within(ranges [][2]uint64, at uint64) bool {
	for _, r := range ranges {
		if r[0] <= at && at < r[1] {
			return true
		}
	}
	return false
}

// load plans a file; nil: it is none.
func load(path string) *object {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	scan, err := elfscan.Scan(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil
	}
	o := &object{path: path, code: stubgen.FromFile(scan, content, 0), noted: map[uint64]bool{}, index: map[uint64]int{}, offsets: map[uint64]uint64{}}
	o.code.NoteCalls = !o.code.Go
	s := survey.New(o.code, 0)
	o.plans = entry.Plans(s, entry.Options{KnownFaults: true}, 0, nil)
	for call := range s.Calls() {
		o.noted[call.At] = true
	}
	for i := range o.code.Functions {
		o.index[o.code.Functions[i].Addr] = i
	}
	for _, g := range scan.Segments {
		o.offsets[g.Offset&^4095] = g.Addr - g.Offset
	}
	o.sections(content)
	return o
}

func (o *object) sections(content []byte) {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_RELRO {
			o.closed = append(o.closed, [2]uint64{p.Vaddr, (p.Vaddr + p.Memsz) &^ 4095})
		}
	}
	for _, s := range f.Sections {
		r := [2]uint64{s.Addr, s.Addr + s.Size}
		switch {
		case strings.HasPrefix(s.Name, ".plt"):
			o.plt = append(o.plt, r)
		case strings.HasPrefix(s.Name, ".got"):
			o.got = append(o.got, r)
		}
	}
}
