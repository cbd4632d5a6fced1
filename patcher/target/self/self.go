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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
)

// Process is a target.Target.
type Process struct {
	Pid     int
	Outside bool // it is an outsider
	// The pages that arenas are made of: run address and bytes.
	ReserveAt, ReserveSize uint64
	HeapEnd                uint64 // as place.Growth has it
	Beat                   func() // is told that work goes on
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

// Lowest implements target.Target: the least address that mmap(2) gives.
func (p *Process) Lowest() uint64 {
	const usual = 64 << 10
	b, err := procfile.Read("/proc/sys/vm/mmap_min_addr")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return usual
	}
	return max(n, usual)
}

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
func (p *Process) Open(path string) (target.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have that name by now
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	b, err := mem.MapFile(f, fi.Size())
	if err != nil {
		return plain{f, fi.Size(), p.Beat}, nil
	}
	return mapped{plain{f, fi.Size(), p.Beat}, b}, nil
}

// plain is a file that is read.
type plain struct {
	*os.File
	size int64
	beat func()
}

func (f plain) Size() int64 { return f.size }

// ReadAt is a beat, too: a large file is read for long.
func (f plain) ReadAt(b []byte, off int64) (int, error) {
	if f.beat != nil {
		f.beat()
	}
	return f.File.ReadAt(b, off)
}

// Identity implements target.Identified.
func (f plain) Identity() (target.Identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return target.Identity{}, err
	}
	s := fi.Sys().(*syscall.Stat_t)
	return target.Identity{Inode: s.Ino, Size: uint64(s.Size), Mtime: uint64(s.Mtim.Nano()), Ctime: uint64(s.Ctim.Nano())}, nil
}

// mapped is a file that is mapped as well: its strings take no memory. The mapping
// lasts as long as the process.
type mapped struct {
	plain
	bytes []byte
}

func (f mapped) String(off, size uint64) string { return mem.String(f.bytes[off : off+size]) }
