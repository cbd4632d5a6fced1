package callgraph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// program is an executable with three functions and a PLT, and libraries: one that comes
// later, one without the symbols, and one with them.
type program struct {
	code   []byte // from base on
	blocks []table.Block
	ways   []table.Way
}

const (
	base = 0x1000
	f    = 0x1000
	g    = 0x1100
	h    = 0x1200
	plt  = 0x2000
	gone = 0x2010 // PLT entry of a symbol that nobody has
	slot = 0x3000
)

// put writes an instruction with a rel32 operand.
func (p *program) put(at, to uint64, opcode ...byte) uint32 {
	code := binary.LittleEndian.AppendUint32(opcode, uint32(to-at-uint64(len(opcode))-4))
	if need := int(at-base) + len(code); need > len(p.code) {
		p.code = append(p.code, make([]byte, need-len(p.code))...)
	}
	copy(p.code[at-base:], code)
	return uint32(len(code))
}

// block is one of an instruction; it returns its number.
func (p *program) block(function uint32, at, to, runs uint64, opcode ...byte) uint32 {
	b := table.Block{Block: layout.Block{Address: at, Function: function, After: layout.NoBlock, Instructions: 1, Loop: layout.NoLoop}, Runs: runs}
	b.Size = p.put(at, to, opcode...)
	p.blocks = append(p.blocks, b)
	return uint32(len(p.blocks) - 1)
}

var call, jump, above, callSlot, endbr = []byte{0xe8}, []byte{0xe9}, []byte{0x0f, 0x87}, []byte{0xff, 0x15}, []byte{0xf3, 0x0f, 0x1e, 0xfa}

func example() *program {
	p := &program{}
	p.block(0, f, g, 10, call...)
	p.block(0, f+5, plt, 20, call...)
	p.block(0, f+10, f, 7, jump...) // to itself: no call
	p.block(0, f+15, g, 30, jump...)
	p.block(0, f+20, g+3, 90, jump...) // into the middle
	p.block(0, f+25, g+3, 5, call...)  // as well
	p.block(0, f+30, g, 1, call...)
	way := p.block(1, g, h, 100, above...)
	p.ways = append(p.ways, table.Way{Way: layout.Way{From: way, To: layout.NoBlock}, Taken: 40}, table.Way{Way: layout.Way{From: way, To: way}, Taken: 60})
	before := p.block(2, h, slot, 3, callSlot...)
	p.block(2, h+6, g, 3, call...)
	p.blocks[len(p.blocks)-1].After = before // whether that has come back is not known
	idle := p.block(2, h+30, plt, 0, call...)
	p.block(2, h+35, g, 2, call...)
	p.blocks[len(p.blocks)-1].After = idle // it has not run
	p.block(2, h+11, slot+8, 8, callSlot...)
	p.block(2, h+17, gone, 2, call...)
	p.put(plt, 0, endbr...)
	p.put(plt+4, slot, 0xf2, 0xff, 0x25)
	p.put(gone, slot+16, 0xff, 0x25)
	return p
}

func (p *program) graph(t *testing.T) *List {
	t.Helper()
	objects := []layout.Object{{Path: "/bin/app"}, {Path: "[vdso]"}, {Path: "/lib/late.so", Flags: layout.ObjLate}, {Path: "/lib/none.so"}, {Path: "/lib/libx.so"}}
	functions := []layout.Function{
		{Address: f, Name: "f", Counter: 0, Tactic: ledger.TacticJump}, {Address: g, Name: "g", Counter: 1, Tactic: ledger.TacticJump},
		{Address: h, Name: "h", Counter: 2, Tactic: ledger.TacticJump}, {Address: plt, Name: "plt", Counter: layout.NoCounter, Reason: ledger.ReasonPLT},
		{Object: 4, Address: 0x500, Name: "puts_alias", Counter: layout.NoCounter, Reason: ledger.ReasonTooShort},
	}
	links := map[int]*objcode.Links{
		0: {Slots: map[uint64]objcode.Ref{slot: {Name: "puts", Version: "V1"}, slot + 8: {Name: "copy"}, slot + 16: {Name: "gone"}}},
		2: {Exports: map[string][]objcode.Export{"puts": {{Address: 0x900}}}},
		3: {},
		4: {Exports: map[string][]objcode.Export{
			"puts": {{Address: 0x510, Version: "V2", Versioned: true}, {Address: 0x500, Version: "V1", Hidden: true, Versioned: true}},
			"copy": {{Address: 0x600, Versioned: true, Indirect: true}},
		}},
	}
	files := Files{
		Image: func(i int) (*objcode.Image, error) {
			return &objcode.Image{Segments: []objcode.Segment{{Addr: base, Code: p.code}}}, nil
		},
		Links: func(i int) (*objcode.Links, error) {
			if l := links[i]; l != nil {
				return l, nil
			}
			return nil, errors.New("none")
		},
	}
	graph, err := New(objects, functions, []uint64{9, 50, 30, 0, 0}, &table.Flow{Blocks: p.blocks, Ways: p.ways}, files)
	if err != nil {
		t.Fatal(err)
	}
	return &List{Graph: graph, Program: "/bin/app", Objects: objects}
}

