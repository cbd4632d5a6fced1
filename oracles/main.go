// Command oracles runs test suites that nobody here wrote, without and with the
// library counting all objects, and compares every test: docs/oracles.md.
//
//	make oracles         all
//	make oracles-quick   a subset for CI
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

var suites = []*suite{programs, lua, lua51, redis, python, git, perl, coreutils}

func main() {
	list := flag.Bool("list", false, "list the suites and end")
	pattern := flag.String("run", "", "run suites, or commands SUITE/NAME, that match this `regexp`")
	limit := flag.Duration("time", time.Hour, "end after this time; what has not run by then is an error")
	longest := flag.Duration("limit", 20*time.Minute, "end a command after this `time`, which is an error; the longest take 2 minutes on an idle machine")
	verbose := flag.Bool("v", false, "print a line for every command")
	quick := flag.Bool("quick", false, "leave out what takes long")
	keep := flag.Bool("keep", false, "keep the work directory")
	cache := flag.Bool("cache", true, "start with plans of earlier starts")
	copies := flag.Bool("text-copies", false, "and with copies of large objects' text")
	how := flag.String("how", "", "count so: `flags` of hotspots run, separated by commas, of blocks, edges, trips, hot (--blocks=hot), heat")
	part := flag.String("part", "1/1", "`K/N`: of each suite the K-th command and every N-th after it")
	objects := flag.String("objects", "all", "`what` to count, as --objects; \"\" is what is counted by default")
	jobs := flag.Int("j", runtime.NumCPU(), "commands that run beside each other")
	root := flag.String("root", ".", "the project's directory, with build/libdynprof.so")
	flag.Parse()
	if *list {
		for _, s := range suites {
			fmt.Printf("%-10s %s\n", s.name, s.about)
		}
		return
	}
	same, err := oracles(options{*pattern, *limit, *longest, *verbose, *quick, *keep, *cache, *copies, *how, *part, *objects, *jobs, *root})
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracles:", err)
		os.Exit(1)
	}
	if !same {
		os.Exit(1)
	}
}

type options struct {
	pattern              string
	limit, longest       time.Duration
	verbose, quick, keep bool
	cache, copies        bool
	how, part            string
	objects              string
	jobs                 int
	root                 string
}

// oracles runs what the options choose. It returns whether everything that ran
// was the same.
func oracles(o options) (bool, error) {
	var pattern *regexp.Regexp
	if o.pattern != "" {
		var err error
		if pattern, err = regexp.Compile(o.pattern); err != nil {
			return false, err
		}
	}
	how, err := parseHow(o.how)
	if err != nil {
		return false, err
	}
	sample, err := parsePart(o.part)
	if err != nil {
		return false, err
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return false, err
	}
	// Tests that end by a signal leave no core files.
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return false, err
	}
	ctx, cancel := withTime(o.limit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := newMachine(ctx, root)
	if err != nil {
		return false, err
	}
	m.longest, m.jobs, m.quick, m.verbose, m.plans, m.copies, m.how, m.objects = o.longest, max(1, o.jobs), o.quick, o.verbose, o.cache, o.copies, how, o.objects
	if o.keep {
		fmt.Println("work directory:", m.work)
	} else {
		defer m.remove()
	}

	var all []verdict
	for _, s := range suites {
		if pattern != nil && !mayMatch(pattern, s.name, o.pattern) {
			continue
		}
		v := m.runSuite(s, func(units []unit) ([]unit, bool) {
			chosen, all := choose(s, units, pattern, o.quick)
			return sample.of(chosen), all && sample.n == 1
		})
		if v.units == 0 && len(v.errs) == 0 && v.skipped == "" && len(v.notRun) == 0 {
			continue // nothing chosen
		}
		v.print()
		all = append(all, v)
		if !o.keep {
			if err := m.clear(); err != nil {
				return false, err
			}
		}
	}
	return summary(all), nil
}

// mayMatch reports whether a suite or one of its units can match: a suite whose
// name does not occur in the pattern is not prepared in vain.
func mayMatch(pattern *regexp.Regexp, name, text string) bool {
	return pattern.MatchString(name) || regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(text)
}
