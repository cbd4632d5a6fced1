package main

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// confidence of the intervals.
const confidence = 0.95

// spread is a median with its confidence interval, from the order of the values alone,
// however they are distributed (benchmath.AssumeNothing). Of fewer than six values there
// is none that is as sure: it is their range.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Sure   bool    `json:"sure"` // it is a confidence interval
}

func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	sample := benchmath.NewSample(slices.Clone(v), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, confidence)
	sure := !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0)
	if !sure {
		s.Lo, s.Hi = sample.Values[0], sample.Values[len(v)-1]
	}
	return spread{s.Center, s.Lo, s.Hi, sure}
}

// within reports whether the median is known to a share of itself, either way.
func (s spread) within(share float64) bool {
	return s.Sure && (s.High-s.Low)/2 <= share*math.Abs(s.Median)
}

func (s spread) times(f float64) spread { return spread{s.Median * f, s.Low * f, s.High * f, s.Sure} }

// over is the ratio of what was not measured in turn: between what the intervals allow.
func (s spread) over(t spread) spread {
	return spread{s.Median / t.Median, s.Low / t.High, s.High / t.Low, s.Sure && t.Sure}
}

// exactly is a figure without error.
func exactly(v float64) spread { return spread{v, v, v, true} }

// answer is what a measurement says to a question.
type answer string

const (
	yes      answer = "yes"
	no       answer = "no"
	notKnown answer = "not known" // the interval has both
)

// atMost is whether the figure is no more than a limit.
func (s spread) atMost(limit float64) answer {
	switch {
	case s.Sure && s.High <= limit:
		return yes
	case s.Sure && s.Low > limit:
		return no
	}
	return notKnown
}
