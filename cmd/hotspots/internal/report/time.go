package report

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// SelfTime is the CPU time of a function itself, without what it calls, estimated from
// samples: nanoseconds, and the interval that they are in with 95 % confidence
// (cputime.Interval).
type SelfTime struct {
	Self uint64 `json:"self_ns"`
	Low  uint64 `json:"self_ns_low"`
	High uint64 `json:"self_ns_high"`
}

// Sampling is what is known of the CPU time of a program, ns, and how it was sampled.
type Sampling struct {
	Total     uint64 `json:"total_ns"` // of all functions, in the ledger or not, and of the kernel
	Samples   uint64 `json:"samples"`  // that this is made of
	Period    uint64 `json:"period_ns"`
	Kernel    bool   `json:"kernel"`        // time in the kernel was sampled, too
	Own       uint64 `json:"own_ns"`        // in dynprof's code in the program, but for stubs; not in the total
	Guessed   uint64 `json:"guessed_ns"`    // in the total, in code that only its process could tell of, which had ended
	Planner   uint64 `json:"planner_ns"`    // in processes of dynprof's; not in the total
	Elsewhere uint64 `json:"elsewhere_ns"`  // in programs that it executed, and that are not counted; not in the total
	Lost      uint64 `json:"lost"`          // records that found no room
	Throttled uint64 `json:"throttled"`     // times that the kernel stopped the samples
	NewCPUs   int    `json:"new_cpus"`      // CPUs that came meanwhile, and are not sampled
	Ended     bool   `json:"ended"`         // the sampling has
	Err       string `json:"err,omitempty"` // why nothing of it can be read
}

// NoFunction is the name of code in no function that is known.
const NoFunction = "[no function]"

const kernelName = "[kernel]"

// timeSum adds up the time of a function in several tables. The distances to the ends of its
// intervals add up in quadrature, as errors do that are independent.
type timeSum struct{ self, low, high float64 }

func (s *timeSum) add(f *cputime.File, samples, total uint64) {
	period := float64(f.Period)
	self, all := float64(samples)*period, float64(total)*period
	low, high := cputime.Interval(samples, total)
	if total == 0 { // nothing was sampled: nothing is known of nothing
		low, high = 0, 0
	}
	s.self += self
	s.low = math.Hypot(s.low, self-low*all)
	s.high = math.Hypot(s.high, high*all-self)
}

func (s *timeSum) time() *SelfTime {
	return &SelfTime{uint64(math.Round(s.self)), uint64(math.Round(max(0, s.self-s.low))), uint64(math.Round(s.self + s.high))}
}

// Times are those beside a table, by the functions of its ledger.
type Times struct {
	Sampling
	Rest []cputime.Function // what is in no ledger, the kernel too

	file *cputime.File
	of   map[int]uint64 // samples, by number in the ledger
}

