package remote

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// Auxv is an auxiliary vector: values by type (getauxval(3)).
type Auxv map[uint64]uint64

// Types of entries.
const (
	AtPhdr    = 3
	AtPhent   = 4
	AtPhnum   = 5
	AtEntry   = 9
	AtSysinfo = 33 // AT_SYSINFO_EHDR: where the vdso is
)

// ParseAuxv reads /proc/PID/auxv.
func ParseAuxv(b []byte) Auxv {
	const entry = 16
	all := Auxv{}
	for ; len(b) >= entry; b = b[entry:] {
		if kind := binary.LittleEndian.Uint64(b); kind != 0 {
			all[kind] = binary.LittleEndian.Uint64(b[8:])
		}
	}
	return all
}

// Linker is what a dynamic linker says (<link.h>), or, of a program that has none, what is
// found out without.
type Linker struct {
	Static  bool   // there is none
	RDebug  uint64 // where its struct r_debug is
	Hook    uint64 // the function that is called when the list has changed
	Objects []target.Loaded
	// Tails is what is behind the code of each object on its last page: nobody's.
	Tails []place.Span
}

// ErrLoading is the error of FindLinker that is to be tried again: the list changes, or is of
// other libraries than the mappings.
var ErrLoading = errors.New("it loads or unloads libraries")

const pageSize = 4096

// OwnFiles is how the names of files begin that hotspots attach maps in a process, there.
const OwnFiles = "/memfd:dynprof-"

// memory reads a process's memory.
type memory struct{ io.ReaderAt }

func (m memory) bytes(at, n uint64) ([]byte, error) {
	const most = 1 << 20 // program headers, names: nobody has more
	if n > most {
		return nil, fmt.Errorf("%d bytes at %#x are too many", n, at)
	}
	b := make([]byte, n)
	_, err := m.ReadAt(b, int64(at))
	if err != nil {
		return nil, fmt.Errorf("its memory at %#x cannot be read: %w", at, err)
	}
	return b, nil
}

// text is a NUL-terminated string.
func (m memory) text(at uint64) (string, error) {
	const piece, most = 64, 4096
	var all []byte
	for len(all) < most {
		n := piece - (at+uint64(len(all)))%piece // none reaches into the next page before it must
		b, err := m.bytes(at+uint64(len(all)), n)
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(all, b[:i]...)), nil
		}
		all = append(all, b...)
	}
	return "", fmt.Errorf("the name at %#x is longer than a path may be", at)
}

// headers are an object's program headers.
type headers []elf.Prog64

func (m memory) headers(at, entry, count uint64) (headers, error) {
	const size = 56
	if entry != size || count == 0 {
		return nil, fmt.Errorf("its program headers are not understood: %d of %d bytes", count, entry)
	}
	b, err := m.bytes(at, entry*count)
	if err != nil {
		return nil, err
	}
	all := make(headers, count)
	return all, binary.Read(bytes.NewReader(b), binary.LittleEndian, []elf.Prog64(all))
}

func (h headers) find(kind elf.ProgType) *elf.Prog64 {
	for i := range h {
		if elf.ProgType(h[i].Type) == kind {
			return &h[i]
		}
	}
	return nil
}

// span is where the segments lie.
func (h headers) span(bias uint64) place.Span {
	s := place.Span{Low: ^uint64(0)}
	for _, p := range h {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			s.Low, s.High = min(s.Low, bias+p.Vaddr), max(s.High, bias+p.Vaddr+p.Memsz)
		}
	}
	return s
}

// tails are the ends of the last pages of code.
func (h headers) tails(bias uint64) (all []place.Span) {
	for _, p := range h {
		if elf.ProgType(p.Type) == elf.PT_LOAD && elf.ProgFlag(p.Flags)&elf.PF_X != 0 {
			end := bias + p.Vaddr + p.Memsz
			all = append(all, place.Span{Low: end, High: (end + pageSize - 1) &^ (pageSize - 1)})
		}
	}
	return all
}

// Begun is what there is of a program that was just executed: its Tails, and whether it is
// Static, or a dynamic linker runs first.
func Begun(r io.ReaderAt, auxv Auxv, maps []procmaps.Mapping) (*Linker, error) {
	m := memory{r}
	own, bias, err := m.program(auxv, maps)
	if err != nil {
		return nil, err
	}
	return &Linker{Static: own.find(elf.PT_INTERP) == nil, Tails: append(own.tails(bias), m.behind(auxv[AtSysinfo], maps)...)}, nil
}

