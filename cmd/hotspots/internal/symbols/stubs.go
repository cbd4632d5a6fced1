package symbols

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// stub is a run of code in an arena.
type stub struct {
	emit.Moved
	end   uint64 // the next one starts there
	name  string
	rules []elfscan.Rule // of what it stands for, by run address
}

// arena is the range that its stubs lie in.
type arena struct {
	at, end uint64
	stubs   []stub
}

// arenas finds those in the memory: each list of them starts a page.
func (m *image) arenas() (all []arena) {
	seen := map[uint64]bool{}
	for list := range m.lists {
		for _, r := range list {
			if !seen[r.At] { // the reserve may be mapped as well
				seen[r.At] = true
				all = append(all, m.arena(&r))
			}
		}
	}
	all = slices.DeleteFunc(all, func(a arena) bool { return len(a.stubs) == 0 })
	slices.SortFunc(all, func(a, b arena) int { return cmp.Compare(a.at, b.at) })
	return all
}

// lists yields the lists of arenas in the memory, some megabytes at a time.
func (m *image) lists(yield func([]emit.ArenaRef) bool) {
	const page, chunk = 4096, 1 << 20
	for _, a := range m.areas {
		for at := a.start; at < a.end; at += chunk {
			b, err := m.bytes(at, min(chunk, a.end-at))
			for i := 0; err == nil && i+page <= len(b); i += page {
				n := emit.ArenaListLen(b[i : i+page])
				if n == 0 {
					continue
				}
				if list, err := m.bytes(at+uint64(i), uint64(n)); err == nil && !yield(emit.ReadArenaList(list)) {
					return
				}
			}
		}
	}
}

// arena reads the stubs of one; none if they cannot be read.
func (m *image) arena(r *emit.ArenaRef) arena {
	a := arena{at: r.At, end: r.Cold}
	if r.Count > a.end-a.at {
		return a
	}
	records, err := m.bytes(r.Records, r.Count*emit.OriginSize)
	if err != nil {
		return a
	}
	lengths, err := m.bytes(r.Lengths, r.LengthsSize)
	if err != nil {
		return a
	}
	list := r.Read(records, lengths)
	for i, moved := range list {
		s := stub{Moved: moved, end: r.Cold}
		if i+1 < len(list) {
			s.end = list[i+1].At
		}
		a.stubs = append(a.stubs, s)
	}
	return a
}

// object is a file whose functions stubs stand for.
type object struct {
	mapped
	bias   uint64 // run address minus link-time address
	scan   *elfscan.Object
	frames []elfscan.Frame
}

// objects reads files when they are asked for.
type objects struct {
	image *image
	read  map[string]*object // nil: it cannot be read
}

// at is the object that is mapped at a run address; nil if there is none.
func (o *objects) at(addr uint64) *object {
	i := slices.IndexFunc(o.image.files, func(f mapped) bool { return addr >= f.start && addr < f.end })
	if i < 0 {
		return nil
	}
	f := o.image.files[i]
	key := fmt.Sprintf("%s\x00%x", f.path, f.start-f.offset) // it may be loaded twice
	obj, ok := o.read[key]
	if !ok {
		obj = readObject(f)
		o.read[key] = obj
	}
	return obj
}

func readObject(f mapped) *object {
	st, err := os.Stat(f.path)
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	scan, err := elfscan.Scan(file, st.Size())
	if err != nil {
		return nil
	}
	frames, _ := elfscan.Frames(file, st.Size()) // without them there are names
	for _, s := range scan.Segments {
		if f.offset >= s.Offset&^4095 && f.offset < s.Offset+s.FileSize {
			return &object{f, f.start - (s.Addr + f.offset - s.Offset), scan, frames}
		}
	}
	return nil
}

// name names the function at a link-time address.
func (o *object) name(addr uint64) string {
	f := o.scan.Functions
	i := sort.Search(len(f), func(i int) bool { return f[i].Addr > addr })
	if i > 0 && f[i-1].Name != "" && addr < f[i-1].Addr+f[i-1].Size {
		return f[i-1].Name
	}
	if i > 0 && addr < f[i-1].Addr+f[i-1].Size {
		addr = f[i-1].Addr
	}
	return fmt.Sprintf("%s+%#x", filepath.Base(o.path), addr)
}

// rules are those of the FDE that covers a link-time address, at run addresses.
func (o *object) rules(addr uint64) (list []elfscan.Rule) {
	i := sort.Search(len(o.frames), func(i int) bool { return o.frames[i].Addr > addr })
	if i == 0 || addr >= o.frames[i-1].Addr+o.frames[i-1].Size {
		return nil
	}
	for _, r := range o.frames[i-1].Rules {
		r.Addr += o.bias
		list = append(list, r)
	}
	return list
}

// identify finds out what the stubs stand for. In a process they have names of their
// own: a breakpoint at a function must not be one in its stub, too, which forked
// siblings share.
func (m *image) identify(all []arena) {
	files := objects{image: m, read: map[string]*object{}}
	for _, a := range all {
		for i := range a.stubs {
			s := &a.stubs[i]
			o := files.at(s.From)
			if o == nil {
				s.name = fmt.Sprintf("code at %#x", s.From)
				continue
			}
			s.name, s.rules = o.name(s.From-o.bias), o.rules(s.From-o.bias)
			if m.alive {
				s.name = "stub of " + s.name
			}
		}
	}
}
