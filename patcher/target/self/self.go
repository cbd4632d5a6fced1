// Package self is the target that the planner is a copy of: a twin, whose memory is
// the target's, or an outsider, which has of it no more than the objects that are to
// be planned (docs/architecture.md, "The twin").
package self

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/files"
)

// Process is a target.Target.
type Process struct {
	Pid     int
	Outside bool // it is an outsider
	// The pages that arenas are made of: run address and bytes.
	ReserveAt, ReserveSize uint64
	HeapEnd                uint64 // as place.Growth has it
	Beat                   func() // is told that work goes on
	Audited                bool   // who traces it audits regions, and is no debugger
	Mapped                 []byte // what /proc/self/maps said when this process mapped nothing of its own; empty: it is asked now

	guessed atomic.Bool // something was asked that an outsider cannot tell
}

// ErrOutside is why an outsider plans nothing: a twin does then.
var ErrOutside = errors.New("only a copy of the process can tell")

// Checked is ErrOutside if something was asked that this process cannot tell.
func (p *Process) Checked() error {
	if p.guessed.Load() {
		return ErrOutside
	}
	return nil
}

// Maps implements target.Target.
func (p *Process) Maps() ([]procmaps.Mapping, error) {
	if p.Outside {
		p.guessed.Store(true)
		return nil, ErrOutside
	}
	if len(p.Mapped) > 0 {
		return procmaps.Parse(bytes.NewReader(p.Mapped))
	}
	return procmaps.Of("self")
}

// View implements target.Target.
func (p *Process) View(at uint64, n int) []byte { return mem.View(at, n) }

// IsFree implements target.Target.
func (p *Process) IsFree(at, size uint64) bool { return mem.Free(at, size) }

// Hold implements target.Target.
func (p *Process) Hold(at, size uint64) bool {
	if p.Outside {
		p.guessed.Store(true)
		return false
	}
	return mem.Hold(at, size)
}

// Written implements target.Target.
func (p *Process) Written(low, high uint64) ([]uint64, error) { return mem.OwnPages(low, high) }

// Reserve implements target.Target: the pages once more, writable.
func (p *Process) Reserve() ([]byte, error) { return mem.Alias(p.ReserveAt, int(p.ReserveSize)) }

// Lowest implements target.Target.
func (p *Process) Lowest() uint64 { return mem.Lowest() }

// Growth implements target.Target: where the program's heap starts, and how large its
// stack may become. The twin has both as the target does.
func (p *Process) Growth() (g place.Growth) {
	g.Heap, _ = mem.SelfBrk() // not known: no heap is in the way
	g.HeapEnd = p.HeapEnd
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_STACK, &limit) == nil {
		g.Stack = limit.Cur
	} else {
		g.Stack = math.MaxUint64
	}
	return g
}

// harmless are programs that trace others and set no breakpoints.
var harmless = []string{"strace", "proot"}

// IsDebugged implements target.Target: TracerPid in /proc/PID/status tells who.
func (p *Process) IsDebugged() bool {
	if p.Audited {
		return false
	}
	f, err := procfile.Open(fmt.Sprintf("/proc/%d/status", p.Pid))
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if tracer, ok := bytes.CutPrefix(s.Bytes(), []byte("TracerPid:")); ok {
			n := string(bytes.TrimSpace(tracer))
			comm, _ := procfile.Read("/proc/" + n + "/comm")
			return n != "0" && !slices.Contains(harmless, string(bytes.TrimSpace(comm)))
		}
	}
	return false
}

// Resolve implements target.Target.
func (p *Process) Resolve(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Open implements target.Target.
func (p *Process) Open(path string) (target.File, error) { return files.Open(path, p.Beat) }
