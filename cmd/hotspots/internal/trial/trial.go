// Package trial runs a program as it is, once to find out where memory is not touched any more, and once
// more, with that memory given back there.
package trial

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/dynprof/dynprof/internal/ptrace"
)

// Plan is which memory is given back, and where.
type Plan struct {
	Program string // path of what is executed
	Points  []Spot // that the program comes to, in any order: each counts when it does so first
	Dead    []Dead
}

// Spot is a place in an object's code.
type Spot struct {
	Object string // path
	Offset uint64 // from the lowest address that the object has
}

// Dead is memory that is not touched any more. Of it the whole pages go.
type Dead struct {
	Object string // path of what it lies in; empty: in the heap, or in a block of malloc:
	Block  *Spot  // where the call returns to that asks for this, and for no other
	Offset uint64 // bytes, from where the object, the heap or the block begins
	Bytes  uint64
}

// Run is what came of a program.
type Run struct {
	Status   int // as a shell says it
	Bytes    int64
	Output   [sha256.Size]byte // of its standard output
	Resident uint64            // bytes at its end; 0: it is not known

	Point  int    // of Find: the first of the plan behind which nothing of the memory was touched; -1: there is none
	Came   bool   // it did come to the point, where
	Asked  uint64 // pages were given back, of which
	Given  uint64 // were in memory, and
	Again  uint64 // are there again at the end
	Denied error  // why some were not
}

// Same reports whether two programs have said the same.
func (r *Run) Same(o *Run) bool {
	return r.Status == o.Status && r.Bytes == o.Bytes && r.Output == o.Output
}

// ErrOther says that a program is not the one that the plan is of.
var ErrOther = errors.New("it is not the program of the table, or that does not begin with it")

// Find runs a program, and finds out at which point of a plan its memory is dead.
func Find(argv []string, plan *Plan) (*Run, error) {
	return run(argv, plan, func(t *tracer) func(int, ptrace.Tracee) error { return t.compare })
}

// Apply runs a program, and gives the plan's memory back when it comes to one of its points.
func Apply(argv []string, plan *Plan, point int) (*Run, error) {
	one := Plan{plan.Program, plan.Points[point : point+1], plan.Dead}
	return run(argv, &one, func(t *tracer) func(int, ptrace.Tracee) error { return t.giveBack })
}

// run runs a program. Its output goes nowhere, what it says on stderr to where ours does. It reads what we would, from
// the beginning, if that is a file; else nothing.
func run(argv []string, plan *Plan, come func(*tracer) func(int, ptrace.Tracee) error) (*Run, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp("", "hotspots-trial")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := os.Remove(out.Name()); err != nil {
		return nil, err
	}
	in, err := input()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	runtime.LockOSThread() // the kernel knows who traces by thread
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{in, out, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return nil, err
	}
	defer p.Release()
	t := newTracer(p.Pid, plan)
	t.come = come(t)
	err = t.run()
	if err != nil {
		t.end()
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	h := sha256.New()
	if _, err = out.Seek(0, io.SeekStart); err == nil {
		t.result.Bytes, err = io.Copy(h, out)
	}
	h.Sum(t.result.Output[:0])
	return &t.result, err
}

func input() (*os.File, error) {
	if info, err := os.Stdin.Stat(); err == nil && info.Mode().IsRegular() {
		if f, err := os.Open("/proc/self/fd/0"); err == nil {
			return f, nil
		}
	}
	return os.Open(os.DevNull)
}
