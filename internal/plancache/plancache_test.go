package plancache

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/layout"
)

func u32s(values ...uint32) (b []byte) {
	for _, v := range values {
		b = le.AppendUint32(b, v)
	}
	return b
}

func u64s(values ...uint64) (b []byte) {
	for _, v := range values {
		b = le.AppendUint64(b, v)
	}
	return b
}

// patch is an entry: group, needs; length and kind.
func patch(group, needs uint32, n, kind byte) []byte {
	b := append(u32s(group, needs), n, 0, n, kind)
	return append(b, make([]byte, PatchEntrySize-len(b))...)
}

// record is an entry: at, from, lengths; instructions and flags.
func record(at, from, lengths uint32, few, flags byte) []byte {
	return append(u32s(at, from, lengths), few, 0, 0, flags)
}

// demo is a plan with something in every section.
func demo() *Plan {
	p := &Plan{
		Key: []byte("options"), BuildID: []byte{1, 2, 3}, Path: []byte("/bin/demo"), Creator: []byte("a test"),
		File: File{Inode: 7, Size: 9000, Mtime: 1, Ctime: 2, Head: 3},
		Low:  0x1000, High: 0x9000, Arena: ^uint64(0xffff), ArenaSize: 0x2000, Cold: 0x1000, Keeps: 0x1800,
		Hook: 0x2005, Counters: 2, Flags: layout.ObjSelected, Code: 100, Untold: 4,
		Texts: []Text{{0x2000, 0x1000, 0x1000, 5, 3, 2, 1}, {0x4000, 0x2000, 0x3000, 5, 1, 1, 0}},
		Stubs: bytes.Repeat([]byte{0xcc}, 0x2000), Fixups: append(u32s(0, FixSlow), u32s(0x34, FixCounter, 0x1006, FixIndex, 0x1010, FixCode, 0x1014, FixCode)...),
		Records: append(record(0x30, 0x12010, 0, 2, 0), record(0x100, 0x12000, 4, 0, recordLong)...),
		Lengths: append([]byte{1, 1, 4, 9}, append(u32s(1, 300), 3, 3)...), ByText: u32s(1, 0), Islands: u64s(0x2030, 0x2010),
	}
	p.Listed = u32s(0, 0, 0x10, 1, 0x21, callBit, 0x1ffb, 0)
	p.Patches = append(patch(0, noGroup, 5, kindFirst), patch(1, 0, 5, kindIsland)...)
	p.Patches = append(p.Patches, patch(noGroup, noGroup, 5, kindSite)...)
	p.Leds = u32s(1, 0x25, 0x85)
	for i, f := range []layout.Function{
		{Address: 0x2000, Size: 9, Name: "a", Aliases: []string{"b", "c"}, Counter: 0, Stub: 0x30, StubSize: 20, Tactic: ledger.TacticJump},
		{Address: 0x2010, Size: 9, Counter: 1, Stub: 0x100, StubSize: 20, Tactic: ledger.TacticJump, Threshold: 5},
		{Address: 0x2020, Size: 1, Name: "d", Counter: layout.NoCounter, Reason: ledger.ReasonTooShort},
	} {
		f.Source, f.Count = ledger.SourceSymtab, byte(i)
		p.Add(&f)
	}
	p.BlockCounters, p.Sets = 3+layout.TrWords+2+2*layout.SetWords, 2
	p.AddBlock(&layout.Block{Address: 0x2000, Size: 4, Counter: 0, After: layout.NoBlock, Loop: layout.NoLoop, Instructions: 1, Flags: layout.BlockEntry})
	p.AddBlock(&layout.Block{Address: 0x2010, Size: 5, Function: 1, Counter: layout.NoCounter, After: 0, Loop: 0, Callee: 3})
	p.AddBlock(&layout.Block{Address: 0x2015, Size: 2, Function: 1, Counter: layout.NoCounter, After: layout.NoBlock, Loop: layout.NoLoop, Callee: 3 + layout.TrWords, Flags: layout.BlockNote})
	p.AddWay(&layout.Way{From: layout.NoBlock, To: 0, Counter: layout.NoCounter, Flags: layout.WayCalls})
	p.AddWay(&layout.Way{From: 1, To: layout.NoBlock, Counter: 2})
	p.AddLoop(&layout.Loop{Header: 1, Parent: layout.NoLoop, Flags: layout.LoopUntold, Trips: 3})
	p.AddSite(&layout.Site{Address: 0x2004, Caller: 0, Callee: 1, Counter: 2, Stub: 0x200, Count: 9})
	p.AddSite(&layout.Site{Address: 0x2014, Caller: 1, Callee: 0, Counter: layout.NoCounter, Flags: layout.SiteTail})
	return p
}

