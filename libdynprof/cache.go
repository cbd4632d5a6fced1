package main

// #include "base/ctl.h"
// #include "twin.h"
import "C"

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/plancache/store"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/setting"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/version"
	"github.com/dynprof/dynprof/patcher"
	"github.com/dynprof/dynprof/patcher/target"
)

// saving is what dp_save works with.
var saving struct {
	open  plans        // of all that are read
	plans *store.Store // nil: nothing is written
	plan  *patcher.Plan
	say   func(why string) // plans are not kept
}

// plans is a patcher.Cache: the user's plans, and the system's.
type plans []*store.Store

func (p plans) Load(file target.Identity, key []byte) []byte {
	for _, s := range p {
		if b, err := s.Read(store.Name(file.Inode, key)); err == nil {
			return b
		}
	}
	return nil // it is planned then
}

func (p plans) close() {
	for _, s := range p {
		s.Close()
	}
}

// useCache opens the cache, unless the user wants none. Whatever fails, all is planned.
func useCache(ctl *C.struct_dp_ctl, choice *config, r *patcher.Request) {
	if choice.uncached || ctl.cache == C.DP_CACHE_OFF || mayMore() {
		return
	}
	if r.Planner = planner(); r.Planner == nil {
		return
	}
	saving.say = func(why string) { copyText(ctl.message[:], why) }
	var all plans
	if dir := cmp.Or(choice.plans, store.Dir(choice.cacheHome, choice.home)); dir != "" {
		keep := choice.On[setting.Cache] && store.Make(dir) == nil
		if s, err := store.Open(dir); err == nil {
			all = append(all, s)
			if keep {
				saving.plans = s
			}
		}
	}
	if s, err := store.Open(store.System); err == nil {
		all = append(all, s)
	}
	if saving.open = all; len(all) > 0 {
		r.Cache, r.Creator, r.MostKept = all, version.Creator, store.Largest
	}
}

// mayMore reports whether the program may more than other processes of its user, who could
// give it code: what capabilities it has without being root.
func mayMore() bool {
	if os.Geteuid() == 0 {
		return false
	}
	status, err := procfile.Read("/proc/self/status")
	_, caps, _ := strings.Cut(string(status), "\nCapPrm:\t")
	caps, _, _ = strings.Cut(caps, "\n")
	return err != nil || strings.Trim(caps, "0") != ""
}

// planner tells this library from others: by its build-id, which the linker has made of
// all that is in it.
func planner() []byte {
	const page, entry = 4096, 56
	self := uint64(C.dp_self())
	le, head := binary.LittleEndian, mem.View(self, page)
	at, n := le.Uint64(head[32:]), int(le.Uint16(head[56:]))
	for i := range n {
		from := at + uint64(i*entry)
		if from+entry > page || elf.ProgType(le.Uint32(head[from:])) != elf.PT_NOTE {
			continue
		}
		notes := mem.View(self+le.Uint64(head[from+16:]), int(le.Uint64(head[from+32:])))
		if id := elfscan.BuildID(notes, le.Uint64(head[from+48:])); id != nil {
			return id
		}
	}
	return nil
}

// isFresh reports whether a file may be written to once more, and nobody could tell: two
// changes within a tick of the file system have the same time. Some count whole seconds,
// FAT two.
func isFresh(f target.Identity) bool {
	const second = 1e9
	tick := uint64(20e6)
	if f.Ctime%second == 0 || f.Mtime%second == 0 {
		tick = 2.5 * second
	}
	return uint64(time.Now().UnixNano())-f.Ctime < tick
}

// dp_save writes down what later starts can use, while the target patches its text, and
// closes what an agent would have open. Nobody hears of what fails, but of plans that are too
// large. With an agent the program runs by now, and may be paused.
//
//export dp_save
func dp_save() {
	defer func() { recover() }() // as good as a full disk
	defer saving.open.close()
	if saving.plans == nil || saving.plan == nil {
		return
	}
	store.Beat = parallel.Beat
	batch := saving.plans.Begin(store.Most)
	var large []string
	for _, path := range saving.plan.TooLarge() {
		large = append(large, symname.Clean(path))
	}
	for file, plan := range saving.plan.ToCache() {
		if isFresh(file) {
			continue
		}
		if errors.Is(batch.Write(store.Name(file.Inode, plan.Key), plan.Pieces()...), store.ErrTooLarge) {
			large = append(large, symname.Clean(string(plan.Path)))
		}
	}
	batch.End()
	if len(large) > 0 {
		saving.say("they are too large (docs/limits.md): " + strings.Join(large, ", "))
	}
}
