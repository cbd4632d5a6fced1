package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/symbols"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/x86"
)

const pageSize = 4096

// area is memory that is protected, or would be were it not open.
type area struct {
	low, high uint64
	prot      procmaps.Prot // that the program has given it
}

// space is the memory of a process, or of several that share it.
type space struct {
	pid   ptrace.Tracee
	mem   *os.File
	at    uint64 // of an instruction `syscall`
	areas []area // in order
	bare  []area // that are never protected: what the kernel writes to on its own account
	maps  []procmaps.Mapping

	open     bool      // pages are as the program has them,
	openers  int       // for so many system calls,
	since    time.Time // from then on; other threads are held for a while,
	released time.Time // and run since
	stale    bool      // regions are others now
	held     []*thread
	deferred []ptrace.Event

	origins *symbols.Process
	places  map[uint64]place
	actions map[int][]byte // of signals that the kernel changes where it cannot tell of them
}

// place is what code an address is in.
type place struct {
	home        uint64
	copied, own bool
}

func newSpace(pid ptrace.Tracee) (*space, error) {
	s := &space{pid: pid, places: map[uint64]place{}}
	var err error
	s.mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	return s, err
}

func (s *space) close() {
	s.mem.Close()
	if s.origins != nil {
		s.origins.Close()
	}
}

func (s *space) read(at uint64, b []byte) []byte {
	n, _ := s.mem.ReadAt(b, int64(at))
	return b[:max(n, 0)]
}

// fork is a copy for a child.
func (s *space) fork(pid ptrace.Tracee) (*space, error) {
	c, err := newSpace(pid)
	if err != nil {
		return nil, err
	}
	c.at, c.areas, c.bare, c.maps, c.open, c.actions = s.at, slices.Clone(s.areas), slices.Clone(s.bare), s.maps, s.open, s.actions
	return c, nil
}

// find is the area of an address; nil: it is in none.
func (s *space) find(at uint64) *area {
	for i := range s.areas {
		if a := &s.areas[i]; at >= a.low && at < a.high {
			return a
		}
	}
	return nil
}

func (s *space) overlaps(low, high uint64) bool { return overlap(s.areas, low, high) }

// overlap reports whether one of some areas has a byte of others.
func overlap(areas []area, low, high uint64) bool {
	return slices.ContainsFunc(areas, func(a area) bool { return low < a.high && high > a.low })
}

func (s *space) readMaps() { s.maps, _ = procmaps.Of(strconv.Itoa(int(s.pid))) }

func (s *space) mapping(at uint64) *procmaps.Mapping {
	for i := range s.maps {
		if m := &s.maps[i]; at >= m.Start && at < m.End {
			return m
		}
	}
	return nil
}

// lay finds the areas of regions, as the mappings are while all is open, and an instruction
// `syscall`. bare is how many pages are left out.
func (s *space) lay(live []area) (pages, bare uint64) {
	s.readMaps()
	s.areas = nil
	for i := range s.maps {
		m := &s.maps[i]
		s.findCall(m)
		for _, r := range live {
			low, high := max(r.low&^(pageSize-1), m.Start), min((r.high+pageSize-1)&^(pageSize-1), m.End)
			if low >= high || m.Prot&(procmaps.ProtRead|procmaps.ProtWrite) == 0 || strings.HasPrefix(m.Path, "[v") {
				continue
			}
			n := (high - low) / pageSize
			if m.Prot&procmaps.ProtExec != 0 {
				bare += n
				continue
			}
			if m.Path == "[stack]" && low == m.Start { // where it grows from
				low, bare = low+pageSize, bare+1
			}
			s.add(low, high, m.Prot)
		}
	}
	slices.SortFunc(s.areas, func(a, b area) int { return cmp.Compare(a.low, b.low) })
	for _, a := range s.areas {
		pages += (a.high - a.low) / pageSize
	}
	return pages, bare
}

// add adds pages to the areas, but those that are there, or are bare.
func (s *space) add(low, high uint64, prot procmaps.Prot) {
	for _, a := range slices.Concat(s.areas, s.bare) {
		if low < a.high && high > a.low {
			if low < a.low {
				s.add(low, a.low, prot)
			}
			if high > a.high {
				s.add(a.high, high, prot)
			}
			return
		}
	}
	if low < high {
		s.areas = append(s.areas, area{low, high, prot})
	}
}

