package plancache

import (
	"fmt"
	"math"

	"github.com/dynprof/dynprof/internal/table/layout"
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Decode reads a file. The plan's slices are parts of b. Errors: ErrNotPlan,
// ErrVersion, ErrCorrupt.
func Decode(b []byte) (*Plan, error) {
	if len(b) < PlanHeaderSize || string(b[:len(FileMagic)]) != FileMagic {
		return nil, ErrNotPlan
	}
	if v := le.Uint32(b[PlanVersion:]); v != FileVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, v)
	}
	if n := le.Uint64(b[PlanFileSize:]); n != uint64(len(b)) || le.Uint32(b[PlanHdrSize:]) != PlanHeaderSize {
		return nil, corrupt("%d bytes, not %d", len(b), n)
	}
	sum := sumOf(b)
	if sum != le.Uint64(b[PlanCheck:]) {
		return nil, corrupt("its sum is another")
	}
	p := &Plan{Sum: sum}
	for _, w := range p.words() {
		if w.u64 != nil {
			*w.u64 = le.Uint64(b[w.at:])
		} else {
			*w.u32 = le.Uint32(b[w.at:])
		}
	}
	var texts []byte
	for _, s := range p.parts(&texts) {
		var err error
		if *s.bytes, err = section(b, s.at, s.size); err != nil {
			return nil, err
		}
	}
	for ; len(texts) > 0; texts = texts[TextEntrySize:] {
		p.Texts = append(p.Texts, Text{
			Start: le.Uint64(texts[TextStart:]), Size: le.Uint64(texts[TextSize:]), Offset: le.Uint64(texts[TextOffset:]),
			Prot: le.Uint32(texts[TextProt:]), Listed: le.Uint32(texts[TextListed:]), Patches: le.Uint32(texts[TextPatches:]), Leds: le.Uint32(texts[TextLeds:]),
		})
	}
	for _, check := range []func() error{p.checkHeader, p.checkTexts, p.checkFixups, p.checkOrigins, p.checkLedger, p.checkFlow, p.checkSites} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// section is what the header at says is one.
func section(b []byte, at, size int) ([]byte, error) {
	offset, count := le.Uint64(b[at+PartOffset:]), uint64(le.Uint32(b[at+PartCount:]))
	if n := le.Uint32(b[at+PartEntrySize:]); n != uint32(size) {
		return nil, corrupt("the entries of section %#x have %d bytes", at, n)
	}
	all := uint64(len(b))
	if offset < PlanHeaderSize || offset%aligned != 0 || offset > all || count > (all-offset)/uint64(size) {
		return nil, corrupt("section %#x: %d entries at %#x", at, count, offset)
	}
	return b[offset:][: count*uint64(size) : count*uint64(size)], nil
}

const (
	pageSize = 4096

	// farthest is how far an arena may be from its object's ends: what a
	// displacement reaches.
	farthest = 1 << 31
)

func (p *Plan) checkHeader() error {
	if p.Low >= p.High || p.Low%pageSize != 0 || p.High%pageSize != 0 || p.High > 1<<47 {
		return corrupt("an object from %#x to %#x", p.Low, p.High)
	}
	if p.ArenaSize%pageSize != 0 || p.Arena%pageSize != 0 || p.ArenaSize != uint64(len(p.Stubs)) {
		return corrupt("an arena of %d bytes", p.ArenaSize)
	}
	if p.Cold > p.Keeps || p.Keeps > p.ArenaSize || p.ArenaSize > 0 && p.Cold == 0 {
		return corrupt("cold blocks at %#x, keep blocks at %#x of %#x", p.Cold, p.Keeps, p.ArenaSize)
	}
	if p.ArenaSize > 0 && (far(p.Arena, p.High) || far(p.Arena+p.ArenaSize, p.Low)) {
		return corrupt("an arena at %#x", p.Arena)
	}
	if p.Hook != 0 && !p.has(p.Hook, 1) || p.Reason > math.MaxUint8 {
		return corrupt("a function of the dynamic linker at %#x, reason %d", p.Hook, p.Reason)
	}
	return nil
}

// far is whether two addresses are out of each other's reach; one may be below 0.
func far(a, b uint64) bool {
	d := int64(a - b)
	return d >= farthest || d <= -farthest
}

// has is whether [at, at+n) is of the object.
func (p *Plan) has(at, n uint64) bool { return at >= p.Low && at < p.High && n <= p.High-at }

