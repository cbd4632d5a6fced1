package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/narrow"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Style is how text looks.
type Style struct {
	Color bool // escape sequences for headings and hot functions
	Width int  // columns that the names of functions shall fit into; 0 is any number
}

// Bold is text that heads others.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Red is text that stands out.
func (s Style) Red(text string) string { return s.paint("31", text) }

// Dim is text that is less than others.
func (s Style) Dim(text string) string { return s.paint("2", text) }

func (s Style) paint(code, text string) string {
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Text writes the called functions: calls, share of all calls, cumulative
// share of the list, size in bytes, object, name.
func (r *Report) Text(w io.Writer, style Style) error {
	if _, err := fmt.Fprintln(w, r.Headline()); err != nil {
		return err
	}
	if r.HasTime() && r.TotalInstructions == nil {
		return r.timeText().write(w, style)
	}
	called := slices.DeleteFunc(slices.Clone(r.Functions), func(f *Function) bool { return f.Calls == 0 })
	columns := "CALLS\tSHARE\tCUM\tSIZE"
	if r.HasTime() {
		columns = timeColumns + "\t" + columns
		called = slices.DeleteFunc(slices.Clone(r.Functions), func(f *Function) bool { return f.Calls == 0 && !f.took() })
	}
	if r.TotalInstructions != nil {
		columns = "INSTRUCTIONS\tSHARE\t" + columns
	}
	if r.TotalAccesses != nil {
		columns = "LOADS\tSTORES\tBYTES READ\tWRITTEN\t" + columns
	}
	t := newText(columns, "OBJECT", "FUNCTION")
	var sum uint64
	for _, f := range called {
		sum += f.Calls
		t.hot[len(t.rest)] = f.Hot
		numbers := fmt.Sprintf("%s\t%s\t%s\t%d", calls(f), figures.Share(f.Calls, r.TotalCalls), figures.Share(sum, r.TotalCalls), f.Size)
		if r.HasTime() {
			numbers = r.timeFigures(f.SelfTime, f.Calls) + "\t" + numbers
		}
		if n := f.Instructions; n != nil {
			numbers = fmt.Sprintf("%s\t%s\t%s", figures.Thousands(*n)+f.more(), figures.Share(*n, *r.TotalInstructions), numbers)
		} else if r.TotalInstructions != nil {
			numbers = "-\t-\t" + numbers
		}
		if r.TotalAccesses != nil {
			numbers = f.accessFigures() + "\t" + numbers
		}
		t.row(numbers, filepath.Base(f.Object), f.Name+f.where())
	}
	return t.write(w, style)
}

// accessFigures are loads, stores and their bytes; with a + they are more than that, or not of
// all calls.
func (f *Function) accessFigures() string {
	a := f.Accesses
	if a == nil {
		return "-\t-\t-\t-"
	}
	var all []string
	for _, n := range []uint64{a.Loads, a.Stores, a.LoadBytes, a.StoreBytes} {
		all = append(all, figures.Thousands(n)+cmp.Or(a.More(), f.more()))
	}
	return strings.Join(all, "\t")
}

// more is the mark of instructions that are not of all calls.
func (f *Function) more() string {
	if f.Observed == nil {
		return ""
	}
	return "+"
}

// without says what is not in the numbers of instructions, loads and stores.
func (r *Report) without() (all []string) {
	if r.WithoutBlocks > 0 {
		all = append(all, fmt.Sprintf("without those of %s whose blocks are not counted%s", figures.Count(uint64(r.WithoutBlocks), "function"), byReason(r.BlocksReasons)))
	}
	if r.Observed > 0 {
		all = append(all, fmt.Sprintf("+: of %s some calls only", figures.Count(uint64(r.Observed), "function")))
	}
	if a := r.TotalAccesses; a != nil && a.Untold > 0 {
		all = append(all, fmt.Sprintf("+: without what %s with a rep prefix or a mask read and wrote", figures.Count(a.Untold, "instruction")))
	}
	return all
}

// byReason says how many functions have which reason, most first; empty if nobody tells.
func byReason(reasons map[string]int) string {
	words := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) })
	for i, w := range words {
		words[i] = fmt.Sprintf("%s %s", figures.Thousands(uint64(reasons[w])), w)
	}
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, ", ")
}

