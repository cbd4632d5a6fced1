package elfscan

// Restartable is a restartable sequence (rseq(2)): a thread that is interrupted at
// an address in [Start, End) goes on at Abort.
type Restartable struct{ Start, End, Abort uint64 }

// rseqSection is where assembly puts the descriptors, by convention of librseq:
//
//	struct rseq_cs { u32 version, flags; u64 start_ip, post_commit_offset, abort_ip; }
const (
	rseqSection = "__rseq_cs"
	rseqSize    = 32
	rseqStart   = 8
	rseqLength  = 16
	rseqAbort   = 24
)

func (f *file) rseqSection() *section {
	for i := range f.sections {
		if f.sections[i].name == rseqSection && f.sections[i].Size >= rseqSize {
			return &f.sections[i]
		}
	}
	return nil
}

// restartable reads the descriptors; stored are the words that relocations write
// into the section. A file without section headers tells of none.
func (f *file) restartable(stored map[uint64]uint64) (all []Restartable) {
	s := f.rseqSection()
	if s == nil {
		return nil
	}
	b, err := f.read(s.Off, s.Size, rseqSection)
	if err != nil {
		f.problem(err)
		return nil
	}
	word := func(off uint64) uint64 {
		if v, ok := stored[s.Addr+off]; ok {
			return v
		}
		return le.Uint64(b[off:])
	}
	for off := uint64(0); off+rseqSize <= uint64(len(b)); off += rseqSize {
		r := Restartable{Start: word(off + rseqStart), Abort: word(off + rseqAbort)}
		if r.End = r.Start + word(off+rseqLength); r.End >= r.Start && f.text.has(r.Start) && f.text.has(r.Abort) {
			all = append(all, r)
		}
	}
	return all
}
