// Command libdynprof is the preloaded library (go build -buildmode=c-shared).
// Its C shim runs in the target; the Go code here runs only in the twin, a
// short-lived copy of the target, and plans (docs/architecture.md, "The twin").
package main

// #cgo CFLAGS: -Wall -Wextra -Werror -I${SRCDIR}/resident
// #include "base/ctl.h"
import "C"

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

func main() {}

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
	if err := raiseDescriptors(); err != nil {
		report(ctl, err)
		return
	}
	word := (*uint32)(unsafe.Pointer(&ctl.beats))
	parallel.Beat = func() { atomic.AddUint32(word, 1) }
	if err := planFor(ctl); err != nil {
		serving.Forget()
		report(ctl, err)
		return
	}
	ctl.status = 1
}

// raiseDescriptors lets this process open what it may: while Go started it could open nothing
// (twin.c), and Go itself leaves one out of those that it may. Where Go opens a file it
// opens two descriptors to wait by first, and ends the process if that cannot be: so there
// must be room.
func raiseDescriptors() (err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
	var room [3]int // and the file
	n := 0
	for ; n < len(room) && err == nil; n++ {
		room[n], err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	}
	for i := range n {
		syscall.Close(room[i]) // -1 is closed already
	}
	if err != nil {
		return fmt.Errorf("cannot open files: %w: raise RLIMIT_NOFILE (ulimit -n), which is %d", err, limit.Max)
	}
	return nil
}

// requestOf is what the shim asks for.
func requestOf(ctl *C.struct_dp_ctl, choice *config) *patcher.Request {
	r := &patcher.Request{
		Options: choice.Options,
		Entries: patcher.Entries{
			Cold: uint64(ctl.cold_entry), Keep: uint64(ctl.keep_entry), Site: uint64(ctl.site_entry),
			Signal: uint64(ctl.signal_entry), Changed: uint64(ctl.changed_entry), Record: uint64(ctl.record_entry),
			Allocator: uint64(ctl.allocator_entry), Transfer: uint64(ctl.transfer_entry),
		},
		LinkerHook:  uint64(ctl.r_brk),
		ReserveSize: uint64(ctl.reserve_size),
		Keep:        ctl.keep != 0,
		Translator:  ctl.translator != 0,
		Traps:       ctl.handles_traps != 0,
		Shared:      ctl.shared != 0,
		Late:        ctl.late != 0,
		Held:        place.Span{Low: uint64(ctl.held), High: uint64(ctl.held + ctl.held_size)},
		Stop:        func() { ctl.stop = 1 },
		Progress:    func(percent uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&ctl.percent)), percent) },
	}
	objects := list(ctl.objects, ctl.objects_count)
	r.Miss = func(i int, why ledger.Reason) { objects[i].missed = C.uint64_t(why) }
	for _, o := range objects {
		r.Objects = append(r.Objects, target.Loaded{
			Name: mem.CString(uint64(o.name)),
			Bias: uint64(o.bias),
			Span: place.Span{Low: uint64(o.low), High: uint64(o.high)},
			Self: o.self != 0,
		})
	}
	return r
}

// variables are DYNPROF_* and those of places, as NAME=value.
func variables(ctl *C.struct_dp_ctl) (all []string) {
	for _, v := range list(ctl.vars, ctl.vars_count) {
		all = append(all, mem.CString(uint64(v)))
	}
	return all
}

// list is an array of C's.
func list[T any](at *T, n C.uint32_t) []T { return unsafe.Slice(at, int(n)) }

// deliver copies the plan into the shared block.
func deliver(ctl *C.struct_dp_ctl, p *patcher.Plan) error {
	arenas, texts := list(ctl.arenas, ctl.arenas_cap), list(ctl.texts, ctl.texts_cap)
	allArenas, allTexts := p.Arenas(), p.Texts()
	if len(allArenas) > len(arenas) || len(allTexts) > len(texts) {
		return fmt.Errorf("the program's text lies in %d pieces: that is more than can be listed (%d)", len(allTexts), len(texts))
	}
	for i, a := range allArenas {
		arenas[i] = C.struct_dp_arena{
			at: C.uint64_t(a.At), offset: C.uint64_t(a.Offset), size: C.uint64_t(a.Size), pointers: C.uint64_t(a.Pointers), cold: C.uint64_t(a.Cold), keeps: C.uint64_t(a.Keeps),
			origins: C.uint64_t(a.Origins.Records), lengths: C.uint64_t(a.Origins.Lengths),
			by_text: C.uint64_t(a.Origins.ByText), origins_count: C.uint64_t(a.Origins.Count),
			islands: C.uint64_t(a.Origins.Islands), islands_count: C.uint64_t(a.Origins.IslandsCount),
			traps: C.uint64_t(a.Traps), traps_count: C.uint64_t(a.TrapsCount),
			view: C.uint64_t(a.View), view_offset: C.uint64_t(a.ViewOffset), view_size: C.uint64_t(a.ViewSize),
		}
	}
	for i, t := range allTexts {
		texts[i] = C.struct_dp_text{start: C.uint64_t(t.Start), size: C.uint64_t(t.End - t.Start), arena: C.uint64_t(t.Arena)}
	}
	at, count := p.Undos()
	ctl.undos, ctl.undos_count = C.uint64_t(at), C.uint64_t(count)
	ctl.heap_to = C.uint64_t(p.HeapEnd())
	ctl.traps = flag(p.NeedsTraps())
	ctl.serves = flag(serving != nil)
	ctl.arenas_count = C.uint32_t(len(allArenas))
	ctl.texts_count = C.uint32_t(len(allTexts))
	return nil
}

// flag is 1 if it is set.
func flag(set bool) C.uint32_t {
	if set {
		return 1
	}
	return 0
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
