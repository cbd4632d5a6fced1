package top

import (
	"time"
)

// minute is how long a sample is kept.
const minute = time.Minute

// sample is what was called between two readings. Functions that were not are not in it.
type sample struct {
	number    int // of the reading, so that samples are put together in the same way each time
	seconds   float64
	total     float32
	functions []uint32 // rising
	calls     []float32
	threads   map[ThreadID]float32
	programs  map[string]float32
}

// since is how many calls came between two readings of a count.
func since(now, before uint64) uint64 { return now - min(now, before) }

// before is the count of function i in a reading, 0 if that has none, or is of before a reset.
func (f *Frame) before(i int, now *Frame) uint64 {
	if f == nil || i >= len(f.Calls) || !f.Reset.Equal(now.Reset) {
		return 0
	}
	return f.Calls[i]
}

// newSample is what is between two readings, of functions about as many as there were before.
func newSample(number int, prev, now *Frame, functions int) *sample {
	s := &sample{number: number, seconds: now.Time.Sub(prev.Time).Seconds()}
	if s.seconds <= 0 {
		return nil
	}
	s.functions, s.calls = make([]uint32, 0, functions), make([]float32, 0, functions)
	for i := range now.Calls {
		if n := since(now.Calls[i], prev.before(i, now)); n > 0 {
			s.functions = append(s.functions, uint32(i))
			s.calls = append(s.calls, float32(n))
		}
	}
	s.total = float32(now.Total)
	if prev.Reset.Equal(now.Reset) {
		s.total = float32(since(now.Total, prev.Total))
	}
	s.threads = map[ThreadID]float32{}
	old := prev.threads(now)
	for _, t := range now.Threads {
		if n := since(t.Calls, old[t.ThreadID]); n > 0 {
			s.threads[t.ThreadID] += float32(n)
		}
	}
	s.programs = map[string]float32{}
	programs := prev.programs()
	for _, p := range now.Programs {
		if before, ok := programs[p.Table]; ok {
			s.programs[p.Table] = float32(since(p.Calls, before))
		}
	}
	return s
}

// threads is what each thread had counted in a reading, nothing before a reset.
func (f *Frame) threads(now *Frame) map[ThreadID]uint64 {
	all := map[ThreadID]uint64{}
	if f != nil && f.Reset.Equal(now.Reset) {
		for _, t := range f.Threads {
			all[t.ThreadID] += t.Calls
		}
	}
	return all
}

// programs is what each program had counted in a reading.
func (f *Frame) programs() map[string]uint64 {
	all := map[string]uint64{}
	if f != nil {
		for _, p := range f.Programs {
			all[p.Table] = p.Calls
		}
	}
	return all
}

// buckets is calls a second in the last minute, the latest last, of what count takes from
// each sample: at most width numbers, each of as many samples, or as many for one sample.
// What is not known is -1.
func buckets(samples []*sample, interval time.Duration, width int, count func(*sample) float64) []float64 {
	all := max(1, int((minute+interval/2)/interval))
	each := max(1, (all+max(width, 1)-1)/max(width, 1)) // samples in a bucket
	wide := max(1, width/all)
	n := (all + each - 1) / each
	list := make([]float64, n)
	for i := range list {
		list[i] = -1
	}
	if len(samples) == 0 {
		return repeat(list, wide)
	}
	last := samples[len(samples)-1].number / each
	seconds := make([]float64, n)
	for _, s := range samples {
		i := n - 1 - (last - s.number/each)
		if i < 0 {
			continue
		}
		if n := count(s); n >= 0 { // else it was not looked at
			list[i] = max(list[i], 0) + n
			seconds[i] += s.seconds
		}
	}
	for i := range list {
		if seconds[i] > 0 {
			list[i] /= seconds[i]
		}
	}
	return repeat(list, wide)
}

func repeat(list []float64, times int) (all []float64) {
	for _, n := range list {
		for range times {
			all = append(all, n)
		}
	}
	return all
}
