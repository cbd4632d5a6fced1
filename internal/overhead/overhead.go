// Package overhead chooses the functions whose blocks are counted, so that it takes no more
// than a share of a program's CPU time (docs/blocks.md, "Within a bound"). It is pure: who
// uses it (package agent) looks at the program now and then, says what it has seen, and turns
// the counting of blocks on and off as this says.
package overhead

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bound is a share of CPU time, in tenths of a percent; 0 is none.
type Bound uint32

// MostBound is all of it.
const MostBound Bound = 1000

// Parse reads a bound as users write it: 5%, 0.5%, 5.
func Parse(text string) (Bound, error) {
	whole, tenth, point := strings.Cut(strings.TrimSuffix(text, "%"), ".")
	n, err := strconv.ParseUint(whole, 10, 16)
	if err == nil && point {
		var digit uint64
		if digit, err = strconv.ParseUint(tenth, 10, 16); len(tenth) != 1 {
			err = strconv.ErrSyntax
		}
		n = 10*n + digit
	} else {
		n *= 10
	}
	if err != nil || n < 1 || n > uint64(MostBound) {
		return 0, fmt.Errorf("%q is not a share of CPU time from 0.1%% to 100%%, as 5%%, with one decimal at most", text)
	}
	return Bound(n), nil
}

func (b Bound) String() string {
	if b%10 == 0 {
		return fmt.Sprintf("%d%%", b/10)
	}
	return fmt.Sprintf("%d.%d%%", b/10, b%10)
}

// Share is the bound as a number.
func (b Bound) Share() float64 { return float64(b) / float64(MostBound) }

// What an increment of a block's counter is taken to cost, in ns of CPU time; with lock where
// all threads share their counters (docs/blocks.md says how it was measured).
const (
	CountCost     = 1.3
	LockCountCost = 10
)

// Burst is the CPU time of the program whose share may be saved up while nothing, or little,
// is observed.
const Burst = time.Second

// Function is one whose blocks can be counted or not.
type Function struct {
	Threshold uint64 // calls from which on it is hot; 0: it never is
	Counters  int    // of its blocks and ways
}

// Chooser chooses among a program's functions. Counting takes what is saved up: the bound's
// share of the CPU time that the program takes without it, less what counting has taken, by
// estimate. While nothing is saved no function's blocks are counted. So what counting has
// taken is never more than the bound allows and what it takes in one interval between looks,
// but for calls that began before their function's counting was turned off, and go on.
type Chooser struct {
	Cost, Time float64 // ns: what counting took by estimate, and all CPU time

	bound, countCost float64
	saved            float64 // ns
	functions        []function
	turns            []int // hot functions, those whose turn is next in front
}

type function struct {
	Function
	calls, counts uint64  // when they were looked at last
	recent        uint64  // calls in the last interval
	each          float64 // ns that counting takes a call, as far as is known
	took          float64 // ns that it took in the last interval
	hot, on       bool
}

// New makes a chooser without functions. countCost is what an increment takes, in ns.
func New(bound Bound, countCost float64) *Chooser {
	return &Chooser{bound: bound.Share(), countCost: countCost}
}

// Add adds functions, behind those that there are. Nothing of them is counted yet.
func (c *Chooser) Add(functions []Function) {
	for _, f := range functions {
		c.functions = append(c.functions, function{Function: f, each: float64(f.Counters) * c.countCost})
	}
}

// Look chooses the functions whose blocks are counted until the next look, by what it is told
// of the program: CPU time since the last look, calls of each function, and the sum of the
// counters of its blocks, both from the start on.
func (c *Chooser) Look(time time.Duration, calls, counts []uint64) (on []int) {
	cost := 0.0
	for i := range c.functions {
		cost += c.functions[i].look(calls[i], counts[i], c.countCost)
	}
	c.Time += float64(time)
	c.Cost += cost
	c.saved += c.bound*max(0, float64(time)-cost) - cost
	c.saved = min(c.saved, c.full())
	c.welcome()
	return c.next()
}

// full is the most that can be saved.
func (c *Chooser) full() float64 { return c.bound * float64(Burst) }

// look notes the counts of a function, and returns what counting took since the last time.
func (f *function) look(calls, counts uint64, countCost float64) float64 {
	f.recent, f.calls = calls-min(f.calls, calls), calls
	f.took, f.counts = float64(counts-min(f.counts, counts))*countCost, counts
	if f.on && f.recent > 0 {
		f.each = f.took / float64(f.recent)
	}
	return f.took
}

// welcome gives functions that have become hot the next turns, those first that were called
// most.
func (c *Chooser) welcome() {
	var come []int
	for i := range c.functions {
		if f := &c.functions[i]; !f.hot && f.Threshold > 0 && f.calls >= f.Threshold {
			f.hot = true
			come = append(come, i)
		}
	}
	slices.SortStableFunc(come, func(a, b int) int { return cmp.Compare(c.functions[b].recent, c.functions[a].recent) })
	c.turns = append(come, c.turns...)
}

// next has as many functions come to their turn as can be expected to take no more than is
// saved, and one that takes more when no more can be saved. Then they are last.
func (c *Chooser) next() []int {
	for i := range c.functions {
		c.functions[i].on = false
	}
	n, expected := 0, 0.0
	for n < len(c.turns) && c.saved > 0 {
		f := &c.functions[c.turns[n]]
		expected += max(f.each*float64(f.recent), f.took)
		if expected > c.saved && (n > 0 || c.saved < c.full()) {
			break
		}
		f.on = true
		n++
	}
	c.turns = append(c.turns[n:], c.turns[:n]...)
	return c.turns[len(c.turns)-n:]
}

// Share is what counting has taken of the CPU time without it.
func Share(cost, time float64) float64 {
	if time <= cost {
		return 0
	}
	return cost / (time - cost)
}
