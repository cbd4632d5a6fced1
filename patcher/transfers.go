package patcher

import (
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/patcher/patch"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// findTransfers finds system calls by which bytes come from sockets and go there, where it is noted
// what memory is touched: the library adds up what the kernel has moved. They stay where they are, and
// so do the functions that make them.
func (o *object) findTransfers(p *Plan) {
	if p.Entries.Transfer == 0 || !p.how.heat || o.code == nil || o.err != nil {
		return
	}
	o.transfers = survey.FindTransfers(o.code.Text)
	if o.scan != nil {
		o.leaveData(o.scan.DataInText)
	} else if len(o.transfers) > 0 {
		o.leaveData(o.dataInText(p.maps))
	}
	for _, t := range o.transfers {
		o.code.Fixed = append(o.code.Fixed, stubgen.Fixed{Low: t.Addr, High: t.End(), Why: ledger.ReasonKernelSite})
	}
}

// transfersAt is the number of the first thunk of those.
func (o *object) transfersAt() int { return len(o.sites) + len(o.signals) }

// emitTransfers writes the thunks of object k.
func (a *arena) emitTransfers(k int, p *Plan, origins *emit.Origins) error {
	o := a.objects[k]
	for i, t := range o.transfers {
		at := a.thunks[k] + (o.transfersAt()+i)*emit.ThunkSize
		run := x86.RunAddr(a.at).Add(at)
		if err := emit.EmitTransferThunk(o.code, t, a.buf[at:at+emit.ThunkSize], run, p.Entries.Transfer); err != nil {
			return err
		}
		origins.AddTransferThunk(o.code, t, run)
	}
	return nil
}

// appendTransfers adds the patches that lead to them.
func (o *object) appendTransfers(list []patch.Patch) []patch.Patch {
	for i, t := range o.transfers {
		list = append(list, patch.Transfer(o.code, t, o.arena.thunk(o, o.transfersAt()+i)))
	}
	return list
}
