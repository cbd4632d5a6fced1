// Command libdynprof is the preloaded library (go build -buildmode=c-shared).
// Its C shim runs in the target; the Go code here runs only in the twin, a
// short-lived copy of the target, and plans (docs/architecture.md, "The twin").
package main

// #cgo CFLAGS: -Wall -Wextra -Werror
// #include "ctl.h"
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher"
)

func main() {}

// The list of patches is written as patcher.Patch and read as struct dp_patch,
// traps as patcher.Trap and struct dp_trap, calls as patcher.Call and struct dp_call.
const _ = uint(unsafe.Sizeof(patcher.Patch{})-C.sizeof_struct_dp_patch) + uint(C.sizeof_struct_dp_patch-unsafe.Sizeof(patcher.Patch{})) +
	uint(patcher.TrapSize-C.sizeof_struct_dp_trap) + uint(C.sizeof_struct_dp_trap-patcher.TrapSize) +
	uint(unsafe.Sizeof(patcher.Call{})-C.sizeof_struct_dp_call) + uint(C.sizeof_struct_dp_call-unsafe.Sizeof(patcher.Call{}))

// dp_plan is the planner's entry, called by twin.c with the address of the
// shared struct dp_ctl.
//
//export dp_plan
func dp_plan(at C.uintptr_t) {
	ctl := &mem.Array[C.struct_dp_ctl](uint64(at), 1)[0]
	defer func() {
		if p := recover(); p != nil {
			report(ctl, fmt.Errorf("the planner failed: %v", p))
		}
	}()
	word := (*uint32)(unsafe.Pointer(&ctl.beats))
	beat = func() { atomic.AddUint32(word, 1) }
	parallel.Beat = beat
	in := inputs(ctl)
	out, err := plan(in)
	if err == nil {
		err = deliver(ctl, out)
	}
	if err != nil {
		serving.forget()
		report(ctl, err)
		return
	}
	ctl.status = 1
}

// beat tells the shim that planning goes on.
var beat = func() {}

// input is what the shim tells the planner.
type input struct {
	pid        int
	vars       []string // DYNPROF_* and XDG_RUNTIME_DIR, as NAME=value
	objects    []loaded
	reserve    uint64          // run address of the reserve's pages
	size       uint64          // its bytes,
	used       uint64          // and those that are arenas
	keep       bool            // it stays: objects that come later use it, too
	translator bool            // calls can be sent to other code
	patches    []patcher.Patch // empty, over the memory of the list,
	list       uint64          // which starts there
	coldEntry  uint64          // run addresses of the slow paths
	keepEntry  uint64
	siteEntry  uint64
	changed    uint64 // run address of what stands in for the dynamic linker's function at brk
	brk        uint64 // 0: there is none
	signal     uint64 // run address of what signal sites jump to

	debugged bool // a debugger watches

	traps bool // SIGTRAP is handled since the start

	blind bool // objects that come later are not seen

	shared bool // all threads share the counters, whatever the objects need

	// miss notes why object i of the list is not counted, stop that a new object
	// may take the GS segment: nothing may count any more. Both are told at once,
	// whatever becomes of the plan.
	miss func(i int, why ledger.Reason)
	stop func()

	shortSpace bool // address space is limited

	outside bool   // of the target only the objects are here, and what the shim says
	begin   func() // tells that the table may be changed from here on

	outOfHeld bool // an arena found no place in held

	late bool         // the objects come later, and the table is there:
	view mem.Window   // what lies in front of its rows
	held patcher.Span // address space that is taken for the arenas
}

// loaded is one object as the dynamic linker lists it.
type loaded struct {
	name string // as in the link map
	bias uint64 // run address minus ELF virtual address
	span patcher.Span
	self bool // it is this library
}

// output is what the shim has to do.
type output struct {
	table  string
	nonce  [16]byte
	arenas []*arena
	texts  []text
	calls  uint64 // address of the list of calls

	undos      uint64 // run address of what takes the changes of text back
	undosCount uint64 // texts there

	announce bool   // perf shall see the arenas
	traps    bool   // SIGTRAP has to be handled
	remark   string // to be said although it is counted
}

// text is a run of pages with entries to patch.
type text struct {
	procmaps.Mapping
	arena   *arena // that the patches lead to
	patches int
	calls   int
}

