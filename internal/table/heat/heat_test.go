package heat

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/table/beside"
	"github.com/dynprof/dynprof/internal/table/layout"
)

const smaps = `00400000-00402000 r-xp 00000000 fe:00 131 /opt/a b
Size:                  8 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me
7ffd1000-7ffd3000 rw-p 00000000 00:00 0                          [stack]
Rss:                   8 kB
7fff00000000-7fff00001000 rw-p 00000000 00:00 0 
Rss:                   0 k`

// newShadow is the shadow of a program.
func newShadow(t testing.TB, g Granule) *Shadow {
	t.Helper()
	return firstShadow(t, func() (*Shadows, error) { return New(g) })
}

func firstShadow(t testing.TB, made func() (*Shadows, error)) *Shadow {
	t.Helper()
	all, err := made()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(all.Close)
	s, err := all.Shadow(0)
	if err != nil {
		t.Skip(err)
	}
	return s
}

// TestShadow: what is taken is what was touched since it was taken last, however far away; what
// a program has written there is no reason to fail.
func TestShadow(t *testing.T) {
	s := newShadow(t, Page)
	if _, err := s.Maps(); err != ErrNone || s.Had() {
		t.Error("a shadow that nobody has had:", err)
	}
	program, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	put := func(at int64, b ...byte) {
		t.Helper()
		if _, err := program.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	taken := func(want ...Range) {
		t.Helper()
		if got, err := s.Take(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, not %v: %v", got, want, err)
		}
	}
	put(2*0x400, 1, 0, 1, 0, 1, 1)
	put(Page.shadow()-2, 0, 1)
	put(1<<30, 0, 0)
	put(Page.shadow(), append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(smaps))), make([]byte, layout.ShChars-8)...), smaps...)...)
	taken(Range{First: 0x400, Pages: 2, What: WasRead}, Range{First: 0x402, Pages: 1, What: WasRead | WasWritten}, Range{First: Page.Count() - 1, Pages: 1, What: WasWritten})
	taken()
	put(2*0x401, 0, 7)
	taken(Range{First: 0x401, Pages: 1, What: WasWritten})
	m, err := s.Maps()
	want := &Maps{Mappings: []Mapping{{Start: 0x400000, End: 0x402000, Path: "/opt/a b", Resident: 4096}, {Start: 0x7ffd1000, End: 0x7ffd3000, Path: "[stack]", Resident: 8192}, {Start: 0x7fff00000000, End: 0x7fff00001000}}}
	if !reflect.DeepEqual(m, want) || err != nil || !s.Had() {
		t.Errorf("%+v, not %+v: %v", m, want, err)
	}
	if err := program.Truncate(0); err == nil {
		t.Error("a program can make its shadow smaller")
	}
	put(Page.shadow()+textSize, 1, 2, 3, 4, 5, 6, 7, 8)
	if _, err := s.Maps(); err == nil {
		t.Error("a length that cannot be")
	}
}

