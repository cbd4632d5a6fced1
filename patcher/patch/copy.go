package patch

import (
	"cmp"
	"slices"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/entry"
)

// CopyLead is bytes of an old body that lead into its copy (translate.Patch).
type CopyLead struct {
	Addr uint64 // link-time
	Code []byte
	From uint64 // of an island, what leads to it; else 0
}

// AppendCopy adds the patches of the old body of a function that runs as a copy: leads
// send arrivals there. The last of list is the patch of its entry, or of the island that its hop
// leads to, which is in padding. All that was the body belongs to one of them: whoever changes a byte of it takes the whole function back.
func (g Groups) AppendCopy(list []Patch, o *stubgen.Object, p *entry.Plan, ranges []elfscan.Range, leads []CopyLead) []Patch {
	group, first := g.of(p.Function), len(list)-1
	if p.Tactic == ledger.TacticHop {
		list[first-1], list[first] = list[first], list[first-1]
	}
	for _, l := range leads {
		q := change(o, l.Addr, uint32(len(l.Code)), group, NoGroup)
		copy(q.New[:], l.Code)
		if l.From != 0 {
			q = behind(q)
		}
		list = append(list, q)
	}
	for _, r := range ranges[1:] { // a part may have none at its beginning
		if !leadsFrom(leads, r.Low) {
			q := change(o, r.Low, 1, group, NoGroup)
			q.New = q.Old
			list = append(list, q)
		}
	}
	mine := list[first:]
	slices.SortFunc(mine, func(a, b Patch) int { return cmp.Compare(a.At, b.At) })
	for i := range mine {
		at := uint64(mine[i].At) - o.Bias
		k := slices.IndexFunc(ranges, func(r elfscan.Range) bool { return at >= r.Low && at < r.High })
		end := ranges[k].High
		if i+1 < len(mine) {
			end = min(end, uint64(mine[i+1].At)-o.Bias)
		}
		mine[i].Moved = SpanOf(end - at)
	}
	return list
}

// CopyPatches is the number of patches that AppendCopy adds.
func CopyPatches(ranges []elfscan.Range, leads []CopyLead) int {
	n := len(leads)
	for _, r := range ranges[1:] {
		if !leadsFrom(leads, r.Low) {
			n++
		}
	}
	return n
}

func leadsFrom(leads []CopyLead, at uint64) bool {
	return slices.ContainsFunc(leads, func(l CopyLead) bool { return l.Addr == at })
}
