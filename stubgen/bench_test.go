package stubgen

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// texts are programs of Debian to plan; those that are missing are left out.
var texts = []string{
	"/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
	"/usr/bin/python3.11",
	"/usr/lib/x86_64-linux-gnu/libc.so.6",
}

var workers, _ = strconv.Atoi(os.Getenv("W"))

func BenchmarkSurvey(b *testing.B) {
	for _, path := range texts {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		o := load(b, path)
		b.Run(filepath.Base(path), func(b *testing.B) {
			b.ReportMetric(float64(len(o.Functions)), "functions")
			for b.Loop() {
				NewSurvey(o, workers)
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
		p := NewSurvey(o, workers).NewPlanner(Options{})
		b.Run(filepath.Base(path), func(b *testing.B) {
			for b.Loop() {
				for i := range o.Functions {
					p.Plan(i)
				}
			}
		})
	}
}