// TestEdges: calls, tail calls, conditional ones and those through the PLT and the GOT are
// told; what is not is the rest.
func TestEdges(t *testing.T) {
	l := example().graph(t)
	var got []string
	for _, e := range l.Edges {
		got = append(got, fmt.Sprintf("%s -> %s: %v %d at %x", l.end(e.Caller, "-"), l.end(e.Callee, "-"), e.Kind, e.Calls, e.Sites))
	}
	want := []string{
		"g of app -> h of app: tail call 40 at [{1100 28}]",
		"f of app -> g of app: tail call 30 at [{100f 1e}]",
		"f of app -> puts_alias of libx.so: call 20 at [{1005 14}]",
		"f of app -> g of app: call 11 at [{1000 a} {101e 1}]",
		"- -> f of app: elsewhere 9 at []",
		"h of app -> copy (ifunc) of libx.so: call 8 at [{120b 8}]",
		"- -> g of app: elsewhere 7 at []", // 50 less 30, 11, and 2
		"f of app -> -: unknown 5 at [{1019 5}]",
		"h of app -> g of app: at most 3 at [{1206 3}]",
		"h of app -> puts_alias of libx.so: call 3 at [{1200 3}]",
		"h of app -> -: unknown 2 at [{1211 2}]",
		"h of app -> g of app: call 2 at [{1223 2}]",
	} // 40 calls of h, of which 30 are counted as yet: no rest
	if !slices.Equal(got, want) {
		t.Errorf("%s\n\nnot\n\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestList: what is shown of edges and functions.
func TestList(t *testing.T) {
	l := example().graph(t)
	g := l.Find("g")
	if len(g) != 1 || len(l.Find("0x1100")) != 1 || l.Find("nosuch") != nil {
		t.Fatalf("%v", g)
	}
	for name, row := range map[string]struct {
		write func(*strings.Builder) error
		want  string
	}{
		"text": {func(b *strings.Builder) error { return l.Text(b, report.Style{}) }, `/bin/app: 114 calls between functions; besides, 16 came from elsewhere, and 7 went to what is not known
  CALLS  OF CALLEE  KIND       CALLER -> CALLEE
     40    133.33%  tail call  g -> h
     30     60.00%  tail call  f -> g
`},
		"function": {func(b *strings.Builder) error { return l.FunctionText(b, g[0], report.Style{}) }, `g of app: 50 calls
  CALLS   SHARE  KIND       CALLER
     30  60.00%  tail call  f of app
     11  22.00%  call       f of app
  CALLS    SHARE  KIND       CALLEE
     40  100.00%  tail call  h of app
`},
		"csv": {func(b *strings.Builder) error { return l.CSV(b) }, `caller_object,caller_address,caller,callee_object,callee_address,callee,kind,calls
/bin/app,0x1100,g,/bin/app,0x1200,h,tail call,40
/bin/app,0x1000,f,/bin/app,0x1100,g,tail call,30
`},
		"json of functions": {func(b *strings.Builder) error { return l.FunctionJSON(b, g) }, `{"schema":1,"program":"/bin/app","functions":[
{"object":"/bin/app","build_id":"","address":"0x1100","name":"g","calls":50,"callers":[` +
			`{"caller":{"object":"/bin/app","build_id":"","address":"0x1000","name":"f"},"callee":{"object":"/bin/app","build_id":"","address":"0x1100","name":"g"},"kind":"tail call","calls":30,"sites":[{"address":"0x100f","calls":30}]},` +
			`{"caller":{"object":"/bin/app","build_id":"","address":"0x1000","name":"f"},"callee":{"object":"/bin/app","build_id":"","address":"0x1100","name":"g"},"kind":"call","calls":11,"sites":[{"address":"0x1000","calls":10},{"address":"0x101e","calls":1}]}],` +
			`"callees":[{"caller":{"object":"/bin/app","build_id":"","address":"0x1100","name":"g"},"callee":{"object":"/bin/app","build_id":"","address":"0x1200","name":"h"},"kind":"tail call","calls":40,"sites":[{"address":"0x1100","calls":40}]}]}
]}
`},
		"dot": {func(b *strings.Builder) error { return l.Dot(b) }, `digraph calls {
	label="/bin/app";
	node [shape=box];
	n1 [label="g\n50 calls"];
	n3 [label="h\n30 calls"];
	n1 -> n3 [label="40", penwidth=5.0, style=dashed];
	n0 [label="f\n9 calls"];
	n0 -> n1 [label="30", penwidth=4.0, style=dashed];
}
`},
	} {
		l.Top = 2
		var b strings.Builder
		if err := row.write(&b); err != nil || b.String() != row.want {
			t.Errorf("%s: %v\n%s\nnot\n%s", name, err, b.String(), row.want)
		}
	}
	if one := l.Of(l.Find("h")); len(one.Edges) != 6 || len(l.Edges) != 12 {
		t.Errorf("%+v", one.Edges)
	}
}

// TestMatch: versions of symbols.
func TestMatch(t *testing.T) {
	export := func(addr uint64, version string, hidden bool) objcode.Export {
		return objcode.Export{Address: addr, Version: version, Hidden: hidden, Versioned: true}
	}
	for _, row := range []struct {
		exports []objcode.Export
		version string
		found   answer
		address uint64
	}{
		{nil, "V1", no, 0},
		{[]objcode.Export{{Address: 1}}, "V1", yes, 1},                                    // no versions there
		{[]objcode.Export{export(1, "V2", false)}, "V1", no, 0},                           // another
		{[]objcode.Export{export(1, "V2", false), export(2, "V1", true)}, "V1", yes, 2},   // an old one
		{[]objcode.Export{export(1, "", false)}, "V1", yes, 1},                            // without any
		{[]objcode.Export{export(1, "", true)}, "V1", no, 0},                              // and hidden
		{[]objcode.Export{export(1, "", false), export(2, "V1", false)}, "V1", unsure, 0}, // the first in the hash table
		{[]objcode.Export{export(1, "V1", false)}, "", unsure, 0},                         // who knows none
		{[]objcode.Export{export(1, "", false)}, "", yes, 1},
	} {
		e, found := match(row.exports, row.version)
		if found != row.found || e.Address != row.address {
			t.Errorf("%+v for %q: %+v, %d", row.exports, row.version, e, found)
		}
	}
}

// TestLate: of what libraries that came later call is told what can be one function only:
// those that came twice are two.
func TestLate(t *testing.T) {
	exports := func(names ...string) map[string][]objcode.Export {
		all := map[string][]objcode.Export{}
		for _, name := range names {
			all[name] = []objcode.Export{{Address: 0x100}}
		}
		return all
	}
	asks := map[uint64]objcode.Ref{0: {Name: "own"}, 8: {Name: "both"}, 16: {Name: "start"}, 24: {Name: "b"}, 32: {Name: "c"}, 40: {Name: "nobody"}}
	a, b, c := &objcode.Links{Slots: asks, Exports: exports("own", "both")}, &objcode.Links{Exports: exports("b")}, &objcode.Links{Exports: exports("c")}
	late := func(path string, low uint64) layout.Object {
		return layout.Object{Path: path, Flags: layout.ObjLate, Bias: low, Low: low, High: low + 0x1000}
	}
	objects := []layout.Object{{Path: "/bin/app", Bias: 0x1000, Low: 0x1000, High: 0x2000}, {Path: "/lib/start.so"}, late("/lib/a.so", 0x10000), late("/lib/b.so", 0x10000), late("/lib/a.so", 0x10000), late("/lib/b.so", 0x30000), late("/lib/c.so", 0x50000)}
	files := Files{
		Image: func(int) (*objcode.Image, error) { return nil, errors.New("none") },
		Links: func(i int) (*objcode.Links, error) {
			return []*objcode.Links{{}, {Exports: exports("both", "start")}, a, b, a, b, c}[i], nil
		},
	}
	r := newResolver(objects, nil, files)
	for address, want := range map[uint64]int{0: 4, 8: -1, 16: 1, 24: -1, 32: 6, 40: -1} {
		got, ok := r.behind(Place{Object: 4, Address: address})
		if ok != (want >= 0) || ok && got.Object != want {
			t.Errorf("%s: object %d, %t, not %d", asks[address].Name, got.Object, ok, want)
		}
	}
	for _, row := range []struct {
		at       uint64
		by, want int
	}{{0x1100, 2, 0}, {0x10100, 4, 4}, {0x10100, 2, 2}, {0x10100, 0, -1}, {0x30100, 0, 5}, {0x70000, 0, -1}} {
		got, ok := r.pointed(row.at, row.by)
		if ok != (row.want >= 0) || ok && (got.Object != row.want || got.Address != 0x100) {
			t.Errorf("%#x by %d: %+v, %t", row.at, row.by, got, ok)
		}
	}
}
