// Command bench measures what counting costs, beside the tools that a user
// would take instead and beside what the machine allows: docs/benchmarks.md.
//
//	make bench            all, in 20 to 50 minutes on two idle CPUs
//	make bench-quick      a part of it, in 3 minutes
//	make bench-compare    the last figures against those in docs/
//	make bench-docs       the last figures into docs/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

type options struct {
	root    string
	out     string
	quick   bool
	rounds  int
	only    *regexp.Regexp // WORKLOAD/TOOL
	tools   *regexp.Regexp
	limit   time.Duration
	verbose bool
	keep    bool
}

func main() {
	var o options
	var only, tools string
	flag.StringVar(&o.root, "root", ".", "the project's directory, with build/libdynprof.so")
	flag.StringVar(&o.out, "o", "build/bench", "where the figures go")
	flag.BoolVar(&o.quick, "quick", false, "less work, fewer rounds")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of each (default 7, and up to three times as many of dynprof; quick 2)")
	flag.StringVar(&only, "workload", "", "only workloads and parts whose names match this `regexp`; parts: startup, memory, pause, regions")
	flag.StringVar(&tools, "tool", "", "only tools whose names match this `regexp`, and native, twice, and dynprof")
	flag.DurationVar(&o.limit, "time", 60*time.Minute, "give up after this time")
	flag.BoolVar(&o.verbose, "v", false, "print every run")
	flag.BoolVar(&o.keep, "keep", false, "keep the work directory")
	compare := flag.Bool("compare", false, "compare two files of figures: OLD NEW")
	docs := flag.String("docs", "", "write the figures in -o into this document, and charts beside it")
	flag.Parse()

	var err error
	switch {
	case *compare && flag.NArg() != 2:
		err = errors.New("-compare takes two files of figures: OLD NEW")
	case *compare:
		err = compareFiles(os.Stdout, flag.Arg(0), flag.Arg(1))
	case *docs != "":
		err = writeDocs(*docs, o.out)
	default:
		if o.only, err = regexp.Compile(only); err == nil {
			o.tools, err = regexp.Compile(tools)
		}
		if err == nil {
			err = bench(o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench measures what the options choose, prints the tables, and leaves the
// figures in a file. Counts that are wrong are an error, however fast.
func bench(o options) error {
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := newMachine(ctx, o)
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("work directory:", m.work)
	} else {
		defer os.RemoveAll(m.work)
	}
	if o.rounds == 0 {
		o.rounds = 7
		if o.quick {
			o.rounds = 2
		}
	}

	f := &figures{Schema: figuresSchema, Machine: describe(), Quick: o.quick, Rounds: o.rounds, Started: time.Now().UTC().Truncate(time.Second)}
	f.Tools = presentTools(m)
	if err := m.measureParts(f, o.only); err != nil {
		if m.ctx.Err() != nil && len(f.Results) > 0 {
			fmt.Println("\nWhat was measured until then, which is not kept:")
			return errors.Join(printReport(os.Stdout, f), err)
		}
		return err
	}
	f.Seconds = int(time.Since(f.Started).Seconds())
	f.Aims = judge(f)
	if err := f.write(filepath.Join(o.out, "figures.json")); err != nil {
		return err
	}
	if err := printReport(os.Stdout, f); err != nil {
		return err
	}
	return f.wrong()
}

// measureParts measures what is asked for, workloads first.
func (m *machine) measureParts(f *figures, only *regexp.Regexp) error {
	for _, w := range workloads {
		if only.MatchString(w.name) {
			if err := m.measure(w, f); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	for _, part := range []struct {
		name, of string
		measure  func(*figures) error
	}{{"startup", "start-up", m.startUps}, {"memory", "memory", m.memories}, {"pause", "pauses", m.pauses}, {"regions", "regions", m.recordings}} {
		if only.MatchString(part.name) {
			if err := part.measure(f); err != nil {
				return fmt.Errorf("%s: %w", part.of, err)
			}
		}
	}
	return nil
}