// TestShadowSmaller: a shadow of smaller granules is larger, and its last granule is there.
func TestShadowSmaller(t *testing.T) {
	for _, g := range []Granule{Line, Word} {
		s := newShadow(t, g)
		last := g.Count() - 1
		if end := (last + 1) * g.Size(); end != 1<<47 {
			t.Errorf("%d granules end at %#x", g.Count(), end)
		}
		for _, at := range []uint64{0, 0x7f1234567890 >> g, last} {
			if _, err := s.file.WriteAt([]byte{0, 1}, int64(2*at)); err != nil {
				t.Fatal(err)
			}
		}
		want := []Range{{First: 0, Pages: 1, What: WasWritten}, {First: 0x7f1234567890 >> g, Pages: 1, What: WasWritten}, {First: last, Pages: 1, What: WasWritten}}
		if got, err := s.Take(nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, not %v: %v", got, want, err)
		}
		if size, err := s.file.Seek(0, io.SeekEnd); err != nil || size != Images*(s.shadow()+texts*textSize)+4096 {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestShadows: each of the shadows of a file has what is touched in it, also when it is mapped only for
// the moment; who waits for the next is told of it.
func TestShadows(t *testing.T) {
	for _, g := range []Granule{Page, Line, Word} {
		first := newShadow(t, g)
		all := first.Shadows
		first.Leave()
		var shadows []*Shadow
		for n := range Images {
			s, err := all.Shadow(n)
			if err != nil {
				t.Fatal(err)
			}
			s.Leave() // of 8-byte granules no four have room
			shadows = append(shadows, s)
			for _, at := range []uint64{uint64(n) + 1, g.Count() - 1} {
				if _, err := all.file.WriteAt([]byte{1, 0}, s.at+int64(2*at)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := all.file.WriteAt([]byte{byte(n + 1)}, s.at+g.shadow()+layout.ShTable); err != nil {
				t.Fatal(err)
			}
		}
		for n, s := range shadows {
			want := []Range{{First: uint64(n) + 1, Pages: 1, What: WasRead}, {First: g.Count() - 1, Pages: 1, What: WasRead}}
			if got, err := s.Take(nil); err != nil || !slices.Equal(got, want) || s.Table() != [16]byte{byte(n + 1)} {
				t.Errorf("%d: %v, not %v, of %x: %v", n, got, want, s.Table(), err)
			}
		}
		if got := all.Taken(); got != 0 {
			t.Errorf("%d are taken", got)
		}
		all.Await(1, time.Hour) // it is another already
		all.Await(0, time.Millisecond)
	}
}

// TestTaken: of what is touched while it is taken nothing is lost.
func TestTaken(t *testing.T) {
	s := newShadow(t, Page)
	const pages = 16384
	var group sync.WaitGroup
	for what := range 2 {
		group.Go(func() {
			for i := range pages {
				if _, err := s.file.WriteAt([]byte{1}, int64(2*(i*7919%pages)+what)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { group.Wait(); close(ended) }()
	var all []Range
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		list, err := s.Take(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = Union(all, list)
	}
	if want := []Range{{Pages: pages, What: WasRead | WasWritten}}; !slices.Equal(all, want) {
		t.Errorf("%v, not %v", all, want)
	}
}

// page is what one page of ranges is.
func page(list []Range, p uint64) (r Range) {
	for _, r := range list {
		if r.First <= p && p < r.end() {
			r.First, r.Pages = 0, 0
			return r
		}
	}
	return r
}

// someRanges are by address.
func someRanges(r *rand.Rand, pages uint64, slice uint32) (list []Range) {
	for p := uint64(r.IntN(9)); p < pages; p += uint64(1 + r.IntN(9)) {
		n := min(uint64(1+r.IntN(5)), pages-p)
		list = add(list, Range{p, n, What(1 + r.IntN(7)), slice, slice})
		p += n
	}
	return list
}

// TestUnion: page by page what is in either list.
func TestUnion(t *testing.T) {
	const pages = 64
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		a, b := someRanges(r, pages, uint32(r.IntN(3))), someRanges(r, pages, uint32(r.IntN(3)))
		got, end := Union(a, b), uint64(0)
		for i, one := range got {
			if one.First < end || one.Pages == 0 || i > 0 && one.follows(&got[i-1]) {
				t.Fatalf("seed %d: %v", seed, got)
			}
			end = one.end()
		}
		for p := range uint64(pages) {
			x, y := page(a, p), page(b, p)
			want := Range{What: x.What | y.What, Begin: first(x.Begin, y.Begin), End: max(x.End, y.End)}
			if page(got, p) != want {
				t.Fatalf("seed %d, page %d: %v and %v give %v", seed, p, x, y, page(got, p))
			}
		}
	}
}

// TestCoarse: granule by granule what was done with the smaller ones in it.
func TestCoarse(t *testing.T) {
	const many, by = 100, 3
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		list := Union(someRanges(r, many, 1+uint32(r.IntN(3))), someRanges(r, many, 1+uint32(r.IntN(3))))
		room := []Range{{First: 1, Pages: 1}}
		got := Coarse(room[:0], list, by)
		for i, one := range got {
			if one.Pages == 0 || i > 0 && (one.First < got[i-1].end() || one.follows(&got[i-1])) {
				t.Fatalf("seed %d: %v", seed, got)
			}
		}
		for p := range uint64(many>>by + 1) {
			want := Range{}
			for k := p << by; k < (p+1)<<by; k++ {
				one := page(list, k)
				want.What |= one.What
				want.Begin, want.End = first(want.Begin, one.Begin), max(want.End, one.End)
			}
			if page(got, p) != want {
				t.Fatalf("seed %d, %d: %v, not %v, of %v", seed, p, page(got, p), want, list)
			}
		}
		if same := Coarse(nil, list, 0); !slices.Equal(same, list) {
			t.Fatalf("seed %d: %v, not %v", seed, same, list)
		}
	}
	most := Range{First: 1, Pages: Word.Count() - 1, What: WasRead}
	if got, want := Coarse(nil, []Range{most}, Page-Word), (Range{First: 0, Pages: Page.Count(), What: WasRead}); !slices.Equal(got, []Range{want}) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestGranules: a file says what its ranges are of, and has them by larger granules, too.
func TestGranules(t *testing.T) {
	for _, g := range []Granule{Page, Line, Word} {
		table, nonce := filepath.Join(t.TempDir(), "a"), [16]byte{1}
		l := &Log{Granule: g}
		sums := logOf(t, l, 0, 30)
		last := Range{First: g.Count() - 1, Pages: 1, What: WasRead}
		l.Add(&Slice{Executed: 310, Time: 31000, Parts: 1, Resident: 30, Ranges: []Range{last}})
		sums = Union(sums, []Range{last})
		if err := l.Close(table, nonce, &Maps{}); err != nil {
			t.Fatal(err)
		}
		copied := table + "b"
		if err := Copy(table, copied, nonce); err != nil {
			t.Fatal(err)
		}
		f, err := Read(copied, nonce)
		if err != nil || f.Noted != g || f.Granule != Page {
			t.Fatalf("%+v, not of %d: %v", f, g, err)
		}
		check(t, f.In(f.Noted), 31, sums)
		for _, larger := range []Granule{Page, Line, Word} {
			to := max(larger, g)
			if coarse := f.In(larger); coarse.Granule != to {
				t.Errorf("%d in %d is of %d", g, larger, coarse.Granule)
			} else {
				check(t, coarse, 31, Coarse(nil, sums, to-g))
			}
		}
	}
}

// logOf adds so many slices; sums are what all have of each page.
func logOf(t *testing.T, l *Log, from, to uint64) (sums []Range) {
	t.Helper()
	for i := from; i < to; i++ {
		list := someRanges(rand.New(rand.NewPCG(i, 3)), 40, 0)
		l.Add(&Slice{Executed: 10 * (i + 1), Time: 1000 * (i + 1), Parts: 1, Counting: countingOf(i), Minor: i, Major: 2 * i, Threads: i + 1, Resident: i, Ranges: list})
		sums = Union(sums, list)
	}
	return sums
}

// countingOf is what is said of slice i.
func countingOf(i uint64) Counting {
	if i/7%2 == 1 {
		return CountingOff
	}
	return CountingOn
}

// check compares a file with what was added.
func check(t *testing.T, f *File, n uint64, sums []Range) {
	t.Helper()
	var last Slice
	var got []Range
	parts := uint64(0)
	f.Each(func(s *Slice) {
		parts += s.Parts
		want := Slice{Executed: 10 * parts, Time: 1000 * parts, Parts: s.Parts, Threads: parts, Resident: parts - 1, Counting: s.Counting, Minor: s.Minor, Major: s.Major, Ranges: s.Ranges}
		if s.Threads > 0 { // the last one of TestGranules has nothing of this
			want.Counting, want.Minor = 0, 0
			for i := parts - s.Parts; i < parts; i++ {
				want.Counting |= countingOf(i)
				want.Minor += i
			}
			want.Major = 2 * want.Minor
		} else {
			want.Threads = 0
		}
		if !reflect.DeepEqual(*s, want) {
			t.Errorf("%+v, not %+v", s, want)
		}
		last, got = *s, Union(got, s.Ranges)
	})
	if parts != n || last.Executed != 10*n || !slices.Equal(got, sums) {
		t.Errorf("%d slices, not %d; %v, not %v", parts, n, got, sums)
	}
	for _, r := range f.Pages() {
		for p := r.First; p < r.end(); p++ {
			number := uint32(0)
			f.Each(func(s *Slice) {
				number++
				if had := page(s.Ranges, p).What != 0; had && (number < r.Begin || number > r.End) || !had && (number == r.Begin || number == r.End) {
					t.Errorf("page %d: slices %d to %d, slice %d", p, r.Begin, r.End, number)
				}
			})
		}
	}
}

// TestLog: a file is whole after each slice, for who reads it meanwhile, and after a kill; it is
// bounded, and nothing is lost by that.
func TestLog(t *testing.T) {
	table, nonce := filepath.Join(t.TempDir(), "a"), [16]byte{1}
	maps := &Maps{Mappings: []Mapping{{Start: 4096, End: 8192, Path: "/a"}}}
	l := &Log{Apart: 1}
	sums := logOf(t, l, 0, 3)
	if err := l.Open(table, nonce, maps); err != nil {
		t.Fatal(err)
	}
	sums = Union(sums, logOf(t, l, 3, 20))
	read := func(n uint64) *File {
		t.Helper()
		f, err := Read(table, nonce)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f.Maps, *maps) {
			t.Errorf("%+v", f.Maps)
		}
		check(t, f, n, sums)
		return f
	}
	if f := read(20); f.Count != 20 {
		t.Errorf("%d slices", f.Count)
	}
	whole, err := os.ReadFile(PathOf(table))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole { // killed there
		f, err := Parse(whole[:n])
		if atLine := bytes.IndexByte(whole, '\n'); (err == nil) != (n > atLine) || err == nil && n < len(whole) && f.Count >= 20 {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for n := bytes.IndexByte(whole, '\n') + 1; n < len(whole); n++ {
		broken := bytes.Clone(whole)
		broken[n] ^= 0x20
		if f, err := Parse(broken); err == nil && f.Count == 20 {
			t.Fatalf("byte %d is another: %v", n, f)
		}
	}
	const many = 3 * mostSlices
	sums = Union(sums, logOf(t, l, 20, many))
	if f := read(many); f.Count > mostSlices || f.Count < mostSlices/4 {
		t.Errorf("%d slices", f.Count)
	}
	if _, err := Read(table, [16]byte{2}); err != ErrNone {
		t.Errorf("of another table: %v", err)
	}
	before := table
	table = filepath.Join(t.TempDir(), "b")
	maps.Ended = true
	if err := l.Close(table, nonce, maps); err != nil {
		t.Fatal(err)
	}
	read(many)
	if _, err := Read(before, nonce); err != ErrNone {
		t.Errorf("the file is left at %s: %v", before, err)
	}
	Remove(table)
	if _, err := Read(table, nonce); err != ErrNone {
		t.Errorf("removed: %v", err)
	}
}

// TestLimit: slices that tell of more instructions than there were in the end do no longer.
func TestLimit(t *testing.T) {
	l := &Log{}
	sums := logOf(t, l, 0, 10)
	l.Limit(100)
	check(t, l.whole(&Maps{}), 10, sums)
	l.Limit(75)
	var got []uint64
	l.whole(&Maps{}).Each(func(s *Slice) { got = append(got, s.Executed) })
	if want := []uint64{10, 20, 30, 40, 50, 60, 70, 75, 75, 75}; !slices.Equal(got, want) {
		t.Errorf("%d, not %d", got, want)
	}
}

// TestWithout: what is left out is in no slice, by what was noted and by larger granules.
func TestWithout(t *testing.T) {
	l := &Log{Granule: Line}
	r := rand.New(rand.NewPCG(1, 9))
	for i := range uint64(50) {
		s := &Slice{Executed: i, Time: i, Parts: 1}
		for at := uint64(r.IntN(50)); at < 1000; at += uint64(1 + r.IntN(50)) {
			n := uint64(1 + r.IntN(40))
			s.Ranges = append(s.Ranges, Range{First: at, Pages: n, What: What(1 + r.IntN(7))})
			at += n
		}
		l.Add(s)
	}
	f := l.whole(&Maps{})
	for _, g := range []Granule{Line, Page} {
		var want, got, from [][]Range
		f.In(g).Each(func(s *Slice) {
			var list []Range
			for _, one := range s.Ranges {
				if one.What &^= WasExecuted; one.What != 0 {
					list = add(list, one)
				}
			}
			want = append(want, list)
		})
		some := f.In(g).Without(WasExecuted)
		some.Each(func(s *Slice) { got = append(got, append([]Range(nil), s.Ranges...)) })
		some.From(&Cursor{}, func(s *Slice, _ *Cursor) bool { from = append(from, append([]Range(nil), s.Ranges...)); return true })
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(from, want) {
			t.Errorf("by %d bytes: %v and %v, not %v", g.Size(), got, from, want)
		}
	}
}

// TestLogOfInstructions: slices of another tool's log, which tells no time, are made one by their
// instructions.
func TestLogOfInstructions(t *testing.T) {
	const each, all = 10, 3*mostSlices + 5
	table := filepath.Join(t.TempDir(), "a")
	l := &Log{Granule: Line, Apart: each, Source: Lackey}
	if err := l.Open(table, [16]byte{}, &Maps{}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(all) {
		l.Add(&Slice{Executed: each * (i + 1), Parts: 1, Ranges: []Range{{First: i, Pages: 1, What: WasRead}}})
	}
	f, err := Read(table, [16]byte{})
	if err != nil || f.Source != Lackey || f.Noted != Line || f.Count != l.Count() || f.Count > mostSlices {
		t.Fatalf("%+v: %v", f, err)
	}
	parts := l.Apart / each
	if parts < 2 || parts&(parts-1) != 0 || l.Apart%each != 0 {
		t.Errorf("slices are %d instructions", l.Apart)
	}
	before, number := uint64(0), 0
	f.In(Line).Each(func(s *Slice) {
		if want := (Range{First: before / each, Pages: s.Parts, What: WasRead}); len(s.Ranges) != 1 || s.Ranges[0] != want || s.Executed-before != each*s.Parts {
			t.Fatalf("%+v behind %d", s, before)
		}
		if number++; number < mostSlices/8 && s.Parts != parts { // those behind came later
			t.Fatalf("slice %d is of %d", number, s.Parts)
		}
		before = s.Executed
	})
	if before != all*each {
		t.Errorf("%d instructions", before)
	}
}

// TestParse: what may not be is an error.
func TestParse(t *testing.T) {
	line := `{"dynprof_heat":2,"table":"01"}` + "\n"
	slice := func(numbers ...uint64) string {
		var body []byte
		for _, n := range numbers {
			body = binary.AppendUvarint(body, n)
		}
		return line + string(beside.AppendPart(nil, recordSlice, body))
	}
	maps := func(text string) string { return line + string(beside.AppendPart(nil, recordMaps, []byte(text))) }
	now := func(text string) string { return strings.Replace(text, `2,`, `4,"granule":4096,`, 1) }
	who := func(numbers ...uint64) string {
		var body []byte
		for _, n := range numbers {
			body = binary.AppendUvarint(body, n)
		}
		return `{"dynprof_heat":5,"granule":4096}` + "\n" + string(beside.AppendPart(nil, recordWho, body))
	}
	for _, text := range []string{
		who(), who(1), who(1, 1, 0, 0, 0, 0, 0, 0), who(1, 1, 0, 0, 0, 0, 0, 0, 0, 1), who(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1), who(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), who(1, 1, 0, 0, 0, 0, 0, 0, 0, Pages, 1, 0), who(1 << 60),
		strings.Replace(who(1, 1, 0, 0, 0, 0, 0, 0, 0), "5,", "4,", 1), `{"dynprof_heat":8,"granule":4096}` + "\n",
		`{"dynprof_heat":7,"granule":4096}` + "\n", `{"dynprof_heat":7,"granule":4096,"source":"din"}` + "\n", `{"dynprof_heat":7,"source":"lackey"}` + "\n", `{"dynprof_heat":4,"granule":4096,"source":"lackey"}` + "\n",
		"", "{}", `{"dynprof_heat":2}`, `{"dynprof_heat":1,"ranges":[]}`, `{"dynprof_heat":3}` + "\n", `{"dynprof_heat":4}` + "\n", `{"dynprof_heat":5,"granule":64}` + "\n", now(slice(1, 1, 0, 1, 0)), now(slice(1, 1, 0, 1, 4, 0, 0, 0, 0)), now(slice(1, 1, 0, 1, 3, 0, 0, 1)), `{"dynprof_heat":-1}` + "\n",
		`{"dynprof_heat":3,"granule":32}` + "\n", `{"dynprof_heat":2,"granule":64}` + "\n", `{"dynprof_heat":3,"granule":-64}` + "\n",
		strings.Replace(slice(1, 1, 0, 1, 1, Line.Count(), 1<<3|1), `2,`, `3,"granule":64,`, 1),
		slice(), slice(1, 1, 0, 1), slice(1, 1, 0, 0, 0), slice(1, 1, 0, 1, 1), slice(1, 1, 0, 1, 1, 0, 1), slice(1, 1, 0, 1, 1, 0, 8), slice(1, 1, 0, 1, 0, 7), slice(1, 1, 0, 1, 1<<60),
		slice(1, 1, 0, 1, 1, Page.Count()-1, 2<<3|1), slice(1, 1, 0, 1, 1, 0, 1<<63|1), slice(1, 1, 0, 1, 2, 0, 1<<3|1, Page.Count(), 1<<3|1),
		slice(1<<63, 1, 0, 1, 0) + slice(1<<63, 1, 0, 1, 0)[len(line):], line + string(beside.AppendPart(nil, 'z', nil)), line + "s\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		maps("{"), maps(`{"mappings":[{"start":4096,"end":4096}]}`), maps(`{"mappings":[{"start":4096,"end":8192},{"start":0,"end":4096}]}`),
	} {
		if f, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, f)
		}
	}
	for _, text := range []string{
		who(1, 1, 0, 0, 0, 0, 0, 0, 0), who(1, 1, 0, 0, 0, 0, 0, 0, 0, Pages-1, 1, 0),
		`{"dynprof_heat":3,"granule":8}` + "\n", `{"dynprof_heat":7,"granule":64,"source":"lackey"}` + "\n", now(slice(1, 1, 0, 1, 3, 7, 8, 9, 1, 0, 1<<3|1)), strings.Replace(slice(1, 1, 0, 1, 1, Line.Count()-1, 1<<3|1), `2,`, `3,"granule":64,`, 1), line, slice(1, 1, 0, 1, 1, Page.Count()-1, 1<<3|1), line + "s", maps(`{"mappings":[{"start":4096,"end":8192}]}`)} {
		for _, rest := range []string{"", "s", "s\x05\x01"} {
			torn := len(rest)
			if strings.HasSuffix(text, "\ns") { // it begins the next one
				torn, rest = 1, ""
			}
			if f, err := Parse([]byte(text + rest)); err != nil || f.Torn != torn {
				t.Errorf("%q: %+v, %v", text+rest, f, err)
			}
		}
	}
}

// FuzzParse: whatever a file holds, what is read can be written and is read again.
func FuzzParse(f *testing.F) {
	l := &Log{}
	l.Add(&Slice{Executed: 5, Time: 6, Parts: 1, Ranges: []Range{{First: 1, Pages: 2, What: WasRead}}})
	l.Add(&Slice{Executed: 9, Time: 8, Parts: 1, Ranges: []Range{{First: 1, Pages: 1, What: WasExecuted}, {First: 9, Pages: 1, What: WasWritten}}})
	whole := l.whole(&Maps{Ended: true, Mappings: []Mapping{{Start: 4096, End: 8192, Path: "/a"}}})
	b, err := whole.bytes([16]byte{1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, []byte{})
	f.Add(bytes.Replace(b, []byte(`4,"granule":4096,`), []byte(`3,"granule":64,`), 1), []byte{1, 1, 0, 1, 1, 0, 9})
	f.Add(bytes.Replace(b, []byte(`4,"granule":4096,`), []byte(`2,`), 1), []byte{1, 1, 0, 1, 1, 0, 9})
	f.Add(b, []byte{1, 1, 0, 1, 3, 1, 1, 1, 1, 0, 9})
	f.Add(bytes.Replace(b, []byte(`4,"granule":4096,`), []byte(`7,"granule":8,"source":"lackey",`), 1), []byte{1, 1, 0, 1, 3, 1, 1, 1, 1, 0, 9})
	table := filepath.Join(f.TempDir(), "a")
	f.Fuzz(func(t *testing.T, b, body []byte) {
		file, err := Parse(beside.AppendPart(b, recordSlice, body)) // sums that are right, too
		if err != nil {
			return
		}
		for _, r := range file.Pages() {
			if r.Pages == 0 || r.end() > Page.Count() || r.Begin == 0 || r.End > uint32(file.Count) {
				t.Fatalf("%+v", r)
			}
		}
		for _, r := range file.In(file.Noted).Pages() {
			if r.Pages == 0 || r.end() > file.Noted.Count() || r.Begin == 0 || r.End > uint32(file.Count) {
				t.Fatalf("as noted: %+v", r)
			}
		}
		nonce := [16]byte{1}
		if err := file.Write(table, nonce); err != nil {
			t.Fatal(err)
		}
		again, err := Read(table, nonce)
		if err != nil || again.Count != file.Count || again.Noted != file.Noted || again.Source != file.Source || !slices.Equal(again.Pages(), file.Pages()) {
			t.Fatalf("%+v, not %+v: %v", again, file, err)
		}
	})
}

// FuzzSmaps: what a program has written in its shadow is no reason to fail otherwise than by an
// error.
func FuzzSmaps(f *testing.F) {
	f.Add([]byte(smaps))
	f.Add([]byte("7ffd1000-7ffd3000 rw-p 00000000 00:00 0 [stack]\nRss: 99999999999999999999 kB"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseSmaps(b)
		if err != nil {
			return
		}
		if len(list) > len(b) {
			t.Fatalf("%d mappings of %d bytes", len(list), len(b))
		}
	})
}
