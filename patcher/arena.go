package patcher

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
)

const pageSize = 4096

// arena is memory near some objects that holds their stubs:
//
//	common | hook | keeper | thunks and stubs, object by object | cold blocks | keep blocks | list of traps | pointers | view
//
// The pointers, of redirectable stubs, are on pages of each process's own.
type arena struct {
	at      uint64 // run address
	offset  uint64 // in the reserve
	size    uint64 // whole pages,
	private uint64 // and those of pointers behind them
	kept    bool   // the reserve is kept by all processes
	objects []*object
	buf     []byte // the twin's writable view
	thunks  []int  // by object: offset of its thunks
	cold    int    // offset of the cold blocks
	colds   []int  // by object: number of its first cold block, and of its pointers
	keeps   int    // offset of the keep blocks,
	keep    []int  // and by object that of its first
	view    view
	code    []emit.Origins // in the order of where the code is
	origins Origins
	traps   int // offset of the list of traps

	trapsCount int
}

// thunk is the run address of o's thunk i: those of its kernel sites come
// first, then those of its signal sites.
func (a *arena) thunk(o *object, i int) x86.RunAddr {
	for k := range a.objects {
		if a.objects[k] == o {
			return x86.RunAddr(a.at).Add(a.thunks[k] + i*emit.ThunkSize)
		}
	}
	panic("BUG: object is not of this arena")
}

// layArenas groups objects that one arena can serve and finds a place for each
// arena and a view of row. Functions of objects that none can serve lose their
// plans.
func (p *Plan) layArenas(space placer, row view) error {
	var spans []place.Span
	var users []*object
	for _, o := range p.all {
		if o.needsArena() {
			spans, users = append(spans, o.span), append(users, o)
		}
	}
	groups, around := place.Group(spans)
	cold := p.Options.Threshold.Any() || p.how.redirectable
	for g, members := range groups {
		a := &arena{offset: p.used, kept: p.Keep}
		for _, i := range members {
			a.objects = append(a.objects, users[i])
		}
		a.lay(cold, p.how.redirectable)
		for p.used+a.size+a.private > p.ReserveSize {
			if !a.shrink() {
				return p.tooSmall()
			}
			a.lay(cold, p.how.redirectable)
		}
		at, ok := space.Place(around[g], a.size+a.private+row.size)
		if !ok {
			if slices.ContainsFunc(a.objects, func(o *object) bool { return len(o.signals) > 0 }) {
				return fmt.Errorf("there is no room near %s, so SIGTRAP would not stay handled: traps cannot be used", a.objects[0].path)
			}
			a.giveUp(ledger.ReasonOutOfReach)
			continue
		}
		a.at, a.buf = at, p.reserve[p.used:p.used+a.size+a.private]
		p.used += a.size + a.private
		a.view = row
		a.view.at = at + a.size + a.private
		for _, o := range a.objects {
			o.arena = a
		}
		p.arenas = append(p.arenas, a)
	}
	return nil
}

func (p *Plan) tooSmall() error {
	return fmt.Errorf("the stubs need more than the reserve of %d MB", p.ReserveSize>>20)
}

// hook is the run address of the jump to what stands in for the dynamic
// linker's function.
func (a *arena) hook() x86.RunAddr { return x86.RunAddr(a.at).Add(emit.CommonHook) }

// keeper is the run address of the jump to the keeper.
func (a *arena) keeper() x86.RunAddr { return x86.RunAddr(a.at).Add(emit.CommonKeeper) }

// needsKeep reports whether function i, which is counted, has a keep block.
func (o *object) needsKeep(i int) bool {
	return o.plans[i].Has(entry.Redirectable) && o.keeps != nil && o.keeps[i].Needed()
}

func (o *object) needsArena() bool {
	for i := range o.plans {
		if o.plans[i].Counted() {
			return true
		}
	}
	return len(o.sites) > 0 || len(o.signals) > 0 || o.hook != 0
}

// shrink takes back the plans of the object that has most of them. It reports false
// if there are none.
func (a *arena) shrink() bool {
	largest, most := (*object)(nil), 0
	for _, o := range a.objects {
		if n := o.patchedCounts(); n > most {
			largest, most = o, n
		}
	}
	if largest != nil {
		largest.refuse(ledger.ReasonNoMemory)
	}
	return largest != nil
}

// lay decides where everything in the arena goes.
func (a *arena) lay(threshold, redirectable bool) {
	a.thunks, a.colds, a.keep = nil, nil, nil
	at := emit.CommonEnd // the common part, the hook, the keeper
	for _, o := range a.objects {
		a.thunks = append(a.thunks, at)
		at += (len(o.sites) + len(o.signals)) * emit.ThunkSize
		pack := emit.Packer{At: at}
		for i := range o.plans {
			if i%grain == 0 {
				pack.Seal() // parts of the origins are in the order of addresses
			}
			if o.plans[i].Counted() {
				at := pack.Place(o.plans[i].Front(), int(o.plans[i].Size))
				o.stubs[i].At = x86.RunAddr(at) // from the arena's start, until that is known
			}
		}
		at = pack.At
	}
	a.cold = align(at, emit.ColdSize)
	at = a.cold
	for _, o := range a.objects {
		a.colds = append(a.colds, (at-a.cold)/emit.ColdSize)
		for i := range o.plans {
			if threshold && o.plans[i].Counted() {
				at += emit.ColdSize
			}
		}
	}
	blocks := (at - a.cold) / emit.ColdSize
	a.keeps = at
	for _, o := range a.objects {
		a.keep = append(a.keep, at)
		for i := range o.plans {
			if o.needsKeep(i) {
				at += emit.KeepSize
			}
		}
	}
	at = align(at, patch.TrapSize)
	a.traps = at
	for _, o := range a.objects {
		at += o.countTraps() * patch.TrapSize
	}
	a.size = uint64(align(at, pageSize))
	if redirectable {
		a.private = uint64(align(blocks*emit.PointersSize, pageSize))
	}
}

