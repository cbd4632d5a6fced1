package entry

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/dynprof/dynprof/stubgen/internal/fixture"
	"github.com/dynprof/dynprof/stubgen/survey"
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
		o := fixture.Load(b, path)
		b.Run(filepath.Base(path), func(b *testing.B) {
			b.ReportMetric(float64(len(o.Functions)), "functions")
			for b.Loop() {
				survey.New(o, workers)
			}
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, path := range texts {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		o := fixture.Load(b, path)
		p := newPlanner(survey.New(o, workers), Options{}, make(passing, len(o.Functions)))
		b.Run(filepath.Base(path), func(b *testing.B) {
			for b.Loop() {
				clear(p.flags)
				for i := range o.Functions {
					p.plan(i)
				}
			}
		})
	}
}
