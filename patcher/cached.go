package patcher

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/stubgen/emit"
)

// Plans of earlier starts (docs/architecture.md, "The plan cache"). An object that has
// one is neither read nor surveyed: its arena, its changes, its origins and its ledger
// are those of the file, with what depends on the process put in. Every window's bytes
// are compared when it is patched, as ever.

// mayCache reports whether objects are planned alike in all processes: nothing depends on
// others, on names that a user gave, or on who watches.
func (p *Plan) mayCache() bool {
	o := &p.Options
	return p.Cache != nil && !p.Translator && p.Entries.Allocator == 0 && !p.how.shared && !p.how.debugged && !o.On[setting.AllowTraps] && o.Only == nil && o.Skip == nil && o.BlocksOf == nil && o.Threshold.Same()
}

// slots is how many places are tried for an arena, so that there is a plan for a program in
// which other arenas lie in the first ones. A plan for a place that is no slot's is kept
// behind those for slots.
const slots = 4

// keyOf is for what the plan of o with its arena in a slot is made.
func (p *Plan) keyOf(o *object, slot int) []byte {
	hook := uint64(0)
	if brk := p.LinkerHook; brk >= o.span.Low && brk < o.span.High {
		hook = brk - o.bias
	}
	return fmt.Appendf(nil, "planner %x\nselected %t\nkeep-calls %t\nblocks %t\nedges %s\ntrips %t\nheat %s\nswitch %s\nthreshold %d\nhook %x\nslot %d\n",
		p.Planner, o.selected, p.Options.On[setting.KeepCalls], p.Options.On[setting.Blocks], p.edges(), p.how.trips, p.how.heats(), p.switches(), p.Options.Threshold.All, hook, slot)
}

// edges is what is counted besides. Slots of what comes later are not bound when it is planned:
// its calls by these are not counted by site.
func (p *Plan) edges() string {
	switch {
	case p.how.sites && p.Late:
		return "later"
	case p.how.sites || p.how.notes:
		return "true"
	}
	return "false"
}

// heats is how touched memory is noted, if it is.
func (d *decision) heats() string {
	how := fmt.Sprintf("shifts %d", d.granule)
	switch {
	case !d.heat:
		return "none"
	case d.records && d.masks:
		how = "regions masks"
	case d.records:
		how = "regions"
	case d.threads:
		how = "threads"
	case d.tells && d.masks:
		how = "who masks"
	case d.tells:
		how = "who"
	case d.masks:
		how = fmt.Sprintf("masks %d", d.granule)
	}
	if d.bases {
		how += " bases"
	}
	return how
}

// switches is how switches are at the start, if there are any.
func (p *Plan) switches() string {
	switch {
	case !p.how.switched:
		return "none"
	case p.Options.Overhead > 0:
		return "by turns"
	case p.Options.Hot:
		return "off"
	}
	return "on"
}

// findCached finds the plans that earlier starts have left.
func (p *Plan) findCached() {
	if !p.caches {
		return
	}
	p.cached = place.NewSpace(p.maps, p.target.Lowest(), p.target.Growth())
	reserve := p.ReserveSize / 2 // half for what is planned now
	for _, o := range p.all {
		if o.unnamed || len(o.files) == 0 || !o.identify() {
			continue
		}
		for slot := 0; slot <= slots && o.cached == nil; slot++ {
			c := p.load(o, slot)
			if c == nil {
				continue
			}
			size := c.ArenaSize + uint64(len(c.Records)+len(c.Lengths)+len(c.ByText)+len(c.Islands)+len(c.Listed)+len(c.Patches)+len(c.Leds))
			if size <= reserve && (c.ArenaSize == 0 || p.cached.Take(o.span, c.Arena+o.bias, c.ArenaSize)) {
				reserve, o.cached, o.hook = reserve-size, c, c.Hook
			} else if o.main {
				o.has[slot] = false // of one that is not position-independent: a heap that starts lower may have its place
			}
		}
	}
}

// load finds the plan of o for a slot; nil: there is none.
func (p *Plan) load(o *object, slot int) *plancache.Plan {
	key := p.keyOf(o, slot)
	c, err := plancache.Decode(p.Cache.Load(*o.id, key))
	if err != nil || !o.is(c, key) || o.hasWritten() {
		return nil
	}
	o.has[slot] = true
	return c
}

// openIdentified opens the file that o was loaded from, and asks for its identity.
func (o *object) openIdentified() (f target.File, id target.Identity, err error) {
	if f, err = o.target.Open(o.path); err != nil {
		return nil, id, err
	}
	i, ok := f.(target.Identified)
	if ok {
		id, err = i.Identity()
	}
	if !ok || err != nil {
		f.Close()
		return nil, id, errors.Join(errOther, err)
	}
	return f, id, nil
}

