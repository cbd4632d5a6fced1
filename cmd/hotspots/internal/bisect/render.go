package bisect

import (
	"fmt"
	"io"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
)

// JSON writes the result and its culprits (docs/bisect.md).
func (r *Result) JSON(w io.Writer) error { return report.WriteJSON(w, r, "culprits", r.culprits) }

// Text writes the result for people.
func (r *Result) Text(w io.Writer) error {
	var b strings.Builder
	functions, objects := plural(r.Functions, "function"), plural(r.Objects, "object")
	if r.Verdict == Same {
		fmt.Fprintf(&b, "no difference with %s of %s patched (%s, %.1f s)\n", functions, objects, plural(r.Runs, "run"), r.Seconds)
		_, err := io.WriteString(w, b.String())
		return err
	}
	switch {
	case r.Verdict == Library:
		b.WriteString("the library makes a difference with no function patched\n")
	case len(r.culprits) == 1:
		fmt.Fprintf(&b, "1 of %s in %s makes a difference\n", functions, objects)
	default:
		fmt.Fprintf(&b, "%d of %s in %s make a difference when patched together\n", len(r.culprits), functions, objects)
	}
	for _, c := range r.culprits {
		c.text(&b)
	}
	r.differencesText(&b)
	r.endText(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Culprit) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n  object   %s", c.Name, c.Object)
	if c.BuildID != "" {
		fmt.Fprintf(b, " (build ID %s)", c.BuildID)
	}
	fmt.Fprintf(b, "\n  address  %s, %d bytes, from %s\n", c.Address, c.Size, c.Source)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "  aliases  %s\n", strings.Join(c.Aliases, ", "))
	}
	fmt.Fprintf(b, "  tactic   %s", c.Tactic)
	if c.WindowLen > 0 {
		fmt.Fprintf(b, ": %d bytes overwritten at %s, %d moved, flags %s", c.WindowLen, c.Window, c.Moved,
			map[bool]string{true: "kept", false: "not kept"}[c.FlagsKept])
	}
	b.WriteByte('\n')
	if c.Note != "" {
		fmt.Fprintf(b, "  note     %s\n", symname.Clean(c.Note))
	}
	if len(c.Code) > 0 {
		b.WriteString("  code (* moved)\n")
		listing(b, c.Code)
	}
	if len(c.Stub) > 0 {
		fmt.Fprintf(b, "  stub, which ran at %s\n", c.StubAt)
		listing(b, c.Stub)
	}
	c.copyText(b)
}

// copyText shows the copy, mostly as long as its function.
func (c *Culprit) copyText(b *strings.Builder) {
	if len(c.Copy) == 0 {
		return
	}
	b.WriteString("  copy that ran behind the count (blocks, their counters, what stayed home)\n")
	for _, line := range c.Copy {
		fmt.Fprintf(b, "     %s\n", line)
	}
}

func listing(b *strings.Builder, code []Instruction) {
	width, digits := 0, len(code[len(code)-1].Address.String())
	for _, i := range code {
		width = max(width, len(i.Bytes))
	}
	for _, i := range code {
		mark := " "
		if i.Moved {
			mark = "*"
		}
		fmt.Fprintf(b, "   %s %*s  %-*s  %s\n", mark, digits, i.Address, width, i.Bytes, i.Text)
	}
}

func (r *Result) differencesText(b *strings.Builder) {
	if r.Unstable {
		fmt.Fprintf(b, "\nit comes and goes: the same functions patched once more made no difference\n")
	}
	for _, d := range r.Differences {
		what := d.What
		if d.Line > 0 {
			what = fmt.Sprintf("%s line %d", d.What, d.Line)
		}
		fmt.Fprintf(b, "\n%s\n  without  %s\n  with     %s\n", what, orEnd(d.Without), orEnd(d.With))
	}
}

func (r *Result) endText(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s, %.1f s\n", plural(r.Runs, "run"), r.Seconds)
	if r.Skip == "" {
		return
	}
	if r.ByCall == Same {
		b.WriteString("without --blocks it makes no difference: its copy does\n")
	}
	what := "leave it out"
	if len(r.culprits) > 1 {
		what = "leave one of them out"
	}
	fmt.Fprintf(b, "%s:\n  %s\n", what, r.Skip)
	switch r.Others {
	case Same:
		b.WriteString("then nothing differs\n")
	case differ:
		fmt.Fprintf(b, "others make a difference, too:\n  %s\n", r.Next)
	case cannotTell:
		b.WriteString("then --check cannot tell\n")
	}
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return figures.Thousands(uint64(n)) + " " + what
}