func (p *Plan) checkTexts() error {
	listed, patches, leds, end := p.Listed, p.Patches, p.Leds, p.Low
	for _, t := range p.Texts {
		if t.Start < end || t.Start%pageSize != 0 || t.Size == 0 || t.Size%pageSize != 0 || !p.has(t.Start, t.Size) || t.Size > math.MaxUint32 || t.Prot > 7 {
			return corrupt("text at %#x, %#x bytes", t.Start, t.Size)
		}
		end = t.Start + t.Size
		if uint64(t.Listed) > uint64(len(listed)/ListedEntrySize) || uint64(t.Patches) > uint64(len(patches)/PatchEntrySize) || uint64(t.Leds) > uint64(len(leds)/LedEntrySize) {
			return corrupt("%d changes, %d patches, %d functions at %#x", t.Listed, t.Patches, t.Leds, t.Start)
		}
		n, k, m := t.Listed*ListedEntrySize, t.Patches*PatchEntrySize, t.Leds*LedEntrySize
		c := changes{listed[:n], patches[:k], leds[:m], uint32(t.Size), uint32(p.Count())}
		if err := c.check(); err != nil {
			return err
		}
		listed, patches, leds = listed[n:], patches[k:], leds[m:]
	}
	if len(listed)+len(patches)+len(leds) > 0 || len(p.Listed) > 0 && p.ArenaSize == 0 {
		return corrupt("changes of no text")
	}
	return nil
}

// Where the fields of changes are (patcher/patch/undo.go), and what they may be.
const (
	listedOf                                                               = 4
	patchGroup, patchNeeds, patchLen, patchKind, patchOld, patchNew        = 0, 4, 10, 11, 12, 18
	ledGroup, ledEntry, ledStub                                            = 0, 4, 8
	callBit                                                         uint32 = 1 << 31
	slotBit                                                         uint32 = 1 << 30

	callSize, mostChanged           = 4, 6
	noGroup                         = math.MaxUint32
	kindFirst, kindIsland, kindSite = 0, 1, 3
)

func listedAt(b []byte) uint32 { return le.Uint32(b) }

// changes are those of a text of so many bytes, of an object with so many functions.
type changes struct {
	listed, patches, leds []byte
	size, functions       uint32
}

// check: changes are in the order of their addresses, patches in that of the changes.
func (c *changes) check() error {
	last, patches := uint32(0), c.patches
	for b := c.listed; len(b) > 0; b = b[ListedEntrySize:] {
		at, of, n := listedAt(b), le.Uint32(b[listedOf:]), uint32(callSize)
		if of&callBit != 0 {
			if at == 0 || of&^(callBit|slotBit) >= uint32(len(c.leds)/LedEntrySize) { // the opcode is in front
				return corrupt("call % x", b[:ListedEntrySize])
			}
		} else {
			if int(of) != (len(c.patches)-len(patches))/PatchEntrySize || !c.goodPatch(patches) {
				return corrupt("patch % x", b[:ListedEntrySize])
			}
			n, patches = uint32(patches[patchLen]), patches[PatchEntrySize:]
		}
		if at < last || at > c.size || n > c.size-at {
			return corrupt("change % x", b[:ListedEntrySize])
		}
		last = at
	}
	for b := c.leds; len(b) > 0; b = b[LedEntrySize:] {
		if le.Uint32(b[ledGroup:]) >= c.functions {
			return corrupt("calls of % x", b[:LedEntrySize])
		}
	}
	if len(patches) > 0 {
		return corrupt("%d patches of no change", len(patches)/PatchEntrySize)
	}
	return nil
}

// goodPatch checks the first of the patches.
func (c *changes) goodPatch(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	n, kind, group, needs := b[patchLen], b[patchKind], le.Uint32(b[patchGroup:]), le.Uint32(b[patchNeeds:])
	if n == 0 || n > mostChanged || needs != noGroup && needs >= c.functions {
		return false
	}
	if kind == kindSite {
		return group == noGroup
	}
	return group < c.functions && kind <= kindIsland
}

func (p *Plan) checkFixups() error {
	end := uint64(0)
	for f := p.Fixups; len(f) > 0; f = f[FixEntrySize:] {
		at, kind, n := uint64(le.Uint32(f[FixAt:])), le.Uint32(f[FixKind:]), uint64(8)
		if kind <= FixCode {
			n = 4
		}
		if at < end || kind > FixReturn || at+n > p.ArenaSize {
			return corrupt("fixup of kind %d at %#x", kind, at)
		}
		end = at + n
	}
	return nil
}