var errOther = errors.New("its file is another by now")

func (o *object) identify() bool {
	f, id, err := o.openIdentified()
	if err != nil {
		return false
	}
	defer f.Close()
	if id.Inode == o.files[0].Inode {
		o.id = &id
	}
	return o.id != nil
}

// sum reads what is loaded of the file, if its times do not tell it from others: only where
// there is a plan to compare with, or to keep.
func (o *object) sum() error {
	if o.content != 0 || plancache.TimesTell(o.id.Mtime, o.id.Ctime) {
		return nil
	}
	f, id, err := o.openIdentified()
	if err != nil {
		return err
	}
	defer f.Close()
	if id != *o.id {
		return errOther
	}
	o.content, err = plancache.ContentOf(f, o.id.Size)
	return err
}

// is reports whether c is the plan of o for what key says: it was made for that, of the same file,
// which is mapped as it was then.
func (o *object) is(c *plancache.Plan, key []byte) bool {
	head, ok := o.head()
	low, high := o.mapped()
	return ok && bytes.Equal(c.Key, key) && c.Low == low && c.High == high &&
		!slices.ContainsFunc(c.Texts, func(t plancache.Text) bool { return !o.hasText(&t) }) &&
		o.sum() == nil && c.File == o.file(head)
}

func (o *object) file(head uint64) plancache.File {
	return plancache.File{Inode: o.id.Inode, Size: o.id.Size, Mtime: o.id.Mtime, Ctime: o.id.Ctime, Head: head, Content: o.content}
}

// head is the sum of the beginning of the file, in memory.
func (o *object) head() (sum uint64, ok bool) {
	m := &o.files[0]
	if m.Offset != 0 || m.Prot&procmaps.ProtRead == 0 {
		return 0, false
	}
	return plancache.HeadOf(o.target.View(m.Start, plancache.HeadSize)), true
}

// mapped is from where to where the file is mapped, at link-time addresses.
func (o *object) mapped() (low, high uint64) {
	return o.files[0].Start - o.bias, o.files[len(o.files)-1].End - o.bias
}

func (o *object) hasText(t *plancache.Text) bool {
	return slices.ContainsFunc(o.exec, func(m procmaps.Mapping) bool {
		return m.Start-o.bias == t.Start && m.End-m.Start == t.Size && uint32(m.Prot) == t.Prot && m.Offset == t.Offset
	})
}

// hasWritten reports whether somebody may have changed the object's code: a debugger,
// the dynamic linker for a text relocation.
func (o *object) hasWritten() bool {
	return slices.ContainsFunc(o.exec, func(m procmaps.Mapping) bool {
		pages, err := o.target.Written(m.Start, m.End)
		return err != nil || len(pages) > 0 || m.Prot&procmaps.ProtRead == 0
	})
}

// dropCached plans as if there were none: others decide how all count.
func (p *Plan) dropCached() {
	p.caches, p.cached = false, nil
	for _, o := range p.all {
		if o.cached != nil {
			o.cached, o.hook = nil, 0
			p.planObject(o)
		}
	}
}

// count is the number of its functions in the ledger.
func (o *object) count() int {
	if o.cached != nil {
		return o.cached.Count()
	}
	return len(o.plans)
}

// alone makes a group of each span: an arena that serves one object only is the same
// in all processes.
func alone(spans []place.Span) (groups [][]int, around []place.Span) {
	for i := range spans {
		groups = append(groups, []int{i})
	}
	return groups, spans
}

// placeArena finds a place for a. One that may be cached gets the place that it would
// have in other processes, too.
func (p *Plan) placeArena(space placer, a *arena, around place.Span, view uint64) (at uint64, ok bool) {
	size, o := a.size+a.private+view, a.objects[0]
	if o.cached != nil {
		return o.cached.Arena + o.bias, true // it is taken already
	}
	t, can := space.(taker)
	if at = place.Behind(around); can && p.caches && o.main && size > around.Low && place.InReach(around, at, size) && t.Take(around, at, size) {
		return at, true // there is no room below
	}
	if can && p.caches && !o.main && len(o.files) > 0 {
		head, _ := o.head()
		for o.slot = 0; o.slot < slots; o.slot++ {
			const next = 0x9e3779b97f4a7c15
			fits := true
			if o.slot == 0 {
				at, fits = place.Shadow(around, size)
			} else {
				at = place.Slot(around, size, head+uint64(o.slot)*next)
			}
			if fits && place.InReach(around, at, size) && t.Take(around, at, size) {
				return at, true
			}
		}
	}
	return space.Place(around, size)
}

