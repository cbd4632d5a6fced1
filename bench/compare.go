package main

import (
	"fmt"
	"io"
	"os"
)

// Beyond this a figure is a regression; where the runs differ more among
// themselves, beyond that. The machine is never quite the same.
const (
	tolerance      = 0.03 // of a ratio of CPU times
	startTolerance = 0.10 // of a start's ms
	startSlack     = 0.5  // ms
)

// compareFiles prints how dynprof's figures have changed. A regression, or a
// workload that is no longer there, is an error.
func compareFiles(w io.Writer, oldPath, newPath string) error {
	before, err := readFigures(oldPath)
	if err != nil {
		if os.IsNotExist(err) {
			return fmt.Errorf("%w: nothing to compare with; make bench-docs makes it", err)
		}
		return err
	}
	after, err := readFigures(newPath)
	if err != nil {
		return fmt.Errorf("%w: run make bench first", err)
	}
	return compareFigures(w, before, after)
}

func compareFigures(w io.Writer, before, after *figures) error {
	if before.Machine != after.Machine {
		fmt.Fprintf(w, "another machine: %s; was %s\n", after.Machine, before.Machine)
	}
	if before.Quick != after.Quick {
		fmt.Fprintln(w, "one of them is quick: its start weighs more")
	}
	worse := 0
	row := func(name, unit string, was, is, slack float64) {
		mark := ""
		if is > was+slack {
			mark = "WORSE"
			worse++
		} else if is < was-slack {
			mark = "better"
		}
		fmt.Fprintf(w, "%-28s %9.3f -> %9.3f %-13s %s\n", name, was, is, unit, mark)
	}
	for _, old := range before.Results {
		if old.Tool != dynprof.name || old.Skipped != "" || old.Part < 1 {
			continue
		}
		r := after.result(old.Workload, dynprof.name)
		if r == nil {
			fmt.Fprintf(w, "%-28s was measured, and is not now\n", old.Workload)
			worse++
			continue
		}
		slack := max(tolerance*old.Ratio.Median, old.Ratio.High-old.Ratio.Low, r.Ratio.High-r.Ratio.Low)
		row(old.Workload, "times native", old.Ratio.Median, r.Ratio.Median, slack)
	}
	for _, old := range before.StartUps {
		for _, s := range after.StartUps {
			if s.Program == old.Program && s.Tool == old.Tool && s.Tool == dynprof.name {
				slack := max(startTolerance*old.AddedMS.Median, startSlack, old.AddedMS.High-old.AddedMS.Low, s.AddedMS.High-s.AddedMS.Low)
				row("start of "+s.Program, "ms", old.AddedMS.Median, s.AddedMS.Median, slack)
			}
		}
	}
	for _, old := range before.Memory {
		for _, m := range after.Memory {
			if m.Program == old.Program {
				row("memory of "+m.Program, "bytes/function", old.perFunction(), m.perFunction(), tolerance*old.perFunction())
			}
		}
	}
	if err := after.wrong(); err != nil {
		return err
	}
	if worse > 0 {
		return fmt.Errorf("%d figures are worse", worse)
	}
	return nil
}
