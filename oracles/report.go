package main

import (
	"fmt"
	"regexp"
	"strings"
)

// print prints what a suite gave.
func (v *verdict) print() {
	if v.skipped != "" {
		fmt.Printf("%-10s SKIPPED: %s\n", v.suite, v.skipped)
		return
	}
	what := "same"
	if n := len(v.differences); n > 0 {
		what = fmt.Sprintf("%d DIFFER", n)
	}
	if n := len(v.unsteady); n > 0 {
		what += fmt.Sprintf(", %d unsteady without the library", n)
	}
	if n := len(v.errs); n > 0 {
		what += fmt.Sprintf(", %d ERRORS", n)
	}
	fmt.Printf("%-10s %4d commands, %7d tests: %s; %.1f s without, %.1f s with (%d processes counted, %d of them started warm), %.1f s to prepare\n",
		v.suite, v.units, v.tests, what, v.without.Seconds(), v.with.Seconds(), v.counted, v.warm, v.preparing.Seconds())
	for i, err := range v.errs {
		if i == mostPrinted {
			fmt.Printf("    ERROR and %d more\n", len(v.errs)-i)
			break
		}
		fmt.Printf("    ERROR %v\n", err)
	}
	for _, n := range v.notRun {
		fmt.Printf("    SKIPPED %s\n", n)
	}
	printFound("DIFFERS", v.suite, v.differences)
	printFound("unsteady", v.suite, v.unsteady)
}

const mostPrinted = 8 // tests of one unit

func printFound(what, suite string, all []found) {
	n := 0
	for i, f := range all {
		if i > 0 && all[i-1].unit == f.unit {
			n++
		} else {
			n = 0
			fmt.Printf("    %s %s/%s: go run ./oracles -v -run '^%s$'\n", what, suite, f.unit, regexp.QuoteMeta(suite+"/"+f.unit))
		}
		last := i == len(all)-1 || all[i+1].unit != f.unit
		switch {
		case n < mostPrinted:
			fmt.Printf("        %s: %v\n", f.test, f.rounds)
		case last:
			fmt.Printf("        and %d more\n", n-mostPrinted+1)
		}
	}
}

// summary prints the last lines and returns whether all that ran is the same.
func summary(all []verdict) bool {
	var same, tests int
	var skipped, wrong []string
	for _, v := range all {
		switch {
		case v.skipped != "":
			skipped = append(skipped, v.suite)
			continue
		case len(v.errs) > 0, len(v.differences) > 0:
			wrong = append(wrong, v.suite)
		default:
			same++
		}
		tests += v.tests
		for _, n := range v.notRun {
			name, _, _ := strings.Cut(n, ":")
			skipped = append(skipped, v.suite+"/"+name)
		}
	}
	fmt.Printf("oracles: %d suites the same, %d tests in all\n", same, tests)
	if len(skipped) > 0 {
		fmt.Printf("oracles: %d SKIPPED: %s\n", len(skipped), strings.Join(skipped, " "))
	}
	if len(wrong) > 0 {
		fmt.Printf("oracles: %d WRONG: %s\n", len(wrong), strings.Join(wrong, " "))
	}
	if len(all) == 0 {
		fmt.Println("oracles: nothing chosen")
		return false
	}
	return len(wrong) == 0
}
