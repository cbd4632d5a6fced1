package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// section is a table of the report, by the name that docs/benchmarks.md has for
// its place.
type section struct {
	name, title string
	text        func(f *figures) string
}

var sections = []section{
	{"run", "The run", runText},
	{"aims", "Aims", aimsText},
	{"ratios", "CPU time, times native (added ns a call)", ratiosText},
	{"starts", "Starts with more than calls, in ms of CPU time (CPU time without them, times native)", startsText},
	{"dynprof", "dynprof", dynprofText},
	{"limit", "Beside the limit: added ns a call", limitText},
	{"touches", "Touched memory: CPU time, times native", touchText},
	{"regions", "Each access recorded", recordingText},
	{"counts", "Functions with a count, and with the exact one, of those called", countsText},
	{"peak", "Peak memory, MiB", peakText},
	{"start", "Start of a program, added ms of wall time", startText},
	{"pause", "How long a program of 48,000 functions stands still", pauseText},
	{"memory", "Memory of a running program of one thread", memoryText},
}

func printReport(w io.Writer, f *figures) error {
	for _, s := range sections {
		text := s.text(f)
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n## %s\n\n%s", s.title, text); err != nil {
			return err
		}
	}
	return nil
}

// grid writes a table in Markdown, with columns of even width.
func grid(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		for i, c := range cells {
			fmt.Fprintf(&b, "| %s%s ", c, strings.Repeat(" ", widths[i]-len([]rune(c))))
		}
		b.WriteString("|\n")
	}
	line(rows[0])
	for _, n := range widths {
		b.WriteString("|" + strings.Repeat("-", n+2))
	}
	b.WriteString("|\n")
	for _, r := range rows[1:] {
		line(r)
	}
	return b.String()
}

func runText(f *figures) string {
	text := fmt.Sprintf("%s. %s, %d rounds, %d s.\n", f.Machine, f.Started.Format("2006-01-02"), f.Rounds, f.Seconds)
	if f.Quick {
		text += "A quick run: less work, so that the start weighs more.\n"
	}
	for _, t := range f.Tools {
		if t.Skipped != "" {
			text += fmt.Sprintf("- %s was skipped: %s\n", t.Name, t.Skipped)
		}
	}
	for _, w := range f.Works {
		if w.Skipped != "" {
			text += fmt.Sprintf("- %s was skipped: %s\n", w.Name, w.Skipped)
		}
	}
	return text
}

func aimsText(f *figures) string {
	if len(f.Aims) == 0 {
		return ""
	}
	rows := [][]string{{"figure", "at most", "is", "", "with plans of an earlier start", "with --keep-calls"}}
	for _, a := range f.Aims {
		reached := string(a.Reached)
		if a.Reached != yes {
			reached = "**" + reached + "**"
		}
		rows = append(rows, []string{a.About, fmt.Sprintf("%.4g %s", a.AtMost, a.Unit), a.Is.String(), reached, besideText(&a, a.Warm), besideText(&a, a.Kept)})
	}
	return grid(rows)
}

// besideText is the figure another way.
func besideText(a *aim, v spread) string {
	if v == (spread{}) {
		return ""
	}
	return fmt.Sprintf("%s: %s", v, v.atMost(a.AtMost))
}

// String has the interval behind the figure, unless it has none; with a question mark it
// is the range of too few rounds.
func (s spread) String() string { return s.text(number) }

func (s spread) text(number func(float64) string) string {
	if s.Low == s.High {
		return number(s.Median)
	}
	text := fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Low), number(s.High))
	if !s.Sure {
		text += "?"
	}
	return text
}