// Headline says in one line what ran and how it ended, in a second one if it was
// counted with lock, and in more which libraries are missing.
func (r *Report) Headline() string {
	what := fmt.Sprintf("%s (pid %d), %s", r.Program.Program, r.Pid, r.state())
	runs := 0
	for i := range r.Programs {
		runs += r.Programs[i].runs()
	}
	if runs > 1 {
		what = fmt.Sprintf("%s (pid %d) and %s more, %s", r.Program.Program, r.Pid, figures.Thousands(uint64(runs-1)), r.state())
	}
	what += ": " + figures.Count(r.TotalCalls, "call")
	if n := r.TotalInstructions; n != nil {
		what += ", " + figures.Count(*n, "instruction")
		if a := r.TotalAccesses; a != nil {
			what += ", " + figures.Count(a.Loads, "load") + ", " + figures.Count(a.Stores, "store")
		}
		if but := r.without(); len(but) > 0 {
			what += " (" + strings.Join(but, "; ") + ")"
		}
	}
	what += r.timeHead()
	if r.Reset != nil && len(r.Programs) == 1 {
		what += " since the reset at " + r.Reset.Local().Format(time.DateTime)
	}
	for _, lack := range r.lacks() {
		what += " (" + lack + ")"
	}
	return what + r.Observing.line() + r.LockLine() + r.MissedLines()
}

// lacks says what is missing in the counts.
func (r *Report) lacks() (all []string) {
	do := "hotspots run --follow-exec"
	if r.alone {
		do = "memory is looked at of one process, run it by itself"
	}
	switch n := r.Executed; {
	case n == 1:
		all = append(all, "a program that it executed is not counted: "+do)
	case n > 1:
		all = append(all, fmt.Sprintf("%s programs that it executed are not counted: %s", figures.Thousands(uint64(n)), do))
	}
	if n := r.ThreadsLost; n > 0 {
		all = append(all, fmt.Sprintf("%s had no room in the table, and are missing", figures.Count(uint64(n), "thread")))
	}
	if n := r.ThreadsLoose; n > 0 {
		all = append(all, figures.Count(uint64(n), "thread")+" "+r.loose())
	}
	if n := r.ObjectsMissed; n > 0 {
		all = append(all, fmt.Sprintf("libraries that were loaded later and could not be counted: %d", n))
	}
	if r.Stopped && r.StoppedBy != "" {
		all = append(all, fmt.Sprintf("counted until %s was loaded, which may take the GS segment: try --lock", filepath.Base(r.StoppedBy)))
	} else if r.Stopped {
		all = append(all, "counted until the program took the GS segment: try --lock")
	}
	if n := r.Dispatched; n > 0 {
		all = append(all, fmt.Sprintf("processes that turned Syscall User Dispatch on, or another filter of the addresses of system calls, or replaced text of libc or memory of dynprof, and were counted until then: %d", n))
	}
	if n := r.TextChanged; n > 0 {
		all = append(all, fmt.Sprintf("%s counted until the program made their text writable or replaced it", figures.Count(uint64(n), "function")))
	}
	for _, path := range r.OldBirths {
		all = append(all, fmt.Sprintf("threads and processes that %s makes by int $0x80 count as their parents, and lose calls: try --lock", path))
	}
	for _, path := range r.ByCall {
		all = append(all, fmt.Sprintf("blocks of %s are not counted, only its calls: there was no room for them", path))
	}
	for _, path := range r.SitesWithoutRoom {
		all = append(all, fmt.Sprintf("call sites of %s are not counted, only its calls: there was no room for them", path))
	}
	for _, path := range r.ByCallGo {
		all = append(all, fmt.Sprintf("blocks of %s are not counted, only its calls: it has a Go runtime", path))
	}
	return append(all, r.timeLacks()...)
}