// restore writes what the plan has, for this process.
func (a *arena) restore(p *Plan) {
	o, le := a.objects[0], binary.LittleEndian
	copy(a.buf, o.cached.Stubs)
	entries := [...]uint64{
		plancache.FixSlow: p.Entries.Cold, plancache.FixKeeper: p.Entries.Keep,
		plancache.FixSite: p.Entries.Site, plancache.FixChanged: p.Entries.Changed,
		plancache.FixRecord: p.Entries.Record, plancache.FixTransfer: p.Entries.Transfer,
	}
	for f := o.cached.Fixups; len(f) > 0; f = f[plancache.FixEntrySize:] {
		word := a.buf[le.Uint32(f[plancache.FixAt:]):]
		switch kind := le.Uint32(f[plancache.FixKind:]); kind {
		case plancache.FixCounter:
			le.PutUint32(word, le.Uint32(word)+8*o.first)
		case plancache.FixBlock:
			le.PutUint32(word, le.Uint32(word)+8*o.firstOfBlocks)
		case plancache.FixIndex:
			le.PutUint32(word, le.Uint32(word)+o.first)
		case plancache.FixCode:
			le.PutUint32(word, le.Uint32(word)+o.codes.First)
		case plancache.FixReturn:
			le.PutUint64(word, le.Uint64(word)+o.bias)
		default:
			le.PutUint64(word, entries[kind])
		}
	}
}

// cachedOrigins is appendOrigins.
func (a *arena) cachedOrigins(all *[]byte, c *plancache.Plan) (o Origins) {
	part := func(b []byte) uint64 {
		*all = append(*all, make([]byte, align(len(*all), emit.OriginSize)-len(*all))...)
		at := len(*all)
		*all = append(*all, b...)
		return uint64(at)
	}
	o.Records, o.Lengths, o.ByText, o.Islands = part(c.Records), part(c.Lengths), part(c.ByText), part(c.Islands)
	o.LengthsSize, o.Count, o.IslandsCount = uint64(len(c.Lengths)), uint64(len(c.ByText)/4), uint64(len(c.Islands)/plancache.IslandEntrySize)
	le, bias := binary.LittleEndian, a.objects[0].bias
	for b := (*all)[o.Islands:]; len(b) > 0; b = b[8:] {
		le.PutUint64(b, le.Uint64(b)+bias)
	}
	return o
}

// cachedTexts adds the texts that the plan changes.
func (p *Plan) cachedTexts(o *object, texts []patchedText) []patchedText {
	changes := patch.Undos{
		List:        mem.Values[patch.Listed](o.cached.Listed),
		Overwritten: mem.Values[patch.Overwritten](o.cached.Patches),
		Leds:        mem.Values[patch.Led](o.cached.Leds),
	}
	for i := range o.cached.Texts {
		c := &o.cached.Texts[i]
		at := slices.IndexFunc(o.exec, func(m procmaps.Mapping) bool { return m.Start-o.bias == c.Start }) // it is there: object.is
		texts = append(texts, patchedText{object: o, kept: changes.Cut(int(c.Listed), int(c.Patches), int(c.Leds))})
		p.texts = append(p.texts, text{Mapping: o.exec[at], arena: o.arena})
	}
	return texts
}

// tellCached puts into e what the plan tells of the object.
func (o *object) tellCached(e *layout.Object) {
	c := o.cached
	e.Bias, e.BuildID, e.Code, e.Untold = o.bias, hex.EncodeToString(c.BuildID), c.Code, c.Untold
	e.Flags, e.Reason = c.Flags|layout.ObjCached, ledger.Reason(c.Reason)
}

// cachedFunctions is functions.
func (o *object) cachedFunctions(number uint16, yield func(*layout.Function) bool) bool {
	for _, f := range o.cached.Each(mem.String) {
		f.Object = number
		if f.Counter != layout.NoCounter {
			f.Counter += o.first
		}
		if !yield(f) {
			return false
		}
	}
	return true
}

// cachedStubs yields its part of Stubs.
func (o *object) cachedStubs(yield func(Stub) bool) bool {
	for _, f := range o.cached.Each(mem.String) {
		name := func() string { return symname.Display(f.Name, o.path, f.Address, true) }
		if f.Counted() && !yield(Stub{x86.RunAddr(o.arena.at + uint64(f.Stub)), uint32(f.StubSize), name()}) {
			return false
		}
	}
	return true
}
