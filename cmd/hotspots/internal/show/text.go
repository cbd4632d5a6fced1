package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
)

// JSON writes the functions.
func (v *View) JSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
		*View
	}{report.Schema, v}, "functions", v.Functions)
}

// Text writes a paragraph for each function, with so many instructions, and lines of each
// list; 0: all.
func (v *View) Text(w io.Writer, style report.Style, code, lines int) error {
	for i, f := range v.Functions {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		p := &page{View: v, f: f, style: style, lines: lines}
		if err := p.write(w, code); err != nil {
			return err
		}
	}
	return nil
}

// page is the text of a function.
type page struct {
	*View
	f     *Function
	style report.Style
	lines int
	out   strings.Builder
}

func (p *page) write(w io.Writer, code int) error {
	f := p.f
	fmt.Fprintf(&p.out, "%s of %s\n", p.style.Bold(f.Name), f.Object)
	if f.Guess != "" {
		p.fact("beside", "the string %q, in a table with pointers to functions", shorter(f.Guess, 40))
	}
	if f.Nearest != "" {
		p.fact("nearest", "%s: the last function with a name in front of it", f.Nearest)
	}
	if len(f.Aliases) > 0 {
		p.fact("also", "%s", strings.Join(f.Aliases, ", "))
	}
	p.fact("address", "%v, %d bytes, known from %s", f.Address, f.Size, f.Source)
	p.fact("build ID", "%s", cmp.Or(f.BuildID, "none"))
	p.counts()
	for _, note := range f.Notes {
		p.fact("note", "%s", symname.Clean(note))
	}
	if err := p.edges(); err != nil {
		return err
	}
	p.referredBy()
	p.refers()
	p.code(code)
	_, err := io.WriteString(w, p.out.String())
	return err
}

