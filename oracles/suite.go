package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// suite is a body of tests that nobody here wrote.
type suite struct {
	name  string
	about string // what it is and where it comes from
	// least is the number of results that it must give without the library,
	// whole and with -quick: less means that something did not run.
	least, leastQuick int
	// alone: its commands must not run beside each other.
	alone bool
	// prepare unpacks and builds what is needed and lists the commands. A
	// skipped error says why the suite cannot run on this machine.
	prepare func(m *machine) ([]unit, error)
}

// unit is one command of a suite and how to read its results. In dir, args and
// env {slot} is the number of the slot that it runs in: commands that run beside
// each other have different ones.
type unit struct {
	name  string
	dir   string
	args  []string
	env   []string
	limit time.Duration // 0: that of -limit
	slow  bool          // left out with -quick
	works bool          // without the library it must end with exit 0
	// skipped says why it cannot run on this machine; empty if it can.
	skipped string
	// read makes results of what the command did. The exit status is always
	// one of them.
	read func(o *output) (results, error)
}

// results are the outcomes of tests by name.
type results map[string]string

// skipped is the reason why a suite cannot run on this machine.
type skipped struct{ reason string }

func (s skipped) Error() string { return s.reason }

func skip(format string, args ...any) error { return skipped{fmt.Sprintf(format, args...)} }

// isSkipped returns the reason, if err is one.
func isSkipped(err error) (string, bool) {
	var s skipped
	ok := errors.As(err, &s)
	return s.reason, ok
}

// in is the string with the slot's number.
func in(slot int, s string) string {
	return strings.ReplaceAll(s, "{slot}", fmt.Sprint(slot))
}

func (u *unit) at(slot int) *unit {
	v := *u
	v.dir = in(slot, u.dir)
	v.args, v.env = nil, nil
	for _, a := range u.args {
		v.args = append(v.args, in(slot, a))
	}
	for _, e := range u.env {
		v.env = append(v.env, in(slot, e))
	}
	return &v
}

// choose returns the units that are to run, and whether they are all. A suite
// is chosen by its name, a unit by suite/unit.
func choose(s *suite, units []unit, run *regexp.Regexp, quick bool) (chosen []unit, all bool) {
	whole := run == nil || run.MatchString(s.name)
	for _, u := range units {
		switch {
		case !whole && !run.MatchString(s.name+"/"+u.name):
		case whole && quick && u.slow:
		default:
			chosen = append(chosen, u)
		}
	}
	return chosen, whole
}
