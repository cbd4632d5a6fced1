// Package system plans every ELF file of some directories without running
// anything: which functions would be counted, by which tactic, and which
// would not.
package system

import (
	"bytes"
	"fmt"
	"os"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// File is what planning one ELF file tells.
type File struct {
	Path       string
	Functions  int // found, without what is excluded
	Tactics    map[ledger.Tactic]int
	Excluded   map[ledger.Reason]int
	Exceptions []Exception
	Code       uint64 // bytes where functions may lie,
	Untold     uint64 // and those of them in no function
	Blocks     Blocks // if they were asked for
}

// Options are what is planned.
type Options struct {
	Traps  bool // as with --allow-traps
	Blocks bool // which functions could run as copies, too
}

// Exception is a function that would not be counted.
type Exception struct {
	Addr   uint64 // link-time
	Size   uint64 // bytes
	Name   string // empty if it has none
	Reason ledger.Reason
	Code   []byte // its first bytes, at most maxCode
}

const maxCode = 32

// Counted is the number of functions that would be counted.
func (f *File) Counted() int { return f.Functions - len(f.Exceptions) }

// Plan plans all functions of an ELF file for x86-64. Errors wrap elfscan.ErrNotELF and
// its siblings.
func Plan(path string, want Options) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	scan, err := elfscan.Scan(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o := stubgen.FromFile(scan, content, 0)
	if want.Traps {
		o.SignalSites = survey.FindSignalSites(o.Text)
	}
	s := survey.New(o, 1)
	f := &File{Path: path, Tactics: map[ledger.Tactic]int{}, Excluded: map[ledger.Reason]int{}}
	f.Code, f.Untold = uint64(o.CodeSize()), uint64(s.Untold())
	plans := entry.Plans(s, entry.Options{KnownFaults: true, Traps: want.Traps}, 1, nil)
	for _, p := range plans {
		f.add(o, p)
	}
	if want.Blocks {
		sites, err := elfscan.CallSites(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		f.Blocks.find(flow.New(s, sites, 1), plans)
	}
	return f, nil
}

func (f *File) add(o *stubgen.Object, p entry.Plan) {
	if !p.Counted() && p.Reason.Excluded() {
		f.Excluded[p.Reason]++
		return
	}
	f.Functions++
	if p.Counted() {
		f.Tactics[p.Tactic]++
		return
	}
	fn := &o.Functions[p.Function]
	code := o.Code(fn.Addr)
	code = code[:min(len(code), int(fn.Size), maxCode)]
	f.Exceptions = append(f.Exceptions, Exception{fn.Addr, fn.Size, fn.Name, p.Reason, bytes.Clone(code)})
}