// TestRoundTrip: what is decoded is what was encoded.
func TestRoundTrip(t *testing.T) {
	want := demo()
	got, err := Decode(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got.Sum == 0 {
		t.Error("it has no sum")
	}
	if got.Sum = 0; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	var names []string
	for i, f := range got.Each(func(b []byte) string { return string(b) }) {
		names = append(append(names, f.Name), f.Aliases...)
		if f.Count != uint8(i) {
			t.Errorf("function %d is %+v", i, f)
		}
	}
	if want := []string{"a", "b", "c", "", "d"}; !reflect.DeepEqual(names, want) {
		t.Errorf("names %q", names)
	}
	file := make([]byte, 0x8000)
	copy(file[0x1021:], u32s(0))
	if err := got.CheckFile(bytes.NewReader(file)); err != nil {
		t.Errorf("its object's file: %v", err)
	}
	file[0x3000+0x1ffb] = 1
	if err := got.CheckFile(bytes.NewReader(file)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file with another byte: %v", err)
	}
	if err := got.CheckFile(bytes.NewReader(file[:0x3100])); err == nil {
		t.Error("a file that is cut")
	}
	empty := &Plan{Low: 0x1000, High: 0x2000, Ledger: Ledger{Strings: []byte{0}, Aliases: u32s(0)}}
	if _, err := Decode(empty.Encode()); err != nil {
		t.Errorf("an object without an arena: %v", err)
	}
}

// TestRefused: each of these is a plan that nobody may use.
func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Plan){
		"no pages":                func(p *Plan) { p.High = p.Low },
		"half a page":             func(p *Plan) { p.Low++ },
		"no user's memory":        func(p *Plan) { p.High = 1 << 48 },
		"arena: size":             func(p *Plan) { p.ArenaSize += 4096 },
		"arena: page":             func(p *Plan) { p.Arena += 8 },
		"arena: far below":        func(p *Plan) { p.Arena = ^uint64(1<<32 - 1) },
		"arena: far above":        func(p *Plan) { p.Arena = 1 << 33 },
		"cold behind keep":        func(p *Plan) { p.Cold = p.Keeps + 1 },
		"no cold":                 func(p *Plan) { p.Cold = 0 },
		"keep behind the end":     func(p *Plan) { p.Keeps = p.ArenaSize + 1 },
		"hook outside":            func(p *Plan) { p.Hook = p.High },
		"reason":                  func(p *Plan) { p.Reason = 300 },
		"text outside":            func(p *Plan) { p.Texts[1].Size = 0x8000 },
		"text: half a page":       func(p *Plan) { p.Texts[1].Start += 8 },
		"text: none":              func(p *Plan) { p.Texts[1].Size = 0 },
		"texts overlap":           func(p *Plan) { p.Texts[1].Start = 0x2000 },
		"text: protection":        func(p *Plan) { p.Texts[0].Prot = 8 },
		"text: changes":           func(p *Plan) { p.Texts[1].Listed = 9 },
		"text: patches":           func(p *Plan) { p.Texts[1].Patches = 9 },
		"text: functions":         func(p *Plan) { p.Texts[0].Leds = 2 },
		"changes of no text":      func(p *Plan) { p.Texts[1].Listed, p.Texts[1].Patches = 0, 0 },
		"patches of no text":      func(p *Plan) { p.Patches = append(p.Patches, p.Patches[:PatchEntrySize]...) },
		"functions of no text":    func(p *Plan) { p.Leds = append(p.Leds, p.Leds...) },
		"patches of no change":    func(p *Plan) { p.Texts[1].Listed, p.Listed = 0, p.Listed[:3*ListedEntrySize] },
		"change: order":           func(p *Plan) { le.PutUint32(p.Listed, 0x11) },
		"change: end":             func(p *Plan) { le.PutUint32(p.Listed[3*ListedEntrySize:], 0x1ffc) },
		"change: another's patch": func(p *Plan) { le.PutUint32(p.Listed[listedOf:], 1) },
		"change: none's patch":    func(p *Plan) { le.PutUint32(p.Listed[3*ListedEntrySize+listedOf:], 1) },
		"patch: length":           func(p *Plan) { p.Patches[patchLen] = 7 },
		"patch: empty":            func(p *Plan) { p.Patches[patchLen] = 0 },
		"patch: kind":             func(p *Plan) { p.Patches[patchKind] = 4 },
		"patch: group":            func(p *Plan) { le.PutUint32(p.Patches[patchGroup:], 3) },
		"patch: needs":            func(p *Plan) { le.PutUint32(p.Patches[patchNeeds:], 3) },
		"patch: site of one":      func(p *Plan) { p.Patches[patchKind] = kindSite },
		"call: no opcode": func(p *Plan) {
			p.Listed = append(u32s(0, callBit), p.Listed...)
			p.Texts[0].Listed++
		},
		"call: end": func(p *Plan) { le.PutUint32(p.Listed[2*ListedEntrySize:], 0xffd) },
		"call: by a slot of none": func(p *Plan) {
			le.PutUint32(p.Listed[2*ListedEntrySize+listedOf:], callBit|slotBit|1)
		},
		"call: of none":           func(p *Plan) { le.PutUint32(p.Listed[2*ListedEntrySize+listedOf:], callBit|1) },
		"call: group":             func(p *Plan) { le.PutUint32(p.Leds[ledGroup:], 3) },
		"fixup: kind":             func(p *Plan) { p.Fixups[FixKind] = FixReturn + 1 },
		"fixup: order":            func(p *Plan) { p.Fixups[FixEntrySize] = 7 },
		"fixup: end":              func(p *Plan) { le.PutUint32(p.Fixups[2*FixEntrySize:], 0x1ffd) },
		"record: order":           func(p *Plan) { p.Records[0], p.Records[1] = 0, 2 },
		"record: outside":         func(p *Plan) { le.PutUint32(p.Records[RecordEntrySize:], 0x2000) },
		"record: lengths":         func(p *Plan) { p.Records[recordFew] = 8 },
		"record: long":            func(p *Plan) { p.Lengths[4] = 2 },
		"record: long's words":    func(p *Plan) { p.Records[RecordEntrySize+recordLengths] = 7 },
		"by text: one is missing": func(p *Plan) { p.ByText = p.ByText[:4] },
		"by text: none of ours":   func(p *Plan) { p.ByText[0] = 2 },
		"by text: order":          func(p *Plan) { p.ByText = u32s(0, 1) },
		"by text: not its text":   func(p *Plan) { le.PutUint32(p.Records[RecordEntrySize+recordFrom:], 0) },
		"island outside":          func(p *Plan) { le.PutUint64(p.Islands, 0x9000) },
		"island: from outside":    func(p *Plan) { le.PutUint64(p.Islands[8:], 0) },
		"islands: order":          func(p *Plan) { p.Islands = append(p.Islands, u64s(0x2010, 0x2010)...) },
		"counters":                func(p *Plan) { p.Counters = 4 },
		"function: its counter":   func(p *Plan) { p.Counters = 1 },
		"function: another's":     func(p *Plan) { le.PutUint32(p.Functions[functionSize+layout.FnCounter:], 0) },
		"function: not counted":   func(p *Plan) { le.PutUint32(p.Functions[2*functionSize+layout.FnCounter:], 1) },
		"functions: order": func(p *Plan) {
			le.PutUint32(p.Functions[layout.FnCounter:], 1)
			le.PutUint32(p.Functions[functionSize+layout.FnCounter:], 0)
		},
		"record: odd":           func(p *Plan) { p.Records[recordLengths] = 1; p.Lengths = append(p.Lengths, 1) },
		"record: front":         func(p *Plan) { p.Records[recordFlags] |= recordFront },
		"record: no count":      func(p *Plan) { p.Records[recordSmall] = 1 },
		"record: count":         func(p *Plan) { le.PutUint32(p.Records[RecordEntrySize:], 0xff0) },
		"function: stub":        func(p *Plan) { le.PutUint32(p.Functions[layout.FnStub:], 0xff0) },
		"function: name":        func(p *Plan) { le.PutUint32(p.Functions[layout.FnName:], uint32(len(p.Strings))) },
		"function: aliases":     func(p *Plan) { le.PutUint32(p.Functions[layout.FnAliases:], uint32(len(p.Aliases)/4)) },
		"function: object":      func(p *Plan) { p.Functions[layout.FnObject] = 1 },
		"alias":                 func(p *Plan) { le.PutUint32(p.Aliases[4:], uint32(len(p.Strings))) },
		"aliases: no end":       func(p *Plan) { p.Aliases = p.Aliases[:len(p.Aliases)-4] },
		"aliases: none":         func(p *Plan) { p.Aliases = nil },
		"strings: no end":       func(p *Plan) { p.Strings = append(p.Strings, 'x') },
		"strings: no empty one": func(p *Plan) { p.Strings[0] = 'x' },
		"strings: none":         func(p *Plan) { p.Strings = nil },
		"block: function":       func(p *Plan) { le.PutUint32(p.Blocks[layout.BkFunction:], 3) },
		"block: counter":        func(p *Plan) { le.PutUint32(p.Blocks[layout.BkCounter:], p.BlockCounters) },
		"block: behind none":    func(p *Plan) { le.PutUint32(p.Blocks[layout.BkAfter:], 3) },
		"block: note in slots":  func(p *Plan) { le.PutUint32(p.Blocks[2*layout.BkEntrySize+layout.BkCallee:], layout.TrWords+4) },
		"sets":                  func(p *Plan) { p.Sets = 3 },
		"sets: none":            func(p *Plan) { p.Sets = 0 },
		"sets: more than words": func(p *Plan) { p.Sets = 1 << 31 },
		"block: loop":           func(p *Plan) { le.PutUint32(p.Blocks[layout.BkLoop:], 1) },
		"block: callee":         func(p *Plan) { le.PutUint32(p.Blocks[layout.BkCallee:], 4) },
		"way: from":             func(p *Plan) { le.PutUint32(p.Ways[layout.WyFrom:], 3) },
		"way: to":               func(p *Plan) { le.PutUint32(p.Ways[layout.WyTo:], 3) },
		"way: counter":          func(p *Plan) { le.PutUint32(p.Ways[layout.WyEntrySize+layout.WyCounter:], p.BlockCounters) },
		"loop: header":          func(p *Plan) { le.PutUint32(p.Loops[layout.LpHeader:], layout.NoBlock) },
		"loop: parent":          func(p *Plan) { le.PutUint32(p.Loops[layout.LpParent:], 1) },
		"loop: trips in slots":  func(p *Plan) { le.PutUint32(p.Loops[layout.LpTrips:], 6) },
		"loop: no trips":        func(p *Plan) { le.PutUint32(p.Loops[layout.LpTrips:], 0) },
		"counters of blocks":    func(p *Plan) { p.BlockCounters += 5 },
		"site: caller":          func(p *Plan) { le.PutUint32(p.Sites[layout.StCaller:], 3) },
		"site: callee":          func(p *Plan) { le.PutUint32(p.Sites[layout.StEntrySize+layout.StCallee:], 3) },
		"site: counter":         func(p *Plan) { le.PutUint32(p.Sites[layout.StCounter:], p.BlockCounters) },
		"site: stub":            func(p *Plan) { le.PutUint32(p.Sites[layout.StStub:], 0xff8) },
		"changes without an arena": func(p *Plan) {
			*p = Plan{Low: p.Low, High: p.High, Texts: p.Texts, Listed: p.Listed, Patches: p.Patches, Leds: p.Leds, Ledger: p.Ledger}
		},
	} {
		p := demo()
		spoil(p)
		if _, err := Decode(p.Encode()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamaged: of a file that is cut, or has another byte anywhere, nothing is taken.
func TestDamaged(t *testing.T) {
	whole := demo().Encode()
	for range 2000 {
		b := bytes.Clone(whole)
		b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		if _, err := Decode(b); err == nil {
			t.Fatal("a byte was another")
		}
		if _, err := Decode(whole[:rand.IntN(len(whole))]); err == nil {
			t.Fatal("it was cut")
		}
	}
	for _, row := range []struct {
		at   int
		want error
	}{{PlanMagic, ErrNotPlan}, {PlanVersion, ErrVersion}, {PlanHdrSize, ErrCorrupt}, {PlanFileSize, ErrCorrupt}, {PlanCheck, ErrCorrupt}} {
		b := bytes.Clone(whole)
		b[row.at]++
		if _, err := Decode(b); !errors.Is(err, row.want) {
			t.Errorf("byte %#x: %v, not %v", row.at, err, row.want)
		}
	}
}

// FuzzDecode: it refuses, or all that it tells can be walked over. The sum is made
// right: it is no defence against somebody who means it.
func FuzzDecode(f *testing.F) {
	whole := demo().Encode()
	f.Add(whole)
	f.Add(whole[:PlanHeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= PlanHeaderSize {
			b = bytes.Clone(b)
			copy(b[PlanMagic:], FileMagic)
			le.PutUint32(b[PlanVersion:], FileVersion)
			le.PutUint64(b[PlanFileSize:], uint64(len(b)))
			le.PutUint32(b[PlanHdrSize:], PlanHeaderSize)
			le.PutUint64(b[PlanCheck:], sumOf(b))
		}
		p, err := Decode(b)
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if err != nil {
			return
		}
		n := 0
		for _, f := range p.Each(func(b []byte) string { return string(b) }) {
			n += len(f.Name) + len(f.Aliases)
		}
		if _, err := Decode(p.Encode()); err != nil {
			t.Errorf("what was decoded and encoded is refused: %v", err)
		}
	})
}
