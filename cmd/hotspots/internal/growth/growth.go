// Package growth fits how the counts of functions grow with the size of a program's input.
package growth

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Least is how many different sizes there have to be.
const Least = 3

// Growth is how the functions of a program grow.
type Growth struct {
	Program   string      `json:"program"`
	Value     string      `json:"value"` // what is counted: calls or instructions
	Sizes     []float64   `json:"sizes"` // rising
	Functions []*Function `json:"-"`     // those called at some size; the fastest growing first
	Top       int         `json:"-"`     // only so many are shown; 0: all
}

// Function is one that was called.
type Function struct {
	Object  string         `json:"object"`
	BuildID string         `json:"build_id"`
	Address report.Address `json:"address"`
	Name    string         `json:"name"`
	Counts  []uint64       `json:"counts"` // at each size

	Faster        bool     `json:"faster"`         // it grows faster than the input
	Model         string   `json:"model"`          // the best one
	Exponent      *float64 `json:"exponent"`       // of the power law; null if fewer than three counts are not 0
	ExponentError *float64 `json:"exponent_error"` // its standard error
	Fits          []Fit    `json:"fits"`           // of the models, the best first
}

// Run is a table with the size of the input that the program had.
type Run struct {
	Size  float64
	Table *table.Table
}

// Options of New.
type Options struct {
	Instructions bool                        // and not calls
	Mangled      bool                        // names as they are in the file
	Keep         func(*report.Function) bool // nil: all
}

// New fits the functions of runs, which are of one program.
func New(runs []Run, opt Options) (*Growth, error) {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(a.Size, b.Size) })
	g := &Growth{Program: symname.Clean(runs[0].Table.Program), Value: "calls"}
	if opt.Instructions {
		g.Value = "instructions"
	}
	known := map[identity]*Function{}
	for i, r := range runs {
		if err := sameBuild(runs[0].Table, r.Table); err != nil {
			return nil, err
		}
		g.Sizes = append(g.Sizes, r.Size)
		if err := g.add(r.Table, i, len(runs), opt, known); err != nil {
			return nil, err
		}
	}
	if len(slices.Compact(slices.Clone(g.Sizes))) < Least {
		return nil, fmt.Errorf("growth needs %d different sizes", Least)
	}
	if len(g.Functions) == 0 {
		return nil, errors.New("no function was called at any size: see hotspots coverage for what is counted")
	}
	for _, f := range g.Functions {
		f.fit(g.Sizes)
	}
	g.sort()
	return g, nil
}

// identity is what a function is known by, in all tables of a build.
type identity struct {
	object, buildID string
	address         report.Address
	name            string // where there is no build ID
}

// add adds the counts of table i of n.
func (g *Growth) add(t *table.Table, i, n int, opt Options, known map[identity]*Function) error {
	if opt.Instructions && !t.HasBlocks() {
		return fmt.Errorf("%s counts no blocks, so no instructions: run the program with hotspots run --blocks", t.Path())
	}
	r, err := report.New([]*table.Table{t}, report.Options{Mangled: opt.Mangled})
	if err != nil {
		return err
	}
	if opt.Instructions && r.Program.Observed > 0 {
		return fmt.Errorf("%s has the instructions of some calls only: run the program with hotspots run --blocks, and do not pause it", t.Path())
	}
	for _, f := range r.Functions {
		count := f.Calls
		if opt.Instructions {
			if count = 0; f.Instructions != nil {
				count = *f.Instructions
			}
		}
		if count == 0 || f.Excluded() || opt.Keep != nil && !opt.Keep(f) {
			continue
		}
		id := identity{object: f.Object, buildID: f.BuildID, address: f.Address}
		if f.BuildID == "" {
			id.name = f.Name
		}
		one := known[id]
		if one == nil {
			one = &Function{Object: f.Object, BuildID: f.BuildID, Address: f.Address, Name: f.Name, Counts: make([]uint64, n)}
			known[id] = one
			g.Functions = append(g.Functions, one)
		}
		one.Counts[i] += count
	}
	return nil
}

// sameBuild is an error where tables are not of one build of one program.
func sameBuild(a, b *table.Table) error {
	one, other := executable(a), executable(b)
	if one.BuildID == other.BuildID && (one.BuildID != "" || one.Path == other.Path) {
		return nil
	}
	name := func(o *layout.Object) string {
		return fmt.Sprintf("%s (build ID %s)", symname.Clean(o.Path), cmp.Or(symname.Clean(o.BuildID), "none"))
	}
	return fmt.Errorf("%s is of %s, and %s of %s: growth is of runs of one build; hotspots diff compares builds", a.Path(), name(one), b.Path(), name(other))
}

func executable(t *table.Table) *layout.Object {
	for i := range t.Objects {
		if t.Objects[i].Flags&layout.ObjMain != 0 {
			return &t.Objects[i]
		}
	}
	return &layout.Object{Path: t.Program}
}

// fit fits the function's counts.
func (f *Function) fit(sizes []float64) {
	counts := make([]float64, len(f.Counts))
	for i, n := range f.Counts {
		counts[i] = float64(n)
	}
	f.Fits = fits(sizes, counts)
	f.Model = f.Fits[0].Model
	if p, ok := power(sizes, counts); ok {
		f.Exponent, f.ExponentError = &p.Exponent, &p.Error
	}
	f.Faster = f.faster(sizes)
}

// last is the count at the largest size.
func (f *Function) last() uint64 { return f.Counts[len(f.Counts)-1] }

// faster reports whether the function grows faster than the input: not only as its model
// says, but over all sizes together, so that one call more at the largest does not count.
func (f *Function) faster(sizes []float64) bool {
	overall := math.Log(float64(max(f.last(), 1))/float64(max(f.Counts[0], 1))) / math.Log(sizes[len(sizes)-1]/sizes[0])
	if f.Exponent != nil {
		overall = *f.Exponent
	}
	return f.Fits[0].number > linear && overall > 1
}

// likely are the best model and those that are about as likely: Akaike's criterion differs by
// less than 2 (Burnham, Anderson, "Multimodel Inference", 2004).
func (f *Function) likely() []Fit {
	const alike = 2
	n := 1
	for n < len(f.Fits) && f.Fits[n].AIC-f.Fits[0].AIC < alike {
		n++
	}
	return f.Fits[:n]
}

// sure reports whether the best model is the only one that is likely.
func (f *Function) sure() bool { return len(f.likely()) == 1 }

// sort orders functions that grow faster than the input by their models, the fastest first,
// and then all by their last counts. Where several models are likely it goes by the slowest:
// what is seldom called would come first.
func (g *Growth) sort() {
	rank := func(f *Function) (slowest int) {
		if f.Faster {
			slowest = len(Models)
			for _, fit := range f.likely() {
				slowest = min(slowest, fit.number)
			}
		}
		return slowest
	}
	slices.SortFunc(g.Functions, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.last(), a.last()),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Object, b.Object), cmp.Compare(a.Address, b.Address))
	})
}

func (g *Growth) first() []*Function {
	if g.Top > 0 {
		return g.Functions[:min(g.Top, len(g.Functions))]
	}
	return g.Functions
}
