package entry

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

// Island is a jump in original text that a short branch hops to. A thread on it
// is as good as back at the branch.
type Island struct{ At, From x86.RunAddr }

// IslandSize is the size of an Island in memory, in bytes.
const IslandSize = 16

// AppendIslands adds the islands of a plan, in no order. A loop instruction has
// changed RCX when it has branched: its islands are left out.
func AppendIslands(list []Island, o *stubgen.Object, p *Plan, leads []Lead) []Island {
	if d := p.Detour; d != nil && d.Island != 0 {
		list = append(list, Island{o.Run(d.Island), o.Run(p.Start)})
	}
	var in x86.Inst
	for _, l := range leads {
		if l.Island == 0 || x86.Decode(o.Code(l.Addr), &in) != nil || in.Kind == x86.Loop {
			continue
		}
		list = append(list, Island{o.Run(l.Island), o.Run(l.Addr)})
	}
	return list
}
