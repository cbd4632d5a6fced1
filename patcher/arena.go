package patcher

import (
	"fmt"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/entry"
)

const pageSize = 4096

// arena is memory near some objects that holds their stubs:
//
//	common | hook | keeper | thunks, stubs and those of call sites, object by object | cold blocks | keep blocks | list of traps | pointers | view
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
	image   []byte // what is in it at the start, if that may be kept
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
// first, then those of its signal sites, then those of its transfers.
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
	beside := uint64(2 * pageSize) // ends of pages
	cold := p.Options.Threshold.Any() || p.how.redirectable
	if p.caches {
		groups, around = alone(spans)
	}
	for g, members := range groups {
		a := &arena{offset: p.used, kept: p.Keep}
		for _, i := range members {
			a.objects = append(a.objects, users[i])
		}
		a.lay(cold, p.how.redirectable)
		for p.used+beside+a.size+a.private+a.beside() > p.ReserveSize {
			if !p.dropCopies(a) && !a.dropCalls() && !a.shrink() {
				return p.tooSmall()
			}
			a.lay(cold, p.how.redirectable)
		}
		beside += a.beside()
		at, ok := p.placeArena(space, a, around[g], row.size)
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

// beside is how much of the reserve what is told of the arena will take, about: where
// it is less, all is undone for want of room, and nothing is counted.
func (a *arena) beside() (size uint64) {
	const origins = 48 // bytes, of a function of usual size
	const site = emit.OriginSize + 4 + patch.ListedSize + patch.LedSize
	for _, o := range a.objects {
		size += uint64(o.undosAtMost()) + o.copyOrigins() + uint64(len(o.direct))*site
		for i := range o.plans {
			if o.plans[i].Counted() {
				size += origins
			}
		}
	}
	return size
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
	if o.cached != nil {
		return o.cached.ArenaSize > 0
	}
	for i := range o.plans {
		if o.plans[i].Counted() {
			return true
		}
	}
	return len(o.sites) > 0 || len(o.signals) > 0 || len(o.transfers) > 0 || len(o.allocators) > 0 || o.hook != 0
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
	if c := a.objects[0].cached; c != nil {
		a.size, a.cold, a.keeps, a.traps = c.ArenaSize, int(c.Cold), int(c.Keeps), align(int(c.Keeps), patch.TrapSize)
		return
	}
	a.thunks, a.colds, a.keep = nil, nil, nil
	at := emit.CommonEnd // the common part, the hook, the keeper
	for _, o := range a.objects {
		a.thunks = append(a.thunks, at)
		at = o.allocatorsAt(at) + len(o.allocators)*emit.AllocatorSize
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
		at = o.layCalls(pack.At)
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
		o.dropAllocators()
		o.sites, o.transfers = nil, nil
		o.refuse(why)
	}
}
