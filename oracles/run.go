package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A difference is looked at more closely: the command runs this many times
// more, without and with the library in turn, with nothing beside it.
const repeats = 2

// mostLooked is the number of units of a suite that are looked at; where more
// differ, the fault is not a test's.
const mostLooked = 40

// verdict is what a suite gave.
type verdict struct {
	suite   string
	skipped string  // the reason; empty if it ran
	errs    []error // what could not be compared, and why

	units, tests  int // compared
	counted       int // processes
	warm          int // those that started without a planner
	without, with time.Duration
	differences   []found
	unsteady      []found // outcome changes without the library, too
	notRun        []string
	preparing     time.Duration
}

// found is a test that differed at least once.
type found struct {
	difference
	rounds
}

// pair is what one unit did, without and with.
type pair struct {
	unit    *unit
	slot    int
	outcome [2]results
	elapsed [2]time.Duration
	counted int // processes
	warm    int // those that started without a planner
	err     error
	differ  []difference
}

// runSuite runs the chosen units of a suite and compares.
func (m *machine) runSuite(s *suite, choice func([]unit) ([]unit, bool)) (v verdict) {
	v.suite = s.name
	begin := time.Now()
	units, err := s.prepare(m)
	v.preparing = time.Since(begin)
	if err != nil {
		v.skipped, _ = isSkipped(err)
		if v.skipped == "" {
			v.errs = []error{fmt.Errorf("cannot prepare: %w", err)}
		}
		return v
	}
	units, all := choice(units)
	var ready []unit
	for _, u := range units {
		if u.skipped != "" {
			v.notRun = append(v.notRun, u.name+": "+u.skipped)
		} else {
			ready = append(ready, u)
		}
	}
	pairs := m.runAll(s, ready)
	for _, p := range pairs {
		v.add(p)
	}
	least := s.least
	if m.quick {
		least = s.leastQuick
	}
	if all && v.tests < least {
		v.errs = append(v.errs, fmt.Errorf("%d results without the library, %d expected: something did not run", v.tests, least))
	}
	m.lookAgain(&v, pairs)
	return v
}

// add adds what a unit did to the sums.
func (v *verdict) add(p *pair) {
	if p.err != nil {
		v.errs = append(v.errs, fmt.Errorf("%s: %w", p.unit.name, p.err))
		return
	}
	v.units++
	v.tests += len(p.outcome[0])
	v.counted, v.warm = v.counted+p.counted, v.warm+p.warm
	v.without += p.elapsed[0]
	v.with += p.elapsed[1]
}

// runAll runs the units on the machine's slots, on one if they must be alone.
func (m *machine) runAll(s *suite, units []unit) []*pair {
	jobs := m.jobs
	if s.alone {
		jobs = 1
	}
	pairs := make([]*pair, len(units))
	var done atomic.Int64
	each(jobs, len(units), func(i, slot int) {
		pairs[i] = m.both(&units[i], slot)
		if n := done.Add(1); m.verbose && m.ctx.Err() == nil {
			fmt.Printf("    [%d/%d] %v\n", n, len(units), pairs[i])
		}
	})
	return pairs
}

// each calls f for 0 to n-1, on as many goroutines as there are slots.
func (m *machine) each(n int, f func(i, slot int)) { each(m.jobs, n, f) }