// TimesOf reads the times beside a table; nil if there are none.
func TimesOf(t *table.Table) (*Times, error) {
	if t.Path() == "" {
		return nil, nil
	}
	f, err := cputime.Read(t.Path(), t.Nonce)
	if errors.Is(err, cputime.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := f.Total()
	times := &Times{file: f, of: map[int]uint64{}, Sampling: Sampling{
		Total: f.Duration(n), Samples: n, Period: f.Period, Kernel: f.Kernel, Own: f.Duration(f.Own), Guessed: f.Duration(f.Guessed), Planner: f.Duration(f.Planner),
		Elsewhere: f.Duration(f.Elsewhere), Lost: f.Lost, Throttled: f.Throttled, NewCPUs: f.NewCPUs, Ended: f.Ended,
	}}
	for i := range f.Functions {
		r := &f.Functions[i]
		if n := r.Number; n >= 0 && n < len(t.Functions) && t.Functions[n].Address == r.Address && t.Objects[t.Functions[n].Object].Path == r.Object {
			times.of[n] += r.Samples
		} else {
			times.Rest = append(times.Rest, *r)
		}
	}
	if f.InKernel > 0 {
		times.Rest = append(times.Rest, cputime.Function{Number: -1, Object: kernelName, Name: kernelName, Samples: f.InKernel})
	}
	return times, nil
}

// Nanoseconds is the time of function i of the ledger.
func (t *Times) Nanoseconds(i int) uint64 {
	if t == nil {
		return 0
	}
	return t.file.Duration(t.of[i])
}

// Of is that with its interval.
func (t *Times) Of(i int) *SelfTime { return t.OfSamples(t.of[i]) }

// OfSamples is the time that so many of the samples stand for.
func (t *Times) OfSamples(n uint64) *SelfTime {
	var sum timeSum
	sum.add(t.file, n, t.Samples)
	return sum.time()
}

// Duration is the time that so many samples stand for, ns.
func (t *Times) Duration(samples uint64) uint64 { return t.file.Duration(samples) }

// SamplingOf is what is said of times, or of why they cannot be read.
func SamplingOf(t *Times, err error) *Sampling {
	switch {
	case err != nil:
		return &Sampling{Err: symname.Clean(err.Error())}
	case t == nil:
		return nil
	}
	return &t.Sampling
}

// addTimes adds the times of a table, whose functions are those.
func (r *Report) addTimes(times *Times, functions map[int]*Function) {
	if times == nil {
		return
	}
	for i, one := range functions {
		one.sum(times, times.of[i])
	}
	if r.beside == nil {
		r.beside = map[identity]*Function{}
	}
	for i := range times.Rest {
		row := &times.Rest[i]
		o := &layout.Object{Path: row.Object, BuildID: row.BuildID}
		e := &layout.Function{Address: row.Address, Size: row.Size, Name: row.Name, Counter: layout.NoCounter, Reason: ledger.ReasonNotSelected}
		if e.Size == 0 && e.Name == "" {
			e.Name = NoFunction
		}
		k := identityOf(o, e)
		one := r.beside[k]
		if one == nil {
			one = &Function{first: e, object: o}
			one.merge(e, 0, false)
			r.beside[k] = one
		}
		one.sum(times, row.Samples)
	}
}

func (f *Function) sum(times *Times, samples uint64) {
	if f.times == nil {
		f.times = &timeSum{}
	}
	f.times.add(times.file, samples, times.Samples)
}

// addSampling adds that of one more table.
func (s *Sampling) add(more *Sampling) *Sampling {
	if more == nil {
		return s
	}
	if s == nil {
		sum := *more
		return &sum
	}
	s.Total += more.Total
	s.Samples += more.Samples
	s.Own += more.Own
	s.Guessed += more.Guessed
	s.Planner += more.Planner
	s.Elsewhere += more.Elsewhere
	s.Lost = max(s.Lost, more.Lost) // of the whole run
	s.Throttled = max(s.Throttled, more.Throttled)
	s.NewCPUs = max(s.NewCPUs, more.NewCPUs)
	s.Kernel = s.Kernel && more.Kernel
	s.Ended = s.Ended && more.Ended
	if s.Err == "" {
		s.Err = more.Err
	}
	if s.Period == 0 {
		s.Period = more.Period
	}
	return s
}

// HasTime reports whether CPU time was sampled.
func (p *Program) HasTime() bool { return p.Time != nil && p.Time.Period > 0 }

// WithTimes makes lines of what took CPU time and is in no ledger: functions of objects that
// are not counted, code in no function, the kernel.
func (r *Report) WithTimes() *Report {
	for _, f := range r.beside {
		r.Functions = append(r.Functions, f)
	}
	r.beside = nil
	return r
}

// took reports whether f was found in a sample.
func (f *Function) took() bool { return f.SelfTime != nil && f.Self > 0 }

// self is -1 where no time was sampled.
func (f *Function) self() int64 {
	if f.SelfTime == nil {
		return -1
	}
	return int64(f.Self)
}

// timeColumns are those of the heading, and timeFigures those of a function: its time, the
// share of all with half of the interval's length, the time of a call.
const timeColumns = "TIME\tTIME%\tA CALL"

func (r *Report) timeFigures(t *SelfTime, calls uint64) string {
	if t == nil {
		return "-\t-\t-"
	}
	each := "-"
	if calls > 0 && t.Self > 0 && r.Reset == nil {
		each = figures.Nanoseconds(float64(t.Self) / float64(calls))
	}
	return fmt.Sprintf("%s\t%s\t%s", figures.Nanoseconds(float64(t.Self)), ShareOfTime(t, r.Time.Total), each)
}

// ShareOfTime is a share of all CPU time, with half of its interval's length.
func ShareOfTime(t *SelfTime, total uint64) string {
	if total == 0 {
		return "-"
	}
	percent := func(ns uint64) float64 { return float64(ns) / float64(total) * 100 }
	return fmt.Sprintf("%.1f±%.1f%%", percent(t.Self), percent(t.High-t.Low)/2)
}

// timeHead says how much CPU time was sampled.
func (p *Program) timeHead() string {
	if !p.HasTime() {
		return ""
	}
	s := p.Time
	where := ""
	if !s.Kernel {
		where = " outside of the kernel"
	}
	return fmt.Sprintf(", %s of CPU time%s in %s samples", figures.Nanoseconds(float64(s.Total)), where, figures.Thousands(s.Samples))
}

// timeLacks says what is not in the times.
func (p *Program) timeLacks() (all []string) {
	s := p.Time
	if s == nil {
		return nil
	}
	if s.Err != "" {
		return []string{"its CPU times cannot be read: " + s.Err}
	}
	if s.Elsewhere > 0 {
		all = append(all, fmt.Sprintf("%s more in programs that it executed", figures.Nanoseconds(float64(s.Elsewhere))))
	}
	if s.Lost > 0 {
		all = append(all, fmt.Sprintf("records of samples that found no room: %s", figures.Thousands(s.Lost)))
	}
	if s.Throttled > 0 {
		all = append(all, fmt.Sprintf("times that the kernel stopped the samples: %s; a lower frequency may help", figures.Thousands(s.Throttled)))
	}
	if s.NewCPUs > 0 {
		all = append(all, fmt.Sprintf("CPUs that came meanwhile are not sampled: %d", s.NewCPUs))
	}
	if p.Reset != nil {
		all = append(all, "CPU time is that since the start")
	}
	return all
}

// calls are those of a function; - if it is not counted.
func calls(f *Function) string {
	if f.Calls == 0 && !f.Counted() {
		return "-"
	}
	return figures.Thousands(f.Calls)
}

// timeText writes the functions that were called, or found in a sample: time, its share, time
// of a call, calls, their share, object, name.
func (r *Report) timeText() *text {
	t := newText(timeColumns+"\tCALLS\tSHARE", "OBJECT", "FUNCTION")
	for _, f := range r.Functions {
		if f.Calls == 0 && !f.took() {
			continue
		}
		t.hot[len(t.rest)] = f.Hot
		share := "-"
		if f.Calls > 0 {
			share = figures.Share(f.Calls, r.TotalCalls)
		}
		t.row(r.timeFigures(f.SelfTime, f.Calls)+"\t"+calls(f)+"\t"+share, filepath.Base(f.Object), f.Name+f.where())
	}
	return t
}

// timeObjects is that of objects.
func (r *Report) timeObjects(objects []*Object) *text {
	t := newText(timeColumns+"\tCALLS\tSHARE\tCOUNTED\tCALLED", "OBJECT", "")
	for _, o := range objects {
		if o.Calls == 0 && (o.SelfTime == nil || o.Self == 0) && o.Counted == 0 {
			continue
		}
		t.row(fmt.Sprintf("%s\t%s\t%s\t%d\t%d", r.timeFigures(o.SelfTime, o.Calls), figures.Thousands(o.Calls), figures.Share(o.Calls, r.TotalCalls), o.Counted, o.Called), o.Object, "")
	}
	return t
}

// addObjectTimes adds up the time of an object's functions. Its interval is that of as many
// samples, where one table has them; of several that of a sum.
func (r *Report) addObjectTimes(all []*Object, functions map[*Object][]*Function) {
	if !r.HasTime() {
		return
	}
	for _, o := range all {
		var self, low, high float64
		for _, f := range functions[o] {
			if f.SelfTime == nil {
				continue
			}
			self += float64(f.Self)
			if len(r.Programs) > 1 && f.Self > 0 {
				low, high = math.Hypot(low, float64(f.Self-f.Low)), math.Hypot(high, float64(f.High-f.Self))
			}
		}
		o.SelfTime = &SelfTime{uint64(self), uint64(max(0, self-low)), uint64(self + high)}
		if p := r.Time.Period; len(r.Programs) == 1 && r.Time.Samples > 0 {
			low, high := cputime.Interval(uint64(self)/p, r.Time.Samples)
			o.Low, o.High = uint64(low*float64(r.Time.Total)), uint64(math.Ceil(high*float64(r.Time.Total)))
		}
	}
}

// DefaultOrder is how functions are sorted if the user does not say.
func (r *Report) DefaultOrder() string {
	if r.HasTime() {
		return "time"
	}
	return Orders[0]
}

// Frequency is how many samples there are a second of CPU time.
func (s *Sampling) Frequency() int { return int(time.Second / time.Duration(s.Period)) }

// tookNothing tells addresses that are no functions, and were found in no sample.
func tookNothing(f *Function) bool { return f.Excluded() && !f.took() }

// KeepFunctions leaves out addresses that are no functions, unless time was spent there.
func (r *Report) KeepFunctions() {
	r.Functions = slices.DeleteFunc(r.Functions, tookNothing)
}