func (p *page) fact(name, format string, args ...any) {
	fmt.Fprintf(&p.out, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
}

// counts writes what was counted, and how.
func (p *page) counts() {
	f := p.f
	p.time()
	if f.Calls == nil {
		p.fact("calls", "not counted (%s)", whyNot(p.table.Functions[f.number].Reason))
		return
	}
	hot := ""
	if f.Hot {
		hot = p.style.Red("; hot")
	}
	p.fact("calls", "%s, %s of all; counted by %s%s", figures.Thousands(*f.Calls), figures.Share(*f.Calls, p.TotalCalls), f.Tactic, hot)
	if len(f.Threads) > 1 {
		for _, t := range f.Threads[:p.most(len(f.Threads))] {
			who := fmt.Sprintf("by thread %d of process %d", t.Tid, t.Pid)
			if t.Several || t.Tid == 0 {
				who = "by threads that are not told apart"
			}
			p.fact("", "%s %s", figures.Thousands(t.Calls), who)
		}
		p.more(len(f.Threads), "threads")
	}
	if f.Instructions == nil {
		if f.BlocksReason != "" {
			p.fact("blocks", "not counted (%s)", f.BlocksReason)
		}
		return
	}
	each, calls := "", *f.Calls
	if f.Observed != nil {
		each, calls = fmt.Sprintf(" in %s calls that were observed", figures.Thousands(*f.Observed)), *f.Observed
	}
	if calls > 0 {
		each += fmt.Sprintf(", %.1f a call", float64(*f.Instructions)/float64(calls))
	}
	p.fact("instructions", "%s, %s of all%s; %d blocks", figures.Thousands(*f.Instructions), figures.Share(*f.Instructions, *p.Instructions), each, f.Blocks)
	for _, l := range f.Loops[:p.most(len(f.Loops))] {
		entered := ""
		if l.Entries != nil && *l.Entries > 0 {
			entered = fmt.Sprintf(", entered %s times, %.1f each", figures.Thousands(*l.Entries), float64(l.Iterations)/float64(*l.Entries))
		}
		p.fact("loop", "at %v: %s iterations%s", l.Header, figures.Thousands(l.Iterations), entered)
	}
	p.more(len(f.Loops), "loops")
}

// time writes the CPU time that was sampled.
func (p *page) time() {
	t := p.f.SelfTime
	if t == nil {
		return
	}
	each := ""
	if calls := p.f.Calls; calls != nil && *calls > 0 && t.Self > 0 && p.View.counts.Reset.IsZero() {
		each = fmt.Sprintf(", %s a call", figures.Nanoseconds(float64(t.Self)/float64(*calls)))
	}
	p.fact("time", "%s, %s of all%s", figures.Nanoseconds(float64(t.Self)), report.ShareOfTime(t, p.Time.Total), each)
}

// most is how many of n lines are written.
func (p *page) most(n int) int {
	if p.lines > 0 {
		return min(n, p.lines)
	}
	return n
}

// more says how many are not.
func (p *page) more(n int, what string) {
	if n > p.most(n) {
		p.fact("", "and %d more %s: --lines 0 shows all", n-p.most(n), what)
	}
}

// edges writes who called the function and whom it called, where that is counted.
func (p *page) edges() error {
	if p.f.list == nil {
		return nil
	}
	if n, ok := p.f.list.Number(p.place(p.f)); ok {
		list := *p.f.list
		list.Top = p.lines
		fmt.Fprintln(&p.out)
		return list.EdgesText(&p.out, n, p.style)
	}
	return nil
}

// referredBy writes who refers to the function.
func (p *page) referredBy() {
	list := p.f.ReferredBy
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(&p.out, "\n%s\n", p.style.Bold("REFERRED TO BY, in this file"))
	for _, r := range list[:p.most(len(list))] {
		switch r.Kind {
		case kindPointer:
			text := ""
			if r.Text != "" {
				text = fmt.Sprintf(", beside %s", quoted(r.Text, 40))
			}
			p.fact(r.Kind, "in data at %v%s", r.Address, text)
		default:
			sites := ""
			if r.Sites > 1 {
				sites = fmt.Sprintf(", %d times", r.Sites)
			}
			p.fact(r.Kind, "from %s%s%s", r.Name, guess(r.Text), sites)
		}
	}
	p.more(len(list), "references")
}

// refers writes what the function refers to, each once, strings first: they tell most.
func (p *page) refers() {
	var lines []string
	times := map[string]int{}
	list := slices.Clone(p.f.Refers)
	slices.SortStableFunc(list, func(a, b Reference) int { return cmp.Compare(order[a.Kind], order[b.Kind]) })
	for _, r := range list {
		line := fmt.Sprintf("%-12s %s", r.Kind, r)
		if times[line]++; times[line] == 1 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(&p.out, "\n%s\n", p.style.Bold("REFERS TO"))
	for _, line := range lines[:p.most(len(lines))] {
		if n := times[line]; n > 1 {
			line += fmt.Sprintf(", %d times", n)
		}
		fmt.Fprintf(&p.out, "  %s\n", line)
	}
	p.more(len(lines), "references")
}

// String is what is referred to.
func (r Reference) String() string {
	switch r.Kind {
	case kindString:
		return quoted(r.Text, 56)
	case kindAddress:
		return "&" + r.Name + guess(r.Text)
	}
	return r.Name + guess(r.Text)
}

// guess is a string that a function stands beside.
func guess(text string) string {
	if text == "" {
		return ""
	}
	return " (beside " + quoted(text, 24) + ")"
}

// quoted is a string in quotes, no longer than so many characters.
func quoted(text string, most int) string { return strconv.Quote(shorter(text, most)) }

func shorter(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// named is 0 for the name of a function that has none, object+0xaddress.
func named(name string) int {
	if strings.Contains(name, "+0x") {
		return 0
	}
	return 1
}

// code writes the first most instructions; 0: all.
func (p *page) code(most int) {
	list := p.f.Code
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(&p.out, "\n%s\n", p.style.Bold("CODE"+map[string]string{
		"memory": ", [overwritten] in the program's memory now",
		"tactic": ", [overwritten] while it ran, as the tactic mostly does",
	}[p.f.Patch]))
	runs := 0
	for _, in := range list {
		if in.Runs != nil {
			runs = max(runs, len(figures.Thousands(*in.Runs)))
		}
	}
	shown := list
	if most > 0 {
		shown = list[:min(most, len(list))]
	}
	for _, in := range shown {
		times := ""
		if in.Runs != nil {
			times = figures.Thousands(*in.Runs)
		}
		if runs > 0 {
			times = fmt.Sprintf("%*s ", runs, times)
		}
		text := in.Text
		if in.Refers != "" {
			text, _, _ = strings.Cut(text, " # ")
			text += "  ; " + in.Refers
		}
		const bytesWidth = 22 // of ten bytes, and brackets
		fmt.Fprintf(&p.out, "%s%7x  %s%s  %s\n", times, uint64(in.Address), p.marked(&in), strings.Repeat(" ", max(0, bytesWidth-in.width())), text)
	}
	if n := len(list) - len(shown); n > 0 {
		p.fact("", "and %d more instructions: --code 0 shows all", n)
	}
}

// width is how many characters the bytes take, with brackets.
func (in *Instruction) width() int { return len(in.Bytes) + 2*min(1, len(in.Patched)) }

// marked is the instruction's bytes, those that are patched in brackets.
func (p *page) marked(in *Instruction) string {
	if len(in.Patched) == 0 {
		return in.Bytes
	}
	first, last := 2*in.Patched[0], 2*in.Patched[len(in.Patched)-1]+2
	return in.Bytes[:first] + p.style.Red("["+in.Bytes[first:last]+"]") + in.Bytes[last:]
}