// program is the headers of the program itself, and where it lies.
func (m memory) program(auxv Auxv, maps []procmaps.Mapping) (own headers, bias uint64, err error) {
	if own, err = m.headers(auxv[AtPhdr], auxv[AtPhent], auxv[AtPhnum]); err == nil {
		bias, err = own.bias(auxv[AtPhdr], maps)
	}
	return own, bias, err
}

// FindLinker reads what the dynamic linker of a process says of the objects that are loaded.
func FindLinker(r io.ReaderAt, auxv Auxv, maps []procmaps.Mapping) (*Linker, error) {
	m := memory{r}
	own, bias, err := m.program(auxv, maps)
	if err != nil {
		return nil, err
	}
	vdso := m.behind(auxv[AtSysinfo], maps)
	if own.find(elf.PT_INTERP) == nil {
		l := m.static(own, bias, maps)
		l.Tails = append(l.Tails, vdso...)
		return l, nil
	}
	dynamic := own.find(elf.PT_DYNAMIC)
	if dynamic == nil {
		return nil, errNoDebug
	}
	l := &Linker{}
	if l.RDebug, err = m.rDebug(bias+dynamic.Vaddr, dynamic.Memsz); err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	for space := l.RDebug; space != 0; {
		if seen[space] {
			return nil, errors.New("the dynamic linker's list of namespaces has no end")
		}
		seen[space] = true
		next, err := m.namespace(space, l, auxv, maps, seen)
		if err != nil && !errors.Is(err, ErrLoading) { // since the mappings were read
			err = fmt.Errorf("%w: %w", ErrLoading, err)
		}
		if err != nil {
			return nil, err
		}
		space = next
	}
	if len(l.Objects) == 0 || l.Objects[0].Bias != bias {
		return nil, errors.New("the dynamic linker's list does not begin with the program")
	}
	l.Objects[0].Span, l.Tails = own.span(bias), slices.Concat(l.Tails, own.tails(bias), vdso)
	return l, nil
}

// bias is where the program lies whose headers these are: run address minus link-time address.
// Static ones mostly do not say where their headers are; the segment that has them does.
func (h headers) bias(at uint64, maps []procmaps.Mapping) (uint64, error) {
	if self := h.find(elf.PT_PHDR); self != nil {
		return at - self.Vaddr, nil
	}
	for _, m := range maps {
		if at < m.Start || at >= m.End || m.Inode == 0 {
			continue
		}
		offset := at - m.Start + m.Offset
		for _, p := range h {
			if elf.ProgType(p.Type) == elf.PT_LOAD && offset-p.Off < p.Filesz {
				return at - (p.Vaddr + offset - p.Off), nil
			}
		}
	}
	return 0, errors.New("the program headers do not say where they are")
}

// static lists what lies in a process without a dynamic linker: the program, and what code of
// others it has mapped by itself, as libraries for names of users and hosts.
func (m memory) static(own headers, bias uint64, maps []procmaps.Mapping) *Linker {
	l := &Linker{Static: true, Objects: []target.Loaded{{Bias: bias, Span: own.span(bias)}}, Tails: own.tails(bias)}
	for i := range maps {
		first := &maps[i]
		if main := l.Objects[0].Span; first.Inode == 0 || first.Offset != 0 || strings.HasPrefix(first.Path, OwnFiles) || first.Start < main.High && first.End > main.Low {
			continue
		}
		h, err := m.ofFile(first.Start)
		if err != nil || h.find(elf.PT_INTERP) != nil {
			continue // it is data
		}
		o := target.Loaded{Name: first.Path, Bias: first.Start - h.span(0).Low&^(pageSize-1)}
		o.Span = h.span(o.Bias)
		if slices.ContainsFunc(maps[i:], func(p procmaps.Mapping) bool {
			return p.Start < o.Span.High && p.Inode == first.Inode && p.Path == first.Path && p.Prot&procmaps.ProtExec != 0
		}) {
			l.Objects, l.Tails = append(l.Objects, o), append(l.Tails, h.tails(o.Bias)...)
		}
	}
	return l
}