// findCall finds the instruction by which threads are led into system calls: the vDSO has one.
func (s *space) findCall(m *procmaps.Mapping) {
	if m.Path != "[vdso]" && (s.at != 0 || m.Prot&procmaps.ProtExec == 0 || m.Path == "[vsyscall]") {
		return
	}
	b := s.read(m.Start, make([]byte, min(m.End-m.Start, 1<<20)))
	if i := bytes.Index(b, []byte{0x0f, 0x05}); i >= 0 {
		s.at = m.Start + uint64(i)
	}
}

// strip has the page of something that the kernel writes to by itself never be protected.
func (s *space) strip(low, high uint64) {
	if low == 0 {
		return
	}
	a := area{low: low &^ (pageSize - 1), high: (high + pageSize - 1) &^ (pageSize - 1)}
	if !slices.ContainsFunc(s.bare, func(b area) bool { return a.low >= b.low && a.high <= b.high }) {
		s.bare = append(s.bare, a)
		s.stale = s.stale || s.overlaps(a.low, a.high)
	}
}

// placeOf tells what an instruction is of.
func (s *space) placeOf(at uint64) place {
	p, known := s.places[at]
	if known {
		return p
	}
	p = s.look(at)
	s.places[at] = p
	return p
}

func (s *space) look(at uint64) place {
	m := s.mapping(at)
	if m == nil || m.Prot&procmaps.ProtExec == 0 {
		s.readMaps()
		m = s.mapping(at)
	}
	if m != nil && strings.HasPrefix(filepath.Base(m.Path), "libdynprof") {
		return place{home: at, own: true}
	}
	if s.origins == nil {
		s.origins, _ = symbols.OpenProcess(uint32(s.pid))
	}
	if s.origins == nil || m != nil && m.Inode != 0 && !m.Shared && m.Prot&procmaps.ProtWrite == 0 {
		return place{home: at}
	}
	for range 2 {
		origin, own := s.origins.Origin(at)
		if own {
			return place{home: at, own: true}
		}
		if origin != 0 {
			return place{home: origin, copied: true, own: !isSame(s.read(at, make([]byte, x86.MaxLen)), s.textOf(origin))}
		}
		s.origins.Refresh(uint32(s.pid)) // it has made another arena
	}
	return place{home: at}
}

// textOf is an instruction as its file has it: in memory a patch may stand there.
func (s *space) textOf(at uint64) []byte {
	b := make([]byte, x86.MaxLen)
	if m := s.mapping(at); m != nil && m.Inode != 0 {
		if f, err := os.Open(m.Path); err == nil {
			defer f.Close()
			n, _ := f.ReadAt(b, int64(m.Offset+at-m.Start))
			return b[:n]
		}
	}
	return s.read(at, b)
}

// isSame reports whether code in an arena is an instruction of the program's: what stands in
// front of one, of ours, stands for the same.
func isSame(code, text []byte) bool {
	var a, b x86.Inst
	if x86.Decode(code, &a) != nil || x86.Decode(text, &b) != nil {
		return true
	}
	const reg = 0x38
	return a.Op == b.Op && a.Map == b.Map && a.Enc == b.Enc && a.Rex&x86.RexW == b.Rex&x86.RexW && (!a.HasModRM || a.ModRM&reg == b.ModRM&reg)
}

// stripThread leaves a thread's own things alone, which the kernel writes to when it is moved to
// another CPU, and when it ends.
func (s *space) stripThread(t *thread) {
	const things = 0xa00 // struct pthread
	if at := t.regs.Fs_base; at != 0 {
		s.strip(at, at+things)
	}
	if at := t.Sequence(); at != 0 {
		s.strip(at, at+32)
	}
}

// bareIn is how many pages of regions are bare.
func (s *space) bareIn(live []area) (n uint64) {
	for _, b := range s.bare {
		if overlap(live, b.low, b.high) {
			n += (b.high - b.low) / pageSize
		}
	}
	return n
}

// mergeAreas joins those that follow each other.
func mergeAreas(all []area) []area {
	slices.SortFunc(all, func(a, b area) int { return cmp.Compare(a.low, b.low) })
	out := all[:0]
	for _, a := range all {
		if n := len(out); n > 0 && a.low <= out[n-1].high {
			out[n-1].high = max(out[n-1].high, a.high)
		} else {
			out = append(out, a)
		}
	}
	return out
}
