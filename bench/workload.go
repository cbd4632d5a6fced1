package main

import (
	"path/filepath"
	"sync"
)

// workload is a program and a measure of work for it.
type workload struct {
	name  string
	about string
	size  int // of the full work: about a second without counting
	small int // the part of it, 1/small, for tools that are slow; uftrace gets a fifth of that

	source  string // C or C++ file in workloads/, which tools that rebuild compile
	needs   []string
	uses    int                                                 // CPUs
	prepare func(m *machine, w *workload) error                 // if it takes more than compiling source
	args    func(m *machine, size int) ([]string, error)        // of the program
	stdin   func(m *machine, size int) (string, error)          // path
	drive   func(m *machine, dir string, size int) func() error // of a server
	env     []string                                            // for dynprof
	calls   func(size int) counts                               // exact ones, by construction; nil: callgrind is asked
	alone   bool                                                // beside dynprof and nothing else: others take minutes
	static  bool                                                // no preload reaches it
	partly  bool                                                // calls knows a part of the functions, and the others differ from run to run

	program string
}

// counter is what counts it as users do.
func (w *workload) counter() *tool {
	if w.static {
		return compiled
	}
	return dynprof
}

// counts are the calls of functions, by name as the linker knows it. One
// without a name is object+0xaddress, as in reports.
type counts map[string]uint64

func (c counts) total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

// build compiles a source file of the workloads, once.
func (m *machine) build(name string, args ...string) (string, error) {
	path := filepath.Join(m.work, "bin", name)
	return path, m.once(path, func() error {
		_, err := m.tool(append(args, "-o", path)...)
		return err
	})
}

// once does a preparation, of those with the same name the first one. Others
// wait for it.
func (m *machine) once(name string, do func() error) error {
	m.mutex.Lock()
	f := m.prepared[name]
	if f == nil {
		f = sync.OnceValue(do)
		m.prepared[name] = f
	}
	m.mutex.Unlock()
	return f()
}

// compile compiles a workload with more flags for a tool that needs it so.
func (m *machine) compile(w *workload, compiler, suffix string, flags ...string) (string, error) {
	args := append([]string{compilerFor(w.source, compiler), "-O2", "-pthread"}, flags...)
	return m.build(w.name+suffix, append(args, filepath.Join(m.sources, w.source))...)
}

// compilerFor is the C++ compiler that belongs to a C compiler, for C++.
func compilerFor(source, compiler string) string {
	if filepath.Ext(source) != ".cc" {
		return compiler
	}
	return map[string]string{"gcc": "g++", "clang": "clang++"}[compiler]
}

// ready builds a workload and says why it cannot run.
func (m *machine) ready(w *workload) error {
	if err := needs(w.needs...); err != nil {
		return err
	}
	if w.uses == 0 {
		w.uses = 1
	}
	if err := tooFewCPUs(w.uses); err != nil {
		return err
	}
	if w.source != "" {
		var err error
		if w.program, err = m.compile(w, "gcc", ""); err != nil {
			return err
		}
	}
	if w.prepare != nil {
		return w.prepare(m, w)
	}
	return nil
}