// loose says what is with the calls of threads that count in their process's memory.
func (r *Report) loose() string {
	if r.Status == alive.Running.String() {
		return "have no room in the table: their calls come when they end"
	}
	return "had no room in the table and could not hand over their calls at the end: these are missing"
}

// LockLine is a line that says why all threads shared their counters, with a
// newline in front; empty if each had its own.
func (r *Report) LockLine() string {
	if r.Lock == "" {
		return ""
	}
	return "\ncounted with lock: " + r.Lock
}

func (r *Report) state() string {
	switch {
	case r.Snapshot != nil && len(r.Programs) == 1:
		return "snapshot of " + r.Snapshot.Local().Format(time.DateTime)
	case r.Paused && len(r.Programs) == 1:
		return r.Status + ", counting paused"
	case len(r.Programs) > 1 || r.Status == alive.Running.String():
		return r.Status
	case r.Ended.Kind == layout.EndedExit:
		return fmt.Sprintf("exited with status %d", r.Ended.Code)
	case r.Ended.Kind == layout.EndedSignal:
		return fmt.Sprintf("killed by signal %d (%v)", r.Ended.Code, syscall.Signal(r.Ended.Code))
	}
	return r.Status
}

// ObjectText writes the objects of a report.
func (r *Report) ObjectText(w io.Writer, objects []*Object, style Style) error {
	if _, err := fmt.Fprintln(w, r.Headline()); err != nil {
		return err
	}
	if r.HasTime() {
		return r.timeObjects(objects).write(w, style)
	}
	t := newText("CALLS\tSHARE\tCUM\tFUNCTIONS\tCOUNTED\tCALLED", "OBJECT", "")
	var sum uint64
	for _, o := range objects {
		sum += o.Calls
		t.row(fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d", figures.Thousands(o.Calls), figures.Share(o.Calls, r.TotalCalls), figures.Share(sum, r.TotalCalls),
			o.Functions, o.Counted, o.Called), o.Object, "")
	}
	return t.write(w, style)
}

// ListText writes functions with why they are counted or not.
func (r *Report) ListText(w io.Writer, style Style) error {
	t := newText("ADDRESS\tSIZE\tSOURCE\tTACTIC", "OBJECT", "FUNCTION")
	for _, f := range r.Functions {
		t.row(fmt.Sprintf("%v\t%d\t%s\t%s", f.Address, f.Size, f.Source, f.Tactic), filepath.Base(f.Object), f.Name)
	}
	return t.write(w, style)
}

