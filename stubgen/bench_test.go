package stubgen

import (
	"os"
	"testing"
)

// texts are programs of Debian to plan; those that are missing are left out.
var texts = []string{
	"/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	"/usr/bin/python3.11",
	"/usr/lib/x86_64-linux-gnu/libc.so.6",
}

func BenchmarkSurvey(b *testing.B) {
	for _, path := range texts {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		o := load(b, path)
		b.Run(path, func(b *testing.B) {
			b.ReportMetric(float64(len(o.Functions)), "functions")
			for b.Loop() {
				NewSurvey(o, 0)
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, path := range texts {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		o := load(b, path)
		s := NewSurvey(o, 0)
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				for i := range o.Functions {
					s.Plan(i, Options{})
				}
			}
		})
	}
}