// Where the fields of a record are (stubgen/emit/origins.go), and of the words in front
// of the lengths of a long run.
const (
	recordAt, recordFrom, recordLengths, recordFew, recordSmall, recordFlags = 0, 4, 8, 12, 14, 15

	recordFront = 1 << 2
	recordLong  = 1 << 3
	longCount   = 4
	longWords   = 8
)

func (p *Plan) checkOrigins() error {
	count := len(p.Records) / RecordEntrySize
	if len(p.ByText) != 4*count {
		return corrupt("%d records, and %d in the order of their text", count, len(p.ByText)/4)
	}
	last := uint32(0)
	for r := p.Records; len(r) > 0; r = r[RecordEntrySize:] {
		at := le.Uint32(r[recordAt:])
		if at < last || uint64(at) >= p.ArenaSize || !p.goodLengths(r) {
			return corrupt("record % x", r[:RecordEntrySize])
		}
		last = at
	}
	before := int32(math.MinInt32)
	for b := p.ByText; len(b) > 0; b = b[4:] {
		i := le.Uint32(b)
		if i >= uint32(count) {
			return corrupt("record %d of %d", i, count)
		}
		from := int32(le.Uint32(p.Records[i*RecordEntrySize+recordFrom:]))
		if from < before || !p.has(p.Arena+uint64(int64(from)), 1) {
			return corrupt("record %d is of %#x", i, from)
		}
		before = from
	}
	return p.checkIslands()
}

// goodLengths is whether the first record's instructions have lengths, and its count, which
// is changed when counting ends, is in front of the cold blocks. No stub that is kept has
// a front.
func (p *Plan) goodLengths(r []byte) bool {
	const leastCount = 2
	from, n, count := uint64(le.Uint32(r[recordLengths:])), uint64(le.Uint16(r[recordFew:])), uint64(r[recordSmall])
	all := uint64(len(p.Lengths))
	if from%2 != 0 || r[recordFlags]&recordFront != 0 {
		return false
	}
	if r[recordFlags]&recordLong != 0 {
		if from+longWords > all {
			return false
		}
		n, count = uint64(le.Uint32(p.Lengths[from:])), uint64(le.Uint32(p.Lengths[from+longCount:]))
		from += longWords
	}
	return from+2*n <= all && (count == 0 || count >= leastCount && uint64(le.Uint32(r[recordAt:]))+count <= p.Cold)
}

func (p *Plan) checkIslands() error {
	last := uint64(0)
	for b := p.Islands; len(b) > 0; b = b[IslandEntrySize:] {
		at, from := le.Uint64(b[IslandAt:]), le.Uint64(b[IslandFrom:])
		if at < last || !p.has(at, 1) || !p.has(from, 1) {
			return corrupt("an island at %#x, from %#x", at, from)
		}
		last = at
	}
	return nil
}

// checkLedger: counters are in the order of their functions, one of each at most.
func (p *Plan) checkLedger() error {
	if uint64(p.Counters) > uint64(p.Count()) {
		return corrupt("%d counters of %d functions", p.Counters, p.Count())
	}
	if n := len(p.Strings); n == 0 || p.Strings[0] != 0 || p.Strings[n-1] != 0 {
		return corrupt("strings without an end")
	}
	if err := p.checkAliases(); err != nil {
		return err
	}
	next := uint32(0)
	for i, b := 0, p.Functions; len(b) > 0; i, b = i+1, b[functionSize:] {
		f := decodeFunction(b)
		if f.Object != 0 || !p.isString(f.name) || f.aliases >= uint32(len(p.Aliases)/4) {
			return corrupt("function %d", i)
		}
		if !f.Counted() && f.Counter == layout.NoCounter {
			continue
		}
		if !f.Counted() || f.Counter < next || f.Counter >= p.Counters || uint64(f.Stub)+uint64(f.StubSize) > p.Cold {
			return corrupt("function %d has counter %d, stub %#x", i, f.Counter, f.Stub)
		}
		next = f.Counter + 1
	}
	return nil
}

// checkAliases: the first list is empty, and the last one has an end.
func (p *Plan) checkAliases() error {
	n := len(p.Aliases) / 4
	if n == 0 || le.Uint32(p.Aliases) != 0 || le.Uint32(p.Aliases[4*(n-1):]) != 0 {
		return corrupt("aliases without an end")
	}
	for b := p.Aliases; len(b) > 0; b = b[4:] {
		if !p.isString(le.Uint32(b)) {
			return corrupt("alias at %#x", le.Uint32(b))
		}
	}
	return nil
}

func (p *Plan) isString(at uint32) bool { return at < uint32(len(p.Strings)) }
