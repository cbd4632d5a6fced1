package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/stubgen"
)

const pageSize = 4096

// arena is memory near some objects that holds their stubs:
//
//	common | hook | thunks and stubs, object by object | cold blocks
type arena struct {
	at      uint64 // run address
	offset  uint64 // in the reserve
	size    uint64 // whole pages
	objects []*object
	buf     []byte // the twin's writable view
	thunks  []int  // by object: offset of its thunks
	cold    int    // offset of the cold blocks
	colds   []int  // by object: number of its first cold block
}

// thunk is the run address of the thunk of o's clone site i.
func (a *arena) thunk(o *object, i int) x86.RunAddr {
	for k := range a.objects {
		if a.objects[k] == o {
			return x86.RunAddr(a.at).Add(a.thunks[k] + i*stubgen.ThunkSize)
		}
	}
	panic("BUG: object is not of this arena")
}

// layArenas groups objects that one arena can serve and finds a place for each
// arena. Functions of objects that none can serve lose their plans.
func layArenas(in *input, all []*object, maps []mem.Mapping, reserve []byte, threshold bool) ([]*arena, error) {
	var spans []patcher.Span
	var users []*object
	for _, o := range all {
		if o.needsArena() {
			spans, users = append(spans, o.span), append(users, o)
		}
	}
	space := patcher.NewSpace(maps, lowestAddress())
	groups, around := patcher.Group(spans)
	var arenas []*arena
	used := uint64(0)
	for g, members := range groups {
		a := &arena{offset: used}
		for _, i := range members {
			a.objects = append(a.objects, users[i])
		}
		a.lay(threshold)
		if used+a.size > in.size {
			return nil, fmt.Errorf("the stubs need more than the reserve of %d MB", in.size>>20)
		}
		at, ok := space.Place(around[g], a.size)
		if !ok {
			a.giveUp(ledger.ReasonOutOfReach)
			continue
		}
		a.at, a.buf = at, reserve[used:used+a.size]
		used += a.size
		for _, o := range a.objects {
			o.arena = a
		}
		arenas = append(arenas, a)
	}
	return arenas, nil
}

// hook is the run address of the jump to what stands in for the dynamic
// linker's function.
func (a *arena) hook() x86.RunAddr { return x86.RunAddr(a.at).Add(stubgen.CommonSize) }

func (o *object) needsArena() bool {
	for i := range o.plans {
		if o.plans[i].Counted() {
			return true
		}
	}
	return len(o.sites) > 0 || o.hook != 0
}

// lay decides where everything in the arena goes.
func (a *arena) lay(threshold bool) {
	at := 2 * stubgen.CommonSize // the common part, and the hook
	for _, o := range a.objects {
		a.thunks = append(a.thunks, at)
		at += len(o.sites) * stubgen.ThunkSize
		for i := range o.plans {
			if o.plans[i].Counted() {
				at = align(at, stubgen.Alignment)
				o.stubs[i].At = x86.RunAddr(at) // from the arena's start, until that is known
				at += int(o.plans[i].Size)
			}
		}
	}
	a.cold = align(at, stubgen.ColdSize)
	at = a.cold
	for _, o := range a.objects {
		a.colds = append(a.colds, (at-a.cold)/stubgen.ColdSize)
		for i := range o.plans {
			if threshold && o.plans[i].Counted() {
				at += stubgen.ColdSize
			}
		}
	}
	a.size = uint64(align(at, pageSize))
}

func align(n, to int) int { return (n + to - 1) / to * to }

// giveUp takes back the plans of all functions that the arena should serve.
func (a *arena) giveUp(why ledger.Reason) {
	for _, o := range a.objects {
		o.sites = nil
		for i := range o.plans {
			if o.plans[i].Counted() {
				o.plans[i] = stubgen.Refuse(i, why)
			}
		}
	}
}

// fill writes everything into the arena.
func (a *arena) fill(in *input, threshold uint32) error {
	if err := stubgen.EmitCommon(a.buf[:stubgen.CommonSize], x86.RunAddr(a.at), in.coldEntry); err != nil {
		return err
	}
	if err := stubgen.EmitCommon(a.buf[stubgen.CommonSize:2*stubgen.CommonSize], a.hook(), in.changed); err != nil {
		return err
	}
	for k, o := range a.objects {
		for i, site := range o.sites {
			at := a.thunks[k] + i*stubgen.ThunkSize
			err := stubgen.EmitThunk(o.code, site, a.buf[at:at+stubgen.ThunkSize], x86.RunAddr(a.at).Add(at), in.cloneEntry)
			if err != nil {
				return err
			}
		}
		a.emit(k, threshold)
		o.dropGuests()
	}
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
					o.plans[i] = stubgen.Refuse(i, ledger.ReasonOutOfReach)
					again = true
					break
				}
			}
		}
	}
}

// emit writes the stubs of object k. A function whose stub cannot reach what it
// refers to loses its plan and keeps an unused counter.
func (a *arena) emit(k int, threshold uint32) {
	o := a.objects[k]
	parallel.Ranges(len(o.plans), grain, 0, func(_, first, end int) {
		var e stubgen.Emitter
		for i := first; i < end; i++ {
			p := &o.plans[i]
			if !p.Counted() {
				continue
			}
			at := int(o.stubs[i].At)
			c := stubgen.Count{Counter: int32(table.RowCounters + 8*o.counters[i]), Index: int32(o.counters[i])}
			if threshold != 0 {
				cold := a.cold + (a.colds[k]+int(o.counters[i]-o.first))*stubgen.ColdSize
				c.Threshold = int32(threshold)
				c.Cold, c.ColdAt = a.buf[cold:cold+stubgen.ColdSize], x86.RunAddr(a.at).Add(cold)
				c.ColdCommon = x86.RunAddr(a.at)
			}
			stub, err := e.Emit(o.code, p, a.buf[at:at+int(p.Size)], x86.RunAddr(a.at).Add(at), c)
			if errors.Is(err, x86.ErrReach) {
				*p = stubgen.Refuse(i, ledger.ReasonOutOfReach)
			} else if err != nil {
				panic("BUG: " + err.Error())
			}
			o.stubs[i] = stub
		}
	})
}

// lowestAddress is the least address that mmap(2) gives.
func lowestAddress() uint64 {
	const usual = 64 << 10
	b, err := os.ReadFile("/proc/sys/vm/mmap_min_addr")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return usual
	}
	return max(n, usual)
}
