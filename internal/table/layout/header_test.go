package layout

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
)

// sample is a header, and the geometry in it, of a table with one page for each section.
func sample() ([]byte, Geometry) {
	g := Geometry{Size: HeaderSize, Counters: 3, CountersCap: 5}
	for _, s := range []struct {
		to   *Section
		size uint32
	}{
		{&g.Missed, MsEntrySize}, {&g.Formers, FmEntrySize}, {&g.Events, EvEntrySize}, {&g.Fired, 4},
		{&g.Objects, ObjEntrySize}, {&g.Functions, FnEntrySize}, {&g.Aliases, 4}, {&g.Strings, 1},
		{&g.Baselines, PageSize}, {&g.Rows, PageSize},
	} {
		*s.to = g.Add(2, 6, s.size)
	}
	g.Strings.Count = 6
	h := make([]byte, g.Size)
	copy(h, Magic)
	le.PutUint32(h[HdrVersion:], Version)
	le.PutUint32(h[HdrState:], StateLive)
	EncodeGeometry(h, &g)
	copy(h[g.Strings.Offset:], "\x00prog\x00")
	le.PutUint32(h[HdrProgram:], 1)
	return h, g
}

func TestGeometry(t *testing.T) {
	raw, want := sample()
	if got, err := DecodeGeometry(raw, int64(want.Size)); err != nil || got != want {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
	for _, at := range []int{HdrFormers, HdrBaselines, HdrMissed} { // as older versions have it
		clear(raw[at : at+SectionSize])
	}
	want.Formers, want.Baselines, want.Missed = Section{}, Section{}, Section{}
	if got, err := DecodeGeometry(raw, int64(want.Size)); err != nil || got != want {
		t.Errorf("older: %v\n got %+v\nwant %+v", err, got, want)
	}
	for n, want := range map[uint64]uint64{0: 0, 1: PageSize, PageSize: PageSize, PageSize + 1: 2 * PageSize} {
		if got := RoundUp(n); got != want {
			t.Errorf("RoundUp(%d) = %d", n, got)
		}
	}
	if s := (Section{Offset: 100, Capacity: 3, EntrySize: 8}); s.End() != 124 {
		t.Errorf("end at %d", s.End())
	}
	counters, rows := want.BaselineParts(8192)
	if counters.Offset != 8192+BlCounts || rows.Offset != counters.Offset+8*5 || BaselineIn(7<<8|3) != 2 {
		t.Errorf("baseline: %+v, %+v", counters, rows)
	}
}

// TestHostileGeometry: what does not lie in the file, or not in itself, is refused.
func TestHostileGeometry(t *testing.T) {
	for name, row := range map[string]struct {
		change func(raw []byte, g *Geometry)
		want   error
	}{
		"larger than the file":   {func(_ []byte, g *Geometry) { g.Size += PageSize }, ErrTruncated},
		"as large as can be":     {func(_ []byte, g *Geometry) { g.Size = math.MaxUint64 }, ErrTruncated},
		"section outside":        {func(_ []byte, g *Geometry) { g.Objects.Offset = 1 << 40 }, ErrCorrupt},
		"section ends outside":   {func(_ []byte, g *Geometry) { g.Rows.Capacity = math.MaxUint32 }, ErrCorrupt},
		"its end wraps around":   {func(_ []byte, g *Geometry) { g.Rows.Offset = 1<<64 - PageSize }, ErrCorrupt},
		"section in the header":  {func(_ []byte, g *Geometry) { g.Functions.Offset = HeaderSize - 8 }, ErrCorrupt},
		"more entries than room": {func(_ []byte, g *Geometry) { g.Events.Count = g.Events.Capacity + 1 }, ErrCorrupt},
		"short entries":          {func(_ []byte, g *Geometry) { g.Functions.EntrySize = FnEntrySize - 8 }, ErrCorrupt},
		"no entries":             {func(_ []byte, g *Geometry) { g.Aliases.EntrySize = 0 }, ErrCorrupt},
		"entries longer than a page": {func(_ []byte, g *Geometry) {
			g.Objects.EntrySize = 2 * PageSize
			g.Objects.Capacity = 0
			g.Objects.Count = 0
		}, ErrCorrupt},
		"crooked section":              {func(_ []byte, g *Geometry) { g.Events.Offset += 4 }, ErrCorrupt},
		"crooked entries":              {func(_ []byte, g *Geometry) { g.Events.EntrySize += 4; g.Events.Capacity = 2 }, ErrCorrupt},
		"rows not on pages":            {func(_ []byte, g *Geometry) { g.Rows.Offset -= 8 }, ErrCorrupt},
		"more counters than room":      {func(_ []byte, g *Geometry) { g.Counters = g.CountersCap + 1 }, ErrCorrupt},
		"more counters than fired":     {func(_ []byte, g *Geometry) { g.Fired.Capacity = g.Counters - 1; g.Fired.Count = 0 }, ErrCorrupt},
		"more counters than a row has": {func(_ []byte, g *Geometry) { g.CountersCap = PageSize / 8 }, ErrCorrupt},
		"as many as there is room for": {func(_ []byte, g *Geometry) {
			g.Rows.EntrySize, g.CountersCap = PageSize, (PageSize-BlCounts)/8-15
			g.Fired.Capacity = 6
		}, nil},
		"more than a baseline has": {func(_ []byte, g *Geometry) {
			g.CountersCap, g.Rows.EntrySize, g.Rows.Count, g.Rows.Capacity = 505, 2*PageSize, 3, 3
		}, ErrCorrupt},
	} {
		raw, g := sample()
		row.change(raw, &g)
		size := int64(len(raw))
		EncodeGeometry(raw, &g)
		if _, err := DecodeGeometry(raw, size); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
	raw, _ := sample()
	if err := CheckSize(raw, -1); !errors.Is(err, ErrTruncated) {
		t.Errorf("a size below 0: %v", err)
	}
}

func TestReadHeader(t *testing.T) {
	edit := func(change func(b []byte) []byte) []byte {
		raw, _ := sample()
		return change(raw)
	}
	for name, row := range map[string]struct {
		b    []byte
		want error
	}{
		"whole":           {edit(func(b []byte) []byte { return b }), nil},
		"empty":           {nil, ErrNotTable},
		"foreign":         {edit(func(b []byte) []byte { b[0] = 'X'; return b }), ErrNotTable},
		"the magic alone": {edit(func(b []byte) []byte { return b[:8] }), ErrTruncated},
		"a hole":          {make([]byte, 2*HeaderSize), ErrBuilding},
		"a page of zeros": {make([]byte, HeaderSize), ErrNotTable},
		"version 0":       {edit(func(b []byte) []byte { b[HdrVersion] = 0; return b }), ErrCorrupt},
		"reset":           {edit(func(b []byte) []byte { b[HdrVersion] = VersionReset; return b }), nil},
		"newer":           {edit(func(b []byte) []byte { b[HdrVersion+3] = 1; return b }), ErrVersion},
		"no strings":      {edit(func(b []byte) []byte { le.PutUint64(b[HdrStrings:], 1<<50); return b }), ErrCorrupt},
		"no such string":  {edit(func(b []byte) []byte { le.PutUint32(b[HdrListen:], 6); return b }), ErrCorrupt},
		"string without end": {edit(func(b []byte) []byte {
			copy(b[le.Uint64(b[HdrStrings:]):], "\x00progX")
			return b
		}), ErrCorrupt},
		"cut in front of the strings": {edit(func(b []byte) []byte { return b[:HeaderSize] }), ErrTruncated},
		"still building, no strings": {edit(func(b []byte) []byte {
			b[HdrState] = StateBuilding
			return b[:HeaderSize]
		}), nil},
	} {
		h, raw, err := ReadHeader(bytes.NewReader(row.b), int64(len(row.b)))
		if !errors.Is(err, row.want) || (h == nil) != (err != nil) || (raw == nil) != (err != nil) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
		if err == nil && h.State == StateLive && h.Program != "prog" {
			t.Errorf("%s: program %q", name, h.Program)
		}
	}
	mine := errors.New("a disk fails")
	if _, _, err := ReadHeader(failing{mine}, 1<<20); err != mine {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error)  { return 0, f.err }
func (f failing) WriteAt([]byte, int64) (int, error) { return 0, f.err }

// TestReadString: strings of every length around what is read at once, and around
// the most that there may be.
func TestReadString(t *testing.T) {
	for _, n := range []int{1, 2, 510, 511, 512, 513, 1535, 1536, 1537, 4700, MaxString - 1, MaxString, MaxString + 1, MaxString + 700} {
		for _, more := range []string{"", "more\x00"} {
			text := strings.Repeat("x", n)
			all := "\x00" + text + "\x00" + more
			got, err := ReadString(strings.NewReader(all), Section{Count: uint32(len(all)), EntrySize: 1}, 1)
			if long := n > MaxString; long != errors.Is(err, ErrCorrupt) || !long && got != text {
				t.Errorf("%d bytes and %q: %d bytes, %v", n, more, len(got), err)
			}
			if _, err := ReadString(strings.NewReader(all[:n]), Section{Count: uint32(len(all)), EntrySize: 1}, 1); err == nil {
				t.Errorf("%d bytes, cut: no error", n)
			}
		}
	}
}

func TestEntries(t *testing.T) {
	o := Object{Bias: 1 << 60, Arena: 2, Low: 3, High: 4, Flags: ObjMain, Reason: ledger.ReasonNoMemory, Reserve: 5, Code: 6, Untold: 7}
	b := make([]byte, ObjEntrySize)
	o.Encode(b, 7, 8)
	if got := DecodeObject(b); got != o || le.Uint32(b[ObjPath:]) != 7 || le.Uint32(b[ObjBuildID:]) != 8 {
		t.Errorf("object %+v", got)
	}
	o.Code, o.Untold = 0, 0 // older versions'
	if got := DecodeObject(b[:ObjCode]); got != o {
		t.Errorf("object without code %+v", got)
	}
	o.Reserve = 0
	if got := DecodeObject(b[:LeastObjEntrySize]); got != o {
		t.Errorf("old object %+v", got)
	}
	f := Function{
		Address: 1 << 50, Size: 2, Counter: 3, Stub: 4, Threshold: 5, Object: 6, StubSize: 7,
		Source: ledger.SourceDynsym, Tactic: ledger.TacticHop, Reason: ledger.ReasonTooShort, Count: 9,
	}
	b = make([]byte, FnEntrySize)
	f.Encode(b, 10, 11)
	if got := DecodeFunction(b); !reflect.DeepEqual(got, f) || le.Uint32(b[FnName:]) != 10 || le.Uint32(b[FnAliases:]) != 11 {
		t.Errorf("function %+v", got)
	}
	for _, row := range []struct {
		f    Function
		want bool
	}{
		{f, true}, {Function{Counter: 1}, false}, {Function{Tactic: ledger.TacticJump, Counter: NoCounter}, false},
	} {
		if row.f.Counted() != row.want {
			t.Errorf("%+v counted: %v", row.f, !row.want)
		}
	}
	for state, held := range map[uint32]bool{RowNever: false, RowBirthing: true, RowLive: true, RowFree: false} {
		row := make([]byte, RowCounters)
		le.PutUint32(row[RowState:], 99<<2|state)
		if r := DecodeRow(4, row); r.Held() != held || r.State != state || r.Index != 4 {
			t.Errorf("state %d: %+v", state, r)
		}
	}
	if AllZero([]byte{0, 0, 1}) || !AllZero(nil) || !AllZero(make([]byte, 9)) {
		t.Error("zeros")
	}
}

// memory is a file in memory, as large as what is written into it.
type memory []byte

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	if n := int(at) + len(b); n > len(*m) {
		*m = append(*m, make([]byte, n-len(*m))...)
	}
	return copy((*m)[at:], b), nil
}

func TestSink(t *testing.T) {
	const entries, size = 30000, 24 // more than is written at once
	var m memory
	s := NewSink(&m, Section{Offset: 16, Count: entries, EntrySize: size})
	for i := range entries {
		b := s.Entry(size)
		if !AllZero(b) || len(b) != size {
			t.Fatalf("entry %d is %v", i, b)
		}
		le.PutUint32(s.Last(4), uint32(i))
	}
	if err := s.Flush(); err != nil || len(m) != 16+entries*size {
		t.Fatalf("%d bytes, %v", len(m), err)
	}
	for i := range entries {
		if got := le.Uint32(m[16+size*i+size-4:]); got != uint32(i) {
			t.Fatalf("entry %d holds %d", i, got)
		}
	}
	mine := errors.New("full")
	s = NewSink(failing{mine}, Section{})
	s.Entry(3)
	if err := s.Flush(); err != mine {
		t.Errorf("got %v", err)
	}
	s.Entry(3)
	if err := s.Flush(); err != mine {
		t.Errorf("afterwards: %v", err)
	}
}

func TestReadAt(t *testing.T) {
	b := make([]byte, 4)
	for at, want := range map[int64]error{0: nil, 4: nil, 5: ErrTruncated, 100: ErrTruncated} {
		if err := ReadAt(strings.NewReader("12345678"), b, at); err != want {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if err := ReadAt(failing{io.ErrClosedPipe}, b, 0); err != io.ErrClosedPipe {
		t.Error(err)
	}
}
