package system

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/dynprof/dynprof/internal/ledger"
)

// Summary adds up the plans of many files.
type Summary struct {
	Files     []*File // that have functions, worst coverage first
	Broken    []error // files that could not be planned
	Untold    []*File // that have code in no function, most first; also those without functions
	Functions int
	Code      uint64 // bytes where functions may lie, of all files
	Tactics   map[ledger.Tactic]int
	Uncounted map[ledger.Reason]int
	Excluded  map[ledger.Reason]int
	Blocks    Blocks // of all files
}

// Summarize takes the results of PlanAll.
func Summarize(plans []*File, errs []error) *Summary {
	s := &Summary{Tactics: map[ledger.Tactic]int{}, Uncounted: map[ledger.Reason]int{}, Excluded: map[ledger.Reason]int{}}
	for i, f := range plans {
		if errs[i] != nil {
			s.Broken = append(s.Broken, errs[i])
			continue
		}
		s.Functions += f.Functions
		s.Code += f.Code
		if f.Untold > 0 {
			s.Untold = append(s.Untold, f)
		}
		addAll(s.Tactics, f.Tactics)
		addAll(s.Excluded, f.Excluded)
		addAll(s.Uncounted, f.Uncounted())
		s.Blocks.add(&f.Blocks)
		if f.Functions > 0 {
			s.Files = append(s.Files, f)
		}
	}
	slices.SortStableFunc(s.Files, func(a, b *File) int {
		return cmp.Or(cmp.Compare(a.share(), b.share()), cmp.Compare(len(b.Exceptions), len(a.Exceptions)))
	})
	slices.SortStableFunc(s.Untold, func(a, b *File) int { return cmp.Compare(b.Untold, a.Untold) })
	return s
}

// UntoldBytes is how much code lies in no function.
func (s *Summary) UntoldBytes() (n uint64) {
	for _, f := range s.Untold {
		n += f.Untold
	}
	return n
}

// Uncounted counts the exceptions by reason.
func (f *File) Uncounted() map[ledger.Reason]int {
	n := map[ledger.Reason]int{}
	for _, e := range f.Exceptions {
		n[e.Reason]++
	}
	return n
}

func addAll[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

func (f *File) share() float64 { return float64(f.Counted()) / float64(f.Functions) }

// Counted is the number of functions that would be counted.
func (s *Summary) Counted() (n int) {
	for k := range maps.Values(s.Tactics) {
		n += k
	}
	return n
}

// Percentile is the coverage in percent, rounded down to two digits, that p
// percent of the files stay below or reach; p = 0 is the worst file's.
func (s *Summary) Percentile(p int) float64 {
	if len(s.Files) == 0 {
		return 100
	}
	return percent(s.Files[(len(s.Files)-1)*p/100])
}

func percent(f *File) float64 { return math.Floor(f.share()*10000) / 100 }
