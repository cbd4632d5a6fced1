package entry

import (
	"encoding/hex"
	"testing"

	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/survey"
)

// TestFixed: what must stay is neither overwritten nor moved; behind it, or with
// less of a window, the function is counted all the same.
func TestFixed(t *testing.T) {
	const at = 0x401000
	code, err := hex.DecodeString("55" + "4889e5" + "4883ec20" + "31c0" + "c9" + "c3" + "cccccccccccccccccccccccc")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		edit   func(o *stubgen.Object)
		tactic ledger.Tactic
		reason ledger.Reason
	}{
		{"nothing", func(*stubgen.Object) {}, ledger.TacticWholeBody, ledger.ReasonNone},
		{"the entry", changed(at, 1), ledger.TacticNone, ledger.ReasonBytesChanged},
		{"behind push %rbp", changed(at+1, 1), ledger.TacticNone, ledger.ReasonBytesChanged},
		{"behind mov %rsp,%rbp", changed(at+4, 1), ledger.TacticHop, ledger.ReasonNone},
		{"behind the window", changed(at+8, 1), ledger.TacticJump, ledger.ReasonNone},
		{"the padding", changed(at+12, 1), ledger.TacticWholeBody, ledger.ReasonNone},
		{"a sequence", restartable(at+8, at+9, at+11), ledger.TacticNone, ledger.ReasonRestartable},
		{"a sequence behind the next instruction", restartable(at+10, at+11, at+11), ledger.TacticNone, ledger.ReasonRestartable},
		{"a sequence of a megabyte, with others in it", func(o *stubgen.Object) {
			restartable(at-1<<20, at+1<<20, at+0x100)(o)
			o.Restartable = append(o.Restartable, elfscan.Restartable{Start: at - 0x100, End: at - 0xff, Abort: at - 0x80})
		}, ledger.TacticNone, ledger.ReasonRestartable},
		{"an abort handler", restartable(at+0x100, at+0x101, at+4), ledger.TacticNone, ledger.ReasonBranchIntoWindow},
		{"lines", func(o *stubgen.Object) { o.Lines = []uint64{at - 1, at + 11} }, ledger.TacticNone, ledger.ReasonDebugged},
		{"lines of others", func(o *stubgen.Object) { o.Lines = []uint64{at - 1, at + 12} }, ledger.TacticWholeBody, ledger.ReasonNone},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := &stubgen.Object{
				Text:      []stubgen.Segment{{Addr: at, Code: code}},
				Functions: []elfscan.Function{{Addr: at, Size: 12, Source: ledger.SourceSymtab}},
			}
			row.edit(o)
			p := Plans(survey.New(o, 1), Options{}, 1, nil)[0]
			if p.Tactic != row.tactic || p.Reason != row.reason {
				t.Errorf("%v %v, not %v %v", p.Tactic, p.Reason, row.tactic, row.reason)
			}
		})
	}
}

func changed(at, size uint64) func(*stubgen.Object) {
	return func(o *stubgen.Object) {
		o.Fixed = []stubgen.Fixed{{Low: at, High: at + size, Why: ledger.ReasonBytesChanged}}
	}
}

func restartable(start, end, abort uint64) func(*stubgen.Object) {
	return func(o *stubgen.Object) { o.Restartable = []elfscan.Restartable{{Start: start, End: end, Abort: abort}} }
}
