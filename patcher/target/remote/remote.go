// Package remote is a target that is looked at from outside, while it runs: hotspots attach.
// What is read may be torn; the target compares the bytes that it changes.
package remote

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/procmaps"
	"github.com/dynprof/dynprof/patcher/place"
	"github.com/dynprof/dynprof/patcher/target"
	"github.com/dynprof/dynprof/patcher/target/files"
)

// Process is a target.Target.
type Process struct {
	Pid    int
	Memory *os.File // /proc/PID/mem
	// ReserveSize is how many bytes arenas may have.
	ReserveSize uint64
	// Held is what will be ours, but is not mapped yet: no arena lies there.
	Held place.Span
	// Apart: it has another root directory or other mounts. The names of its files are its own.
	Apart bool
	// LeftFree is place.Growth.Maps.
	LeftFree uint64

	thread  string // PID/task/TID of one that lives, below /proc
	reserve []byte
	mu      sync.Mutex
	given   []place.Span
	unread  error
}

// Living is where /proc tells of a thread that lives: the first may have ended while others go
// on, and has no memory then.
func Living(pid int) string {
	first := strconv.Itoa(pid)
	names := []string{first}
	tasks, _ := os.ReadDir("/proc/" + first + "/task") // who is gone has none
	for _, t := range tasks {
		names = append(names, t.Name())
	}
	for _, name := range names {
		at := "/proc/" + first + "/task/" + name
		if b, err := procfile.Read(at + "/stat"); err == nil && procfile.StateOf(b) != 'Z' {
			return at
		}
	}
	return "/proc/" + first
}

// Open opens the memory of a process.
func Open(pid int) (*Process, error) {
	thread := Living(pid)
	f, err := os.OpenFile(thread+"/mem", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Process{Pid: pid, Memory: f, thread: strings.TrimPrefix(thread, "/proc/")}, nil
}

// Close closes it.
func (p *Process) Close() error { return p.Memory.Close() }

// Thread is where /proc tells of a thread of it that lives.
func (p *Process) Thread() string { return "/proc/" + p.thread }

// Task is that directory's name below /proc.
func (p *Process) Task() string { return p.thread }

// Maps implements target.Target: with what will be ours, and without what the program may
// map by then.
func (p *Process) Maps() (all []procmaps.Mapping, err error) {
	if all, err = procmaps.Of(strconv.Itoa(p.Pid)); err != nil {
		return nil, err
	}
	all = withGrowth(all)
	if p.Held.High != 0 {
		all = append(all, procmaps.Mapping{Start: p.Held.Low, End: p.Held.High})
	}
	slices.SortFunc(all, func(a, b procmaps.Mapping) int { return cmp.Compare(a.Start, b.Start) })
	return all, nil
}

// withGrowth takes the upper ends of large gaps for mapped: the kernel puts there what a
// program maps next, who runs while we plan. Code is in reach of what is further down.
func withGrowth(maps []procmaps.Mapping) (all []procmaps.Mapping) {
	const large, growth = 2 << 30, 512 << 20
	end := uint64(0)
	for _, m := range maps {
		if m.Start-end > large && m.Start > end {
			all = append(all, procmaps.Mapping{Start: m.Start - growth, End: m.Start})
		}
		all, end = append(all, m), m.End
	}
	return all
}

// IsTaken reports whether something is mapped in a range.
func IsTaken(maps []procmaps.Mapping, low, high uint64) bool {
	return slices.ContainsFunc(maps, func(m procmaps.Mapping) bool { return m.Start < high && m.End > low })
}

// View implements target.Target by a copy. What cannot be read is zero, and an error of
// Checked.
func (p *Process) View(at uint64, n int) []byte {
	b := make([]byte, n)
	if _, err := p.Memory.ReadAt(b, int64(at)); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unread = fmt.Errorf("its memory at %#x cannot be read: %w", at, err)
	}
	return b
}

// Checked is why something could not be read, if so.
func (p *Process) Checked() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread
}

// IsFree implements target.Target.
func (p *Process) IsFree(at, size uint64) bool {
	maps, err := p.Maps()
	if err != nil {
		return false
	}
	return !IsTaken(maps, at, at+size)
}

// Hold implements target.Target: from outside nothing can be held. Of what is free it is noted
// that it has been given; the process sees whether it still is.
func (p *Process) Hold(at, size uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.given, func(s place.Span) bool { return s.Low < at+size && s.High > at }) || !p.IsFree(at, size) {
		return false
	}
	p.given = append(p.given, place.Span{Low: at, High: at + size})
	return true
}

// Lowest implements target.Target.
func (p *Process) Lowest() uint64 { return mem.Lowest() }

// Growth implements target.Target. The heap stays where it is.
func (p *Process) Growth() (g place.Growth) {
	g.Heap, _ = mem.Brk(p.thread) // not known: no heap is in the way
	g.Stack, g.Maps = math.MaxUint64, p.LeftFree
	var limit unix.Rlimit
	if unix.Prlimit(p.Pid, unix.RLIMIT_STACK, nil, &limit) == nil {
		g.Stack = limit.Cur
	}
	return g
}

// Written implements target.Target.
func (p *Process) Written(low, high uint64) ([]uint64, error) {
	return mem.OwnPagesOf(p.thread, low, high)
}

// Open implements target.Target. What /proc/PID/maps says of a process in another root is a
// path from ours, if one leads there, else from its mount's.
func (p *Process) Open(path string) (target.File, error) {
	if rest, own := strings.CutPrefix(path, "/proc/self/"); own {
		return files.Open(p.Thread()+"/"+rest, nil)
	}
	if p.Apart {
		if f, err := p.openApart(path); err == nil {
			return f, nil
		}
	}
	return files.Open(path, nil)
}

// openApart opens a file in the process's root, which symbolic links do not lead out of.
func (p *Process) openApart(path string) (target.File, error) {
	root, err := os.OpenRoot(p.Thread() + "/root")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(strings.TrimPrefix(path, "/"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return files.Of(f, nil)
}

// Resolve implements target.Target.
func (p *Process) Resolve(path string) (string, error) {
	if p.Apart {
		return filepath.Clean(path), nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// IsDebugged implements target.Target: a process that somebody traces is not attached to.
func (p *Process) IsDebugged() bool { return false }

// Reserve implements target.Target: memory of our own, which is copied later.
func (p *Process) Reserve() ([]byte, error) {
	if p.reserve == nil {
		p.reserve = make([]byte, p.ReserveSize)
	}
	return p.reserve, nil
}