func align(n, to int) int { return (n + to - 1) / to * to }

// giveUp takes back the plans of all functions that the arena should serve.
func (a *arena) giveUp(why ledger.Reason) {
	for _, o := range a.objects {
		o.sites = nil
		o.refuse(why)
	}
}

// fill writes everything into the arena.
func (a *arena) fill(p *Plan) error {
	for at, to := range map[int]uint64{emit.CommonSlow: p.Entries.Cold, emit.CommonHook: p.Entries.Changed, emit.CommonKeeper: p.Entries.Keep} {
		if err := emit.EmitCommon(a.buf[at:at+emit.CommonSize], x86.RunAddr(a.at).Add(at), to); err != nil {
			return err
		}
	}
	for k, o := range a.objects {
		sites := emit.Origins{Base: x86.RunAddr(a.at)}
		for i, site := range o.sites {
			at := a.thunks[k] + i*emit.ThunkSize
			err := emit.EmitThunk(o.code, site, a.buf[at:at+emit.ThunkSize], x86.RunAddr(a.at).Add(at), p.Entries.Site)
			if err != nil {
				return err
			}
			sites.AddThunk(o.code, site, x86.RunAddr(a.at).Add(at))
		}
		for i, site := range o.signals {
			at := a.thunks[k] + (len(o.sites)+i)*emit.ThunkSize
			err := emit.EmitSignalThunk(o.code, site, a.buf[at:at+emit.ThunkSize], x86.RunAddr(a.at).Add(at), p.Entries.Signal)
			if err != nil {
				return err
			}
			sites.AddSignalThunk(o.code, site, x86.RunAddr(a.at).Add(at))
		}
		a.code = append(a.code, sites)
		a.emit(k, p)
		a.emitKeeps(k)
		o.dropGuests()
	}
	a.writeTraps()
	return nil
}

// dropGuests takes back plans that use the body of a function which, in the
// end, is not moved.
func (o *object) dropGuests() {
	for again := true; again; {
		again = false
		for i := range o.plans {
			p := &o.plans[i]
			if !p.Counted() {
				continue
			}
			for _, host := range p.Hosts() {
				if !o.plans[host].Counted() {
					o.plans[i] = entry.Refuse(i, ledger.ReasonOutOfReach)
					again = true
					break
				}
			}
		}
	}
}

// emit writes the stubs of object k. A function whose stub cannot reach what it
// refers to loses its plan and keeps an unused counter.
func (a *arena) emit(k int, plan *Plan) {
	o := a.objects[k]
	parts := make([]emit.Origins, len(o.plans)/grain+1)
	parallel.Ranges(len(o.plans), grain, 0, func(_, first, end int) {
		part := &parts[first/grain]
		part.Base = x86.RunAddr(a.at)
		e := emit.Emitter{Origins: part}
		list := o.byPlace(first, end)
		part.Grow(len(list))
		for _, i := range list {
			p := &o.plans[i]
			at := int(o.stubs[i].At)
			c := emit.Count{Counter: int32(layout.RowCounters + 8*o.counters[i]), Index: int32(o.counters[i])}
			c.Shared = a.view.counter(o.counters[i])
			if p.Has(entry.Checks) {
				number := a.colds[k] + int(o.counters[i]-o.first)
				cold := a.cold + number*emit.ColdSize
				c.Threshold = int32(plan.threshold(o, i))
				c.Cold, c.ColdAt = a.buf[cold:cold+emit.ColdSize], x86.RunAddr(a.at).Add(cold)
				c.ColdCommon = x86.RunAddr(a.at).Add(emit.CommonSlow)
				if front := p.Front(); front > 0 {
					pointers := int(a.size) + number*emit.PointersSize
					c.Front = a.buf[at-front : at]
					c.Pointers, c.PointersAt = a.buf[pointers:pointers+emit.PointersSize], x86.RunAddr(a.at).Add(pointers)
				}
				if c.Threshold == 0 {
					c.Threshold = symname.MaxThreshold // until it is armed
				}
			}
			spec := p.Spec(o.code)
			stub, err := e.Emit(o.code, &spec, a.buf[at:at+int(p.Size)], x86.RunAddr(a.at).Add(at), c)
			if errors.Is(err, x86.ErrReach) {
				*p = entry.Refuse(i, ledger.ReasonOutOfReach)
			} else if err != nil {
				panic("BUG: " + err.Error())
			}
			o.stubs[i] = stub
		}
	})
	a.code = append(a.code, parts...)
}

// emitKeeps writes the keep blocks of object k.
func (a *arena) emitKeeps(k int) {
	o, at := a.objects[k], a.keep[k]
	for i := range o.plans {
		if !o.needsKeep(i) {
			continue
		}
		pointers := int(a.size) + (a.colds[k]+int(o.counters[i]-o.first))*emit.PointersSize
		err := o.keeps[i].EmitKeep(a.buf[at:at+emit.KeepSize], x86.RunAddr(a.at).Add(at),
			a.buf[pointers:pointers+emit.PointersSize], x86.RunAddr(a.at).Add(pointers), a.keeper())
		if err != nil {
			panic("BUG: " + err.Error())
		}
		at += emit.KeepSize
	}
}

// byPlace lists the counted functions from first to end by where their stubs are.
func (o *object) byPlace(first, end int) []int {
	var list []int
	for i := first; i < end; i++ {
		if o.plans[i].Counted() {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(i, j int) int { return cmp.Compare(o.stubs[i].At, o.stubs[j].At) })
	return list
}
