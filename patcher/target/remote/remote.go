// Package remote is a target that is looked at from outside, while it runs: hotspots attach.
// What is read may be torn; the target compares the bytes that it changes.
package remote

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/dynprof/dynprof/internal/mem"
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

	thread  string // PID/task/TID of one that lives, below /proc
	reserve []byte
	mu      sync.Mutex
	unread  error
}

// Open opens the memory of a process.
func Open(pid int) (*Process, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, err
	}
	for _, t := range tasks { // the first thread may have ended, and has no memory then
		var f *os.File
		thread := fmt.Sprintf("%d/task/%s", pid, t.Name())
		if f, err = os.OpenFile("/proc/"+thread+"/mem", os.O_RDWR, 0); err == nil {
			return &Process{Pid: pid, Memory: f, thread: thread}, nil
		}
	}
	return nil, err
}

// Close closes it.
func (p *Process) Close() error { return p.Memory.Close() }

// Thread is where /proc tells of a thread of it that lives.
func (p *Process) Thread() string { return "/proc/" + p.thread }

// Maps implements target.Target: with what will be ours.
func (p *Process) Maps() ([]procmaps.Mapping, error) {
	all, err := procmaps.Of(strconv.Itoa(p.Pid))
	if err != nil || p.Held.High == 0 {
		return all, err
	}
	i, _ := slices.BinarySearchFunc(all, p.Held.Low, func(m procmaps.Mapping, low uint64) int {
		if m.Start < low {
			return -1
		}
		return 1
	})
	return slices.Insert(all, i, procmaps.Mapping{Start: p.Held.Low, End: p.Held.High}), nil
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
	return !slices.ContainsFunc(maps, func(m procmaps.Mapping) bool { return m.Start < at+size && m.End > at })
}

// Hold implements target.Target: from outside nothing can be held.
func (p *Process) Hold(uint64, uint64) bool { return false }

// Lowest implements target.Target.
func (p *Process) Lowest() uint64 { return mem.Lowest() }

// Growth implements target.Target. The heap stays where it is.
func (p *Process) Growth() (g place.Growth) {
	g.Heap, _ = mem.Brk(p.thread) // not known: no heap is in the way
	g.Stack = math.MaxUint64
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

// Open implements target.Target.
func (p *Process) Open(path string) (target.File, error) {
	if rest, own := strings.CutPrefix(path, "/proc/self/"); own {
		path = p.Thread() + "/" + rest
	}
	return files.Open(path, nil)
}

// Resolve implements target.Target.
func (p *Process) Resolve(path string) (string, error) {
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