// behind is what is behind the kernel's code in a process, to the end of its last page.
func (m memory) behind(vdso uint64, maps []procmaps.Mapping) []place.Span {
	for i := range maps {
		if vdso == 0 || maps[i].Start != vdso {
			continue
		}
		b, err := m.bytes(vdso, 64)
		if err != nil {
			break
		}
		le := binary.LittleEndian
		end := vdso + le.Uint64(b[40:]) + uint64(le.Uint16(b[58:]))*uint64(le.Uint16(b[60:])) // the section headers come last
		if end > vdso && end < maps[i].End {
			return []place.Span{{Low: end, High: maps[i].End}}
		}
	}
	return nil
}

// rDebug is what DT_DEBUG says.
func (m memory) rDebug(at, size uint64) (uint64, error) {
	b, err := m.bytes(at, size)
	if err != nil {
		return 0, err
	}
	for ; len(b) >= 16; b = b[16:] {
		switch elf.DynTag(binary.LittleEndian.Uint64(b)) {
		case elf.DT_NULL:
			return 0, errNoDebug
		case elf.DT_DEBUG:
			if r := binary.LittleEndian.Uint64(b[8:]); r != 0 {
				return r, nil
			}
			return 0, ErrLoading // it has just begun
		}
	}
	return 0, errNoDebug
}

var errNoDebug = errors.New("the program does not lead to the dynamic linker's list (DT_DEBUG)")

// namespace reads one list (dlmopen(3)), and where the next one is.
func (m memory) namespace(at uint64, l *Linker, auxv Auxv, maps []procmaps.Mapping, seen map[uint64]bool) (next uint64, err error) {
	b, err := m.bytes(at, 48) // struct r_debug_extended, of which older ones lack the last word
	if err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(b[24:]) != 0 { // r_state: RT_CONSISTENT
		return 0, ErrLoading
	}
	if at == l.RDebug {
		l.Hook = le.Uint64(b[16:])
	}
	for o := le.Uint64(b[8:]); o != 0; {
		if seen[o] {
			return 0, errors.New("the dynamic linker's list of objects has no end")
		}
		seen[o] = true
		e, err := m.bytes(o, 32) // struct link_map: l_addr, l_name, l_ld, l_next
		if err != nil {
			return 0, err
		}
		if err := m.object(e, l, auxv, maps); err != nil {
			return 0, err
		}
		o = le.Uint64(e[24:])
	}
	if version := le.Uint32(b); version >= 2 {
		next = le.Uint64(b[40:])
	}
	return next, nil
}

func (m memory) object(e []byte, l *Linker, auxv Auxv, maps []procmaps.Mapping) error {
	le := binary.LittleEndian
	o := target.Loaded{Bias: le.Uint64(e)}
	var err error
	if o.Name, err = m.text(le.Uint64(e[8:])); err != nil {
		return err
	}
	if vdso := auxv[AtSysinfo]; vdso != 0 && o.Bias == vdso {
		return nil
	}
	if len(l.Objects) > 0 {
		h, err := m.located(le.Uint64(e[16:]), maps)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		o.Span, l.Tails = h.span(o.Bias), append(l.Tails, h.tails(o.Bias)...)
	}
	l.Objects = append(l.Objects, o)
	return nil
}

// located finds the headers of a library by its dynamic section: the mappings of its file
// begin with them.
func (m memory) located(dynamic uint64, maps []procmaps.Mapping) (headers, error) {
	for i := range maps {
		if dynamic < maps[i].Start || dynamic >= maps[i].End {
			continue
		}
		first := i
		for first > 0 && maps[first].Offset != 0 && maps[first-1].Inode == maps[i].Inode && maps[first-1].Path == maps[i].Path {
			first--
		}
		if maps[first].Inode == 0 {
			break
		}
		if h, err := m.ofFile(maps[first].Start); !errors.Is(err, errNoELF) {
			return h, err
		}
		break
	}
	return nil, errNoELF
}

var errNoELF = errors.New("it lies in memory of no file")

// ofFile are the headers of a file that is mapped there, with its first bytes.
func (m memory) ofFile(at uint64) (headers, error) {
	head, err := m.bytes(at, 64)
	if err != nil {
		return nil, err
	}
	if string(head[:4]) != elf.ELFMAG {
		return nil, errNoELF
	}
	le := binary.LittleEndian
	return m.headers(at+le.Uint64(head[32:]), uint64(le.Uint16(head[54:])), uint64(le.Uint16(head[56:])))
}