// CoverageText writes a paragraph for each object that has functions, a line
// for the others, and the sum.
func (r *Report) CoverageText(w io.Writer, all []*Coverage, style Style) error {
	var out strings.Builder
	if line := strings.TrimPrefix(r.LockLine(), "\n"); line != "" {
		fmt.Fprintln(&out, line)
	}
	if lines := strings.TrimPrefix(r.MissedLines(), "\n"); lines != "" {
		fmt.Fprintln(&out, lines)
	}
	for _, c := range append(slices.Clone(all), Sum(all)) {
		if (!c.Selected || c.Reason != "") && c.Functions == 0 && len(c.Excluded) == 0 && c.Object != "total" {
			fmt.Fprintf(&out, "%s: left out (%s)\n", style.Bold(c.Object), c.Reason)
			continue
		}
		fmt.Fprintf(&out, "%s: %d functions, %d counted (%s)%s\n", style.Bold(c.Object), c.Functions, c.Counted,
			Percent(c.Counted, c.Functions-c.NotSelected), UntoldNote(c.Untold, c.Code))
		WriteCounts(&out, "counted by", c.Tactics)
		WriteCounts(&out, "blocks not counted", c.Blocks)
		WriteCounts(&out, "not counted", c.Uncounted)
		if c.NotSelected > 0 {
			WriteCounts(&out, "outside the percentage", map[string]int{notSelected: c.NotSelected})
		}
		WriteCounts(&out, "excluded", c.Excluded)
	}
	if line := r.unlistedLine(); line != "" {
		fmt.Fprintln(&out, line)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// unlistedLine says how much code there is that no object has; empty if none is
// known of.
func (r *Report) unlistedLine() string {
	var parts []string
	if n := r.CodeAnonymous; n > 0 {
		parts = append(parts, fmt.Sprintf("%d KiB mapped of no file", n/1024))
	}
	if n := r.CodeInFiles; n > 0 {
		parts = append(parts, fmt.Sprintf("%d KiB of files that the dynamic linker has not loaded", n/1024))
	}
	if len(parts) == 0 {
		return ""
	}
	return "code that no ELF file describes, made or loaded by the program itself: " + strings.Join(parts, ", ") + "; its calls are not counted"
}

// WriteCounts writes words with how many functions each stands for, most first.
func WriteCounts(w io.Writer, title string, counts map[string]int) {
	if len(counts) == 0 {
		return
	}
	words := make([]string, 0, len(counts))
	for _, word := range sortedByCount(counts) {
		words = append(words, fmt.Sprintf("%s %d", word, counts[word]))
	}
	fmt.Fprintf(w, "    %s: %s\n", title, strings.Join(words, ", "))
}

// text is a table of right-aligned figures, then a left-aligned word, then
// anything, which is shortened as the name of a function is where the terminal is narrow.
type text struct {
	figures     []string
	words, rest []string
	hot         map[int]bool // rows of functions that have crossed their threshold
}

func newText(figures, word, rest string) *text {
	t := &text{hot: map[int]bool{}}
	t.row(figures, word, rest)
	return t
}

func (t *text) row(figures, word, rest string) {
	t.figures = append(t.figures, figures)
	t.words = append(t.words, word)
	t.rest = append(t.rest, rest)
}

// widestWord is how many columns a word gets on a terminal.
const widestWord = 24

func (t *text) write(w io.Writer, style Style) error {
	width := 0
	for i, word := range t.words {
		if style.Width > 0 && t.rest[0] != "" {
			t.words[i] = narrow.Text(word, widestWord)
		}
		width = max(width, utf8.RuneCountInString(t.words[i]))
	}
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range t.figures {
		fmt.Fprintf(tw, "%s\t  %-*s\n", t.figures[i], width, t.words[i])
	}
	tw.Flush()
	for i := range t.figures {
		line, err := b.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimSuffix(line, "\n") + "  "
		if line += t.last(i, style.Width-utf8.RuneCountInString(line), style); i == 0 {
			line = style.Bold(strings.TrimRight(line, " "))
		}
		if _, err := io.WriteString(w, strings.TrimRight(line, " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// last is what stands at the end of row i, in so many columns if there is a limit.
func (t *text) last(i, columns int, style Style) string {
	name, mark := t.rest[i], ""
	if t.hot[i] {
		mark = " [hot]"
	}
	if style.Width > 0 {
		name = narrow.Name(name, columns-len(mark))
	}
	if mark != "" {
		return style.Red(name) + mark
	}
	return name
}

// Rows writes lines under a heading, each of right-aligned figures with tabs in between, a
// word, and anything.
func Rows(w io.Writer, style Style, heading [3]string, rows [][3]string) error {
	t := newText(heading[0], heading[1], heading[2])
	for _, r := range rows {
		t.row(r[0], r[1], r[2])
	}
	return t.write(w, style)
}

// EventText writes n records of time, calls, pid, tid, outcome, object and name.
func EventText(w io.Writer, style Style, n int, record func(i int) []string) error {
	t := newText("TIME\tCALLS\tPID\tTID\tOUTCOME", "OBJECT", "FUNCTION")
	for i := range n {
		r := record(i)
		t.row(strings.Join(r[:5], "\t"), filepath.Base(r[5]), r[6])
	}
	return t.write(w, style)
}
