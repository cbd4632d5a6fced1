package system

import (
	"fmt"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen/entry"
	"github.com/dynprof/dynprof/stubgen/flow"
	"github.com/dynprof/dynprof/stubgen/translate"
)

// Blocks says how much of some code could run as copies of whole functions, with a
// counter in each block.
type Blocks struct {
	Functions int // with their cold parts, excluded ones left out,
	Copied    int // and those that could
	Insts     int // instructions of functions whose flow is known,
	InCopies  int // and of those that could
	Blocks    int // of these
	Landings  int // places of them that would lead into the copy
	Reasons   map[ledger.Reason]int
}

func (b *Blocks) find(p *flow.Program, plans []entry.Plan) {
	b.Reasons = map[ledger.Reason]int{}
	for i, u := range p.Units() {
		if u.Reason.Excluded() {
			continue
		}
		b.Functions++
		g, why := p.Graph(i)
		if g == nil {
			b.Reasons[why]++
			continue
		}
		b.Insts += len(g.Insts)
		h, why := translate.PlanHome(g)
		if e := &plans[u.Function]; h == nil && e.KeepsHop() {
			h, why = translate.PlanHomeBehind(g, e.Start+e.Window())
		}
		if h == nil {
			b.Reasons[why]++
			continue
		}
		b.Copied++
		b.InCopies += len(g.Insts)
		b.Blocks += len(g.Blocks)
		b.Landings += len(h.Landings)
	}
}

func (b *Blocks) add(other *Blocks) {
	if b.Reasons == nil {
		b.Reasons = map[ledger.Reason]int{}
	}
	b.Functions += other.Functions
	b.Copied += other.Copied
	b.Insts += other.Insts
	b.InCopies += other.InCopies
	b.Blocks += other.Blocks
	b.Landings += other.Landings
	addAll(b.Reasons, other.Reasons)
}

func (b *Blocks) text(out *strings.Builder) {
	if b.Functions == 0 {
		return
	}
	fmt.Fprintf(out, "as copies: %s of %s functions with their cold parts (%s), %s of %s instructions (%s), in %s blocks\n",
		thousands(b.Copied), thousands(b.Functions), report.Percent(b.Copied, b.Functions),
		thousands(b.InCopies), thousands(b.Insts), report.Percent(b.InCopies, b.Insts), thousands(b.Blocks))
	report.WriteCounts(out, "not", words(b.Reasons))
}

type jsonBlocks struct {
	Functions int            `json:"functions"`
	Copied    int            `json:"copied"`
	Insts     int            `json:"instructions"`
	InCopies  int            `json:"copied_instructions"`
	Blocks    int            `json:"blocks"`
	Landings  int            `json:"landings"`
	Reasons   map[string]int `json:"not_copied"`
}

// json is nil where blocks were not asked for.
func (b *Blocks) json() *jsonBlocks {
	if b.Functions == 0 {
		return nil
	}
	return &jsonBlocks{b.Functions, b.Copied, b.Insts, b.InCopies, b.Blocks, b.Landings, words(b.Reasons)}
}