func inputs(ctl *C.struct_dp_ctl) *input {
	in := &input{
		pid:        int(ctl.pid),
		reserve:    uint64(ctl.reserve),
		size:       uint64(ctl.reserve_size),
		patches:    mem.Array[patcher.Patch](uint64(ctl.patches), int(ctl.patches_cap)),
		list:       uint64(ctl.patches),
		coldEntry:  uint64(ctl.cold_entry),
		keepEntry:  uint64(ctl.keep_entry),
		siteEntry:  uint64(ctl.site_entry),
		changed:    uint64(ctl.changed_entry),
		brk:        uint64(ctl.r_brk),
		late:       ctl.late != 0,
		outside:    ctl.outside != 0,
		begin:      func() { ctl.begun = 1 },
		keep:       ctl.keep != 0,
		translator: ctl.translator != 0,
		signal:     uint64(ctl.signal_entry),
		traps:      ctl.handles_traps != 0,
		shared:     ctl.shared != 0,
		shortSpace: ctl.short_space != 0,
		held:       patcher.Span{Low: uint64(ctl.held), High: uint64(ctl.held + ctl.held_size)},
		view:       mem.Window{Addr: uint64(ctl.view), Size: uint64(ctl.view_size)},
	}
	for _, v := range list(ctl.vars, ctl.vars_count) {
		in.vars = append(in.vars, mem.CString(uint64(v)))
	}
	objects := list(ctl.objects, ctl.objects_count)
	in.miss = func(i int, why ledger.Reason) { objects[i].missed = C.uint64_t(why) }
	in.stop = func() { ctl.stop = 1 }
	for _, o := range objects {
		in.objects = append(in.objects, loaded{
			name: mem.CString(uint64(o.name)),
			bias: uint64(o.bias),
			span: patcher.Span{Low: uint64(o.low), High: uint64(o.high)},
			self: o.self != 0,
		})
	}
	return in
}

// list is an array of C's.
func list[T any](at *T, n C.uint32_t) []T { return unsafe.Slice(at, int(n)) }

// deliver copies out into the shared block.
func deliver(ctl *C.struct_dp_ctl, out *output) error {
	arenas, texts := list(ctl.arenas, ctl.arenas_cap), list(ctl.texts, ctl.texts_cap)
	switch {
	case len(out.arenas) > len(arenas) || len(out.texts) > len(texts):
		return fmt.Errorf("the program's text lies in %d pieces: that is more than can be listed (%d)", len(out.texts), len(texts))
	case len(out.table) >= len(ctl.table):
		return fmt.Errorf("the path of the count table has %d bytes, more than the system allows", len(out.table))
	}
	copyText(ctl.table[:], out.table)
	for i, b := range out.nonce {
		ctl.nonce[i] = C.uint8_t(b)
	}
	for i, a := range out.arenas {
		arenas[i] = C.struct_dp_arena{
			at: C.uint64_t(a.at), offset: C.uint64_t(a.offset), size: C.uint64_t(a.size), pointers: C.uint64_t(a.private), cold: C.uint64_t(a.cold), keeps: C.uint64_t(a.keeps),
			origins: C.uint64_t(a.origins.records), lengths: C.uint64_t(a.origins.lengths),
			by_text: C.uint64_t(a.origins.byText), origins_count: C.uint64_t(a.origins.count),
			islands: C.uint64_t(a.origins.islands), islands_count: C.uint64_t(a.origins.islandsCount),
			traps: C.uint64_t(a.at + uint64(a.traps)), traps_count: C.uint64_t(a.trapsCount),
			view: C.uint64_t(a.view.at), view_offset: C.uint64_t(a.view.offset), view_size: C.uint64_t(a.view.size),
		}
	}
	for i, t := range out.texts {
		texts[i] = C.struct_dp_text{start: C.uint64_t(t.Start), size: C.uint64_t(t.End - t.Start),
			prot: C.uint32_t(t.Prot), patches: C.uint32_t(t.patches), calls: C.uint32_t(t.calls),
			arena: C.uint32_t(slices.Index(out.arenas, t.arena))}
	}
	ctl.calls = C.uint64_t(out.calls)
	ctl.undos, ctl.undos_count = C.uint64_t(out.undos), C.uint64_t(out.undosCount)
	if out.announce {
		ctl.announce = 1
	}
	if out.traps {
		ctl.traps = 1
	}
	if serving != nil {
		ctl.serves = 1
	}
	copyText(ctl.remark[:], out.remark)
	ctl.arenas_count = C.uint32_t(len(out.arenas))
	ctl.texts_count = C.uint32_t(len(out.texts))
	return nil
}

// report leaves the line that the shim prints.
func report(ctl *C.struct_dp_ctl, err error) {
	ctl.status = 0
	words := strings.Fields(err.Error())
	for i, w := range words {
		words[i] = shorten(w)
	}
	copyText(ctl.message[:], strings.Join(words, " "))
}

// shorten takes out the middle of a word that would fill the line, a path
// mostly.
func shorten(word string) string {
	const end = 60
	if len(word) <= 2*end+20 {
		return word
	}
	return word[:end] + "..." + word[len(word)-end:]
}

// copyText copies s, cut to fit, with a NUL behind it.
func copyText(dst []C.char, s string) {
	n := min(len(s), len(dst)-1)
	for i := range n {
		dst[i] = C.char(s[i])
	}
	dst[n] = 0
}