func each(jobs, n int, f func(i, slot int)) {
	next := make(chan int)
	var wait sync.WaitGroup
	for slot := range jobs {
		wait.Go(func() {
			for i := range next {
				f(i, slot)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// both runs a unit without and then with the library.
func (m *machine) both(u *unit, slot int) *pair {
	p := &pair{unit: u, slot: slot}
	if p.err = context.Cause(m.ctx); p.err != nil {
		return p
	}
	placed := u.at(slot)
	said := ""
	for with := range 2 {
		o, err := m.run(m.ctx, placed, with == 1)
		if err != nil {
			p.err = err
			return p
		}
		r, err := placed.read(o)
		if err != nil {
			p.err = err
			return p
		}
		r["exit"] = o.status
		p.outcome[with], p.elapsed[with] = r, o.elapsed
		if o.status == timeLimit {
			p.err = overdue(m.limit(u), with == 1, p.outcome)
			return p
		}
		if with == 0 && u.works && o.status != "exit 0" {
			p.err = fmt.Errorf("without the library %s: %s", o.status, lastLines(string(o.stderr), 3))
			return p
		}
		if with == 0 && o.counted != 0 {
			p.err = fmt.Errorf("%d count tables without the library", o.counted)
			return p
		}
		p.counted, p.warm, said = o.counted, o.warm, lastLines(string(o.stderr), 3)
	}
	if p.counted == 0 {
		p.err = fmt.Errorf("nothing was counted with the library: %s", said)
		return p
	}
	p.differ = compare(u.name, p.outcome[0], p.outcome[1])
	return p
}

// overdue is the error of a command that has reached its time limit. Tests that it
// had not come to are no differences; of the others it says whether they are the same.
func overdue(limit time.Duration, with bool, outcome [2]results) error {
	if !with {
		return fmt.Errorf("the time limit of %v was reached without the library", limit)
	}
	differ := 0
	for test, o := range outcome[1] {
		if before, ran := outcome[0][test]; test != "exit" && ran && o != before {
			differ++
		}
	}
	return fmt.Errorf("the time limit of %v was reached with the library: %d results of %d, %d of them differ",
		limit, len(outcome[1])-1, len(outcome[0])-1, differ)
}

func (p *pair) String() string {
	what := "same"
	switch {
	case p.err != nil:
		what = p.err.Error()
	case len(p.differ) > 0:
		what = fmt.Sprintf("%d DIFFER", len(p.differ))
	}
	return fmt.Sprintf("%-40s %6d tests %7.2f s %7.2f s %6d counted  %s", p.unit.name, len(p.outcome[0]),
		p.elapsed[0].Seconds(), p.elapsed[1].Seconds(), p.counted, what)
}

// lookAgain repeats the units that differ and sorts their differences.
func (m *machine) lookAgain(v *verdict, pairs []*pair) {
	looked := 0
	for _, p := range pairs {
		if len(p.differ) == 0 {
			continue
		}
		runs := []*pair{p}
		if looked++; looked <= mostLooked {
			for range repeats {
				again := m.both(p.unit, p.slot)
				if again.err != nil {
					v.errs = append(v.errs, fmt.Errorf("%s, again: %w", p.unit.name, again.err))
					break
				}
				runs = append(runs, again)
			}
		}
		for _, f := range collect(runs) {
			if f.unsteady() {
				v.unsteady = append(v.unsteady, f)
			} else {
				v.differences = append(v.differences, f)
			}
		}
	}
}

// collect returns the tests that differ in one of the runs at least, with
// their outcomes in all.
func collect(runs []*pair) []found {
	var all []found
	seen := map[string]bool{}
	for _, r := range runs {
		for _, d := range r.differ {
			if seen[d.test] {
				continue
			}
			seen[d.test] = true
			f := found{difference: d}
			for _, r := range runs {
				a, b := outcome(r.outcome[0], d.test), outcome(r.outcome[1], d.test)
				f.rounds.without = append(f.rounds.without, a)
				f.rounds.with = append(f.rounds.with, b)
			}
			f.shorten()
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b found) int { return len(a.test) - len(b.test) })
	return all
}

func outcome(r results, test string) string {
	if o, ok := r[test]; ok {
		return o
	}
	return none
}

// shorten cuts outcomes of many lines down to what differs.
func (f *found) shorten() {
	a, b := f.rounds.without[0], ""
	for _, o := range f.rounds.with {
		if b = o; b != a {
			break
		}
	}
	if f.unsteady() || len(a)+len(b) < mostShown {
		return
	}
	x, y := firstDifference(a, b)
	for i := range f.rounds.without {
		f.rounds.without[i] = x
	}
	for i, o := range f.rounds.with {
		switch o {
		case a:
			f.rounds.with[i] = x
		case b:
			f.rounds.with[i] = y
		}
	}
}

// errTimeIsUp is the cause of a cancelled context.
var errTimeIsUp = errors.New("the time is up (-time)")

func withTime(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), d, errTimeIsUp)
}
