package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unsafe"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

// object is one ELF object of the target.
type object struct {
	path       string
	unnamed    bool // no file has that path any more
	main       bool
	selected   bool
	reason     ledger.Reason      // why none of its functions is in the table
	err        error              // of reading its file
	span       patcher.Span       // run addresses
	files      []procmaps.Mapping // its mappings of the file
	exec       []procmaps.Mapping // those that are executable
	scan       *elfscan.Object
	code       *stubgen.Object
	sites      []stubgen.KernelSite
	signals    []stubgen.SignalSite // if traps are allowed
	survey     *stubgen.Survey
	keeps      []stubgen.Keep // by function, if calls can be redirected
	gs         bool           // it uses the GS segment itself
	plans      []stubgen.Plan // by function, as the following
	stubs      []stubgen.Stub
	counters   []uint32 // if it is counted
	first      uint32   // the first of them
	thresholds []uint32 // unless all have the same
	groups     patcher.Groups
	hook       uint64 // link-time address of the dynamic linker's function that is replaced
	arena      *arena
}

// objects turns what the dynamic linker lists into objects, the executable
// first, and reads and plans each. Ours is left out.
func objects(in *input, maps []procmaps.Mapping, choice *config) []*object {
	var all []*object
	var listed []loaded
	for i, l := range in.objects {
		if !l.self {
			all = append(all, newObject(l, i == 0 && !in.late, maps, choice))
			listed = append(listed, l)
		}
	}
	if choice.allowTraps {
		choice.allowTraps = !in.shared && findSignals(in, all, listed)
	}
	// The executable, mostly the largest, goes first; meanwhile another
	// goroutine takes the libraries.
	parallel.Ranges(len(all), 1, 0, func(_, first, _ int) {
		o := all[first]
		if err := o.read(listed[first].bias, maps, in.debugged); err != nil {
			o.reason, o.err = ledger.ReasonNoFile, err
			if o.code == nil && len(o.signals) > 0 {
				o.code = &stubgen.Object{Bias: listed[first].bias, Text: o.text(listed[first].bias)}
			}
		}
		o.findHook(in.brk, listed[first].bias)
		if in.late && o.scan != nil && o.scan.TextRel {
			o.reason = ledger.ReasonUnsupported // its text is not what it will be
		}
		o.plan(choice, maps, in)
		o.gs = o.usesGS(listed[first].bias)
	})
	return all
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

func newObject(l loaded, main bool, maps []procmaps.Mapping, choice *config) *object {
	o := &object{main: main, span: l.span}
	for _, m := range from(maps, l.span.Low) {
		if m.Start >= l.span.High {
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
	o.selected = choice.selects(o, l.name)
	return o
}

// selects applies --objects. Without it everything counts but libc and the
// dynamic linker, which every program spends its time in.
func (c *config) selects(o *object, linkName string) bool {
	if c.objects != nil {
		return c.objects.Match(o.path, o.main)
	}
	name := filepath.Base(linkName)
	return o.main || name != "libc.so.6" && !strings.HasPrefix(name, "ld-linux")
}

// read makes the object's memory readable to the planner and scans its file.
// Code is taken from memory: it may have been relocated. But for what others have
// changed (changed.go). Of an object that is
// not selected only the kernel sites matter.
func (o *object) read(bias uint64, maps []procmaps.Mapping, debugged bool) error {
	if !o.selected {
		o.code = &stubgen.Object{Bias: bias, Text: o.text(bias)}
		o.sites = stubgen.FindKernelSites(o.code.Text)
		return nil
	}
	f, size, err := o.open(bias, maps)
	if err != nil {
		return err
	}
	defer f.Close()
	o.code = &stubgen.Object{
		Bias:         bias,
		Absolute:     o.scan.Type == elf.ET_EXEC,
		Go:           o.scan.Go,
		Functions:    o.scan.Functions,
		CodePointers: o.scan.CodePointers,
		LandingPads:  o.scan.LandingPads,
		Restartable:  o.scan.Restartable,
		SignalSites:  o.signals,
	}
	for _, s := range o.scan.Segments {
		at := s.Addr + bias
		if s.FileSize == 0 || !readable(maps, at, at+s.FileSize) {
			continue
		}
		segment := stubgen.Segment{Addr: s.Addr, Code: mem.View(at, int(s.FileSize))}
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
		o.keepLines(f, size)
	}
	return nil
}

// mapped is a file that is mapped as well: its strings take no memory.
type mapped struct {
	*os.File
	bytes []byte
}

func (m mapped) String(off, size uint64) string {
	return unsafe.String(unsafe.SliceData(m.bytes[off:off+size]), size)
}

// ReadAt is a beat, too: a large file is read for long.
func (m mapped) ReadAt(b []byte, off int64) (int, error) {
	beat()
	return m.File.ReadAt(b, off)
}

// reader reads f, of size bytes. The mapping lasts as long as the process.
func reader(f *os.File, size int64) io.ReaderAt {
	b, err := mem.MapFile(f, size)
	if err != nil {
		return f
	}
	return mapped{f, b}
}

// text is the object's executable memory, at link-time addresses.
func (o *object) text(bias uint64) (all []stubgen.Segment) {
	for _, m := range o.exec {
		if m.Prot&procmaps.ProtRead != 0 {
			all = append(all, stubgen.Segment{Addr: m.Start - bias, Code: mem.View(m.Start, int(m.End-m.Start))})
		}
	}
	return all
}

// sameFile compares the start of the first segment, mostly ELF header, program
// headers and build-id, with memory: the file may have been replaced since.
func (o *object) sameFile(f io.ReaderAt, bias uint64, maps []procmaps.Mapping) error {
	s := o.scan.Segments[0]
	b := make([]byte, min(s.FileSize, 1024))
	if _, err := f.ReadAt(b, int64(s.Offset)); err != nil {
		return err
	}
	at := s.Addr + bias
	if !readable(maps, at, at+uint64(len(b))) || !bytes.Equal(b, mem.View(at, len(b))) {
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