// number has three digits that say something.
func number(v float64) string {
	switch {
	case v >= 99.95 || v <= -99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995 || v <= -9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// perTool is a table of workloads by tools.
func perTool(f *figures, names []string, cell func(r *result) string) string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return !slices.ContainsFunc(f.Works, func(w workFact) bool { return f.result(w.Name, n) != nil })
	})
	if len(names) == 0 {
		return ""
	}
	rows := [][]string{append([]string{"workload"}, names...)}
	for _, w := range f.Works {
		if w.Skipped != "" {
			continue
		}
		row := []string{w.Name}
		for _, n := range names {
			text := ""
			if r := f.result(w.Name, n); r != nil {
				text = cell(r)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return grid(rows)
}

// besides are the tools without the stubs by hand, and without those that see which memory is touched.
func besides() []string {
	var all []string
	for _, t := range tools {
		if t != again && !slices.Contains(limits, t) && !slices.Contains(touchTools, t) {
			all = append(all, t.name)
		}
	}
	return all
}

// startsText is of whole work, which the start is part of.
func startsText(f *figures) string {
	var names []string
	for _, t := range deeper {
		names = append(names, t.name)
	}
	return perTool(f, names, func(r *result) string {
		if r.StartMS == 0 || r.Part < 1 {
			return ""
		}
		return fmt.Sprintf("%.0f (%s)", r.StartMS, number(r.Ratio.Median-r.StartMS/r.NativeMS.Median))
	})
}

func ratiosText(f *figures) string {
	return perTool(f, besides(), func(r *result) string {
		if r.Counts && r.Covered == 0 {
			return "counts none"
		} else if r.Short {
			return "too short"
		}
		return fmt.Sprintf("%s (%s)", number(r.Ratio.Median), number(r.AddedNS.Median))
	})
}

func dynprofText(f *figures) string {
	rows := [][]string{{"workload", "what", "native s", "calls", "times native (95 % interval)", "the program beside itself", "rounds", "added ns a call", "start", "counted functions", "counts checked by"}}
	for _, w := range f.Works {
		r := f.result(w.Name, dynprof.name)
		if r == nil {
			continue
		}
		checked := w.Reference
		if checked == "" {
			checked = "each other"
		}
		if w.Compared > 0 {
			checked += fmt.Sprintf(" (%d functions)", w.Compared)
		}
		if w.Unsteady > 0 {
			checked += fmt.Sprintf("; %d differ from run to run", w.Unsteady)
		}
		rows = append(rows, []string{w.Name, w.About, fmt.Sprintf("%.2f", w.NativeMS.Median/1000), millions(w.Calls),
			thousandths(r.Ratio), f.interference(w.Name), fmt.Sprint(r.Rounds), number(r.AddedNS.Median),
			fmt.Sprintf("%.1f ms, %.1f %%", r.StartMS, 100*r.StartMS/r.NativeMS.Median),
			fmt.Sprintf("%d of %d", w.Counted, w.Functions), checked})
	}
	if len(rows) == 1 {
		return ""
	}
	return grid(rows)
}

func thousandths(s spread) string {
	return s.text(func(v float64) string { return fmt.Sprintf("%.3f", v) })
}

// interference is what the machine makes of nothing.
func (f *figures) interference(workload string) string {
	if r := f.result(workload, again.name); r != nil {
		return thousandths(r.Ratio)
	}
	return ""
}

func millions(n uint64) string { return fmt.Sprintf("%.1f M", float64(n)/1e6) }

func limitText(f *figures) string {
	names := []string{dynprof.name, kept.name}
	for _, s := range styles {
		names = append(names, s.name)
	}
	limited := *f
	limited.Works = slices.DeleteFunc(slices.Clone(f.Works), func(w workFact) bool { return f.best(w.Name) == nil })
	return perTool(&limited, names, func(r *result) string {
		text := number(r.AddedNS.Median)
		if !r.exact() {
			text += fmt.Sprintf(", %.0f %% lost", 100*r.Lost)
		}
		return text
	})
}

func countsText(f *figures) string {
	return perTool(f, besides(), func(r *result) string {
		if !r.Counts {
			return "no counts"
		}
		text := fmt.Sprintf("%d, %d of %d", r.Covered, r.Exact, r.Called)
		if r.Lost >= 0.0005 {
			text += fmt.Sprintf("; %.1f %% lost", 100*r.Lost)
		}
		if r.Over >= 0.0005 {
			text += fmt.Sprintf("; %.1f %% too many", 100*r.Over)
		}
		return text
	})
}

func peakText(f *figures) string {
	return perTool(f, besides(), func(r *result) string {
		return fmt.Sprintf("%s (%s)", number(float64(r.PeakKB)/1024), number(float64(r.NativeKB)/1024))
	})
}

func startText(f *figures) string {
	if len(f.StartUps) == 0 {
		return ""
	}
	rows := [][]string{{"program", "native ms"}}
	var programs []string
	for _, s := range f.StartUps {
		if !slices.Contains(programs, s.Program) {
			programs = append(programs, s.Program)
		}
		if s.Tool != native.name && !slices.Contains(rows[0], s.Tool) {
			rows[0] = append(rows[0], s.Tool)
		}
	}
	for _, p := range programs {
		row := make([]string, len(rows[0]))
		row[0] = p
		for _, s := range f.StartUps {
			if s.Program != p || s.Tool == native.name {
				continue
			}
			text := number(s.AddedMS.Median)
			if s.Tool == dynprof.name {
				text = fmt.Sprintf("%s; CPU %s; %d functions", s.AddedMS, number(s.AddedCPU), s.Functions)
			}
			row[1], row[slices.Index(rows[0], s.Tool)] = number(s.NativeMS), text
		}
		rows = append(rows, row)
	}
	return grid(rows)
}

func memoryText(f *figures) string {
	if len(f.Memory) == 0 {
		return ""
	}
	rows := [][]string{{"program", "counted functions", "stubs KiB", "origins KiB", "table KiB", "bytes a function", "resident MiB (native)", "more private KiB"}}
	for _, m := range f.Memory {
		rows = append(rows, []string{m.Program, fmt.Sprint(m.Functions), fmt.Sprint(m.Stubs >> 10), fmt.Sprint(m.Origins >> 10), fmt.Sprint(m.Table >> 10),
			number(m.perFunction()), fmt.Sprintf("%s (%s)", number(float64(m.KB)/1024), number(float64(m.NativeKB)/1024)), fmt.Sprint(m.Private)})
	}
	return grid(rows)
}
