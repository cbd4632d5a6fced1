package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Missed is an object that was loaded later and could not be planned: its calls
// are in no figure.
type Missed struct {
	Object string `json:"object"` // as the dynamic linker has it
	Reason string `json:"reason"`
	Times  uint32 `json:"times"` // how often it was loaded so
}

func missed(s *table.Snapshot) []Missed {
	all := []Missed{}
	for _, m := range s.Missed {
		all = append(all, Missed{symname.Clean(m.Path), m.Reason.String(), m.Times})
	}
	return all
}

// takesGS is the object that came later and ended the counting; empty if none did.
func takesGS(t *table.Table, missed []Missed) string {
	for _, m := range missed {
		if m.Reason == ledger.ReasonUsesGS.String() || m.Reason == ledger.ReasonUnseen.String() {
			return m.Object
		}
	}
	const both = layout.ObjUsesGS | layout.ObjLate
	i := slices.IndexFunc(t.Objects, func(o layout.Object) bool { return o.Flags&both == both })
	if i < 0 {
		return ""
	}
	return symname.Clean(t.Objects[i].Path)
}

// MissedLines has a line for each object that could not be planned, with a newline
// in front of each.
func (r *Report) MissedLines() string {
	var out strings.Builder
	more := r.ObjectsMissed
	for _, m := range r.Missed {
		fmt.Fprintf(&out, "\nnot counted: %s: %s", m.Object, m.Reason)
		if m.Times > 1 {
			fmt.Fprintf(&out, ", %d times", m.Times)
		}
		more -= min(more, m.Times)
	}
	if more > 0 {
		fmt.Fprintf(&out, "\nnot counted: %d more, of which the table had no room for the names", more)
	}
	return out.String()
}
