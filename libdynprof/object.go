package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

// object is one ELF object of the target.
type object struct {
	path     string
	main     bool
	selected bool
	reason   ledger.Reason // why none of its functions is in the table
	span     patcher.Span  // run addresses
	exec     []mem.Mapping // its executable mappings
	scan     *elfscan.Object
	code     *stubgen.Object
	sites    []stubgen.CloneSite
	plans    []stubgen.Plan
	stubs    []stubgen.Stub // by function
	counters []uint32       // by function, if it is counted
	first    uint32         // the first of them
	arena    *arena
}

// objects turns what the dynamic linker lists into objects, the executable
// first. Ours is left out.
func objects(in *input, maps []mem.Mapping, choice *config) []*object {
	var all []*object
	for i, l := range in.objects {
		if l.self {
			continue
		}
		o := &object{main: i == 0, span: l.span}
		for _, m := range maps {
			if m.End <= l.span.Low || m.Start >= l.span.High || m.Inode == 0 {
				continue
			}
			if o.path == "" {
				o.path = m.Path
			}
			if m.Prot&mem.ProtExec != 0 {
				o.exec = append(o.exec, m)
			}
		}
		o.selected = choice.selects(o, l.name)
		if err := o.read(l.bias, maps); err != nil {
			o.reason = ledger.ReasonNoFile
		}
		all = append(all, o)
	}
	return all
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

// read scans the object's file and makes its memory readable to the planner.
// Code is taken from memory: it may have been relocated. An object that is not
// selected is read only if it may make threads.
func (o *object) read(bias uint64, maps []mem.Mapping) error {
	if !o.selected && !o.mayClone() {
		return nil
	}
	f, err := os.Open(o.path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if o.scan, err = elfscan.Scan(f, fi.Size()); err != nil {
		return err
	}
	if err := o.sameFile(f, bias, maps); err != nil {
		return err
	}
	o.code = &stubgen.Object{Bias: bias, Absolute: o.scan.Type == elf.ET_EXEC, Functions: o.scan.Functions, CodePointers: o.scan.CodePointers}
	for _, s := range o.scan.Segments {
		at := s.Addr + bias
		if s.FileSize == 0 || !readable(maps, at, at+s.FileSize) {
			continue
		}
		segment := stubgen.Segment{Addr: s.Addr, Code: mem.View(at, int(s.FileSize))}
		if s.Flags&elf.PF_X != 0 {
			o.code.Text = append(o.code.Text, segment)
		} else {
			o.code.Data = append(o.code.Data, segment)
		}
	}
	o.sites = stubgen.FindCloneSites(o.code)
	return nil
}

// mayClone reports whether its text holds the bytes of a clone site.
func (o *object) mayClone() bool {
	for _, m := range o.exec {
		if m.Prot&mem.ProtRead != 0 && stubgen.MayClone(mem.View(m.Start, int(m.End-m.Start))) {
			return true
		}
	}
	return false
}

// sameFile compares the start of the first segment, mostly ELF header, program
// headers and build-id, with memory: the file may have been replaced since.
func (o *object) sameFile(f *os.File, bias uint64, maps []mem.Mapping) error {
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
func readable(maps []mem.Mapping, low, high uint64) bool {
	for _, m := range maps {
		if m.Prot&mem.ProtRead != 0 && m.Start <= low && low < m.End {
			low = m.End
		}
	}
	return low >= high
}
