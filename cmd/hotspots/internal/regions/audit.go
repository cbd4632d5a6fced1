package regions

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// Audit is what protected pages have told, and what there are records of.
type Audit struct {
	Accesses  uint64 `json:"accesses"` // that were seen
	Recorded  uint64 `json:"recorded"` // of these
	Missed    uint64 `json:"missed"`
	Unseen    uint64 `json:"unseen"`    // records of which no access was seen
	Unchecked uint64 `json:"unchecked"` // records that could not be compared
	Own       uint64 `json:"own"`       // accesses of dynprof's own
	Pages     uint64 `json:"pages"`
	Bare      uint64 `json:"bare"` // pages that could not be protected
	Calls     uint64 `json:"calls"`
	Open      uint64 `json:"open_ns"`
	Faults    uint64 `json:"faults"`
	Took      uint64 `json:"took_ns"`
	Ended     string `json:"ended"` // why before the program; empty: it did not

	Reasons []*AuditReason `json:"reasons"` // why accesses were missed
	Misses  []*AuditPlace  `json:"misses"`  // by instruction
	Spare   []*AuditPlace  `json:"spare"`   // what Unseen is of
}

// AuditReason is why so many accesses were missed.
type AuditReason struct {
	Reason   string `json:"reason"`
	Accesses uint64 `json:"accesses"`
}

// AuditPlace is an instruction.
type AuditPlace struct {
	Address  report.Address `json:"address"` // in its object's file
	Function string         `json:"function"`
	Object   string         `json:"object"`
	Size     uint32         `json:"size"` // bytes of an access; 0: not known
	Kind     string         `json:"kind"`
	Reason   string         `json:"reason"` // empty: there is a record
	Accesses uint64         `json:"accesses"`
	Code     string         `json:"code"`
}

// Reasons.
const (
	reasonObject  = "objects that are not counted"
	reasonNoCopy  = "functions that do not run as copies"
	reasonAtHome  = "at their old place"
	reasonNowhere = "code that is in no object"
	reasonNone    = "no known reason"
)

func (l *List) audit(a *regions.Audit, t *table.Table, flow *table.Flow) {
	if a == nil {
		return
	}
	l.Audit = &Audit{Accesses: a.Seen, Recorded: a.Recorded, Missed: a.Missed, Unseen: a.Unseen, Unchecked: a.Unchecked, Own: a.Own, Pages: a.Pages, Bare: a.Bare,
		Calls: a.Calls, Open: a.Open, Faults: a.Faults, Took: a.Took, Ended: a.Ended, Reasons: []*AuditReason{}, Misses: []*AuditPlace{}, Spare: []*AuditPlace{}}
	byReason := map[string]*AuditReason{}
	for i := range a.Misses {
		p := l.auditPlace(&a.Misses[i])
		p.Reason = l.places.reason(&a.Misses[i], t, flow)
		l.Audit.Misses = append(l.Audit.Misses, p)
		r := byReason[p.Reason]
		if r == nil {
			r = &AuditReason{Reason: p.Reason}
			byReason[p.Reason] = r
			l.Audit.Reasons = append(l.Audit.Reasons, r)
		}
		r.Accesses += p.Accesses
	}
	for i := range a.Spare {
		l.Audit.Spare = append(l.Audit.Spare, l.auditPlace(&a.Spare[i]))
	}
	slices.SortFunc(l.Audit.Reasons, func(a, b *AuditReason) int {
		return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Reason, b.Reason))
	})
}

func (l *List) auditPlace(s *regions.AuditSite) *AuditPlace {
	p := l.places.of(s.Address)
	return &AuditPlace{report.Address(p.address), p.function, p.object, s.Size, kindOf(&regions.Site{Load: s.Load, Store: s.Store}), "", s.Accesses, p.code}
}

// reason is why an access is not recorded.
func (p *places) reason(s *regions.AuditSite, t *table.Table, flow *table.Flow) string {
	i, known := p.function(s.Address)
	copied := i >= 0 && heat.RunsAsCopy(t, flow, uint32(i))
	switch {
	case !known:
		return reasonNowhere
	case i < 0:
		return reasonObject
	case copied && s.Copied && s.Form != "":
		return "with " + s.Form
	case copied && s.Copied:
		return reasonNone
	case copied:
		return reasonAtHome
	}
	return reasonNoCopy
}

func (a *Audit) text(out io.Writer, style report.Style) {
	const most = 10
	var by []string
	for _, r := range a.Reasons {
		by = append(by, fmt.Sprintf("%s %s", figures.Thousands(r.Accesses), r.Reason))
	}
	text := fmt.Sprintf("Audit: %s seen, %s recorded, %s not", figures.Count(a.Accesses, "access"), figures.Thousands(a.Recorded), figures.Thousands(a.Missed))
	if len(by) > 0 {
		text += ": " + strings.Join(by, ", ")
	}
	fmt.Fprintf(out, "\n%s.\n", style.Bold(text))
	list := func(all []*AuditPlace) {
		for i, p := range all {
			if i == most {
				fmt.Fprintf(out, "  and %s\n", figures.Count(uint64(len(all)-most), "instruction"))
				break
			}
			fmt.Fprintf(out, "  %14s %-5s  %s  %s\n", figures.Thousands(p.Accesses), p.Kind, p.Address, strings.TrimSpace(p.Code+"  "+p.where()+reasonBehind(p.Reason)))
		}
	}
	list(a.Misses)
	if a.Unseen > 0 {
		fmt.Fprintf(out, "%s of which no access was seen:\n", style.Red(figures.Count(a.Unseen, "record")))
		list(a.Spare)
	}
	if a.Unchecked > 0 {
		fmt.Fprintf(out, "Records that were not compared, as pages were open, or cannot be protected: %s.\n", figures.Thousands(a.Unchecked))
	}
	if a.Bare > 0 {
		fmt.Fprintf(out, "%s of regions could not be protected: code, or what the kernel writes to by itself.\n", figures.Count(a.Bare, "page"))
	}
	if a.Calls > 0 {
		fmt.Fprintf(out, "Pages were open for %s", figures.Count(a.Calls, "system call"))
		if a.Open > 0 {
			fmt.Fprintf(out, "; other threads ran meanwhile for %s", figures.Nanoseconds(float64(a.Open)))
		}
		fmt.Fprint(out, ": what was done then was not seen.\n")
	}
	if a.Faults > 0 {
		fmt.Fprintf(out, "%s of %s took %s each.\n", figures.Count(a.Faults, "fault"), figures.Count(a.Pages, "page"), figures.Nanoseconds(float64(a.Took)/float64(a.Faults)))
	}
	if a.Ended != "" {
		fmt.Fprintf(out, "%s: %s.\n", style.Red("The audit ended before the program"), a.Ended)
	}
}

// where is in which function an instruction is, of which object.
func (p *AuditPlace) where() string {
	switch {
	case p.Object == unknown:
		return "in no object"
	case p.Function == unknown:
		return "in no function of " + p.Object
	}
	return "in " + p.Function + " of " + p.Object
}

func reasonBehind(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
