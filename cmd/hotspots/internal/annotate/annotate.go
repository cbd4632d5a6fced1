// Package annotate shows a function's instructions with how often each has run.
package annotate

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/x86"
)

// Function is a function with its blocks.
type Function struct {
	Object       string         `json:"object"`
	BuildID      string         `json:"build_id"`
	Address      report.Address `json:"address"`
	Name         string         `json:"name"`
	Calls        uint64         `json:"calls"`
	Instructions uint64         `json:"instructions"` // that it has executed
	Blocks       []Block        `json:"blocks"`       // by address
}

// Block is instructions that run one after the other.
type Block struct {
	Address      report.Address `json:"address"`
	Size         uint32         `json:"size"` // bytes
	Runs         uint64         `json:"runs"`
	Instructions uint64         `json:"instructions"` // executed
	Code         []Instruction  `json:"code"`
}

// Instruction is one of a block.
type Instruction struct {
	Address report.Address `json:"address"`
	Text    string         `json:"text"`
}

// Find makes the functions of t that are named name, as shown or in the file, or have an
// alias or the address of that, 0x and hex digits.
func Find(t *table.Table, name string, mangled bool) (list []*Function, err error) {
	if !t.HasBlocks() {
		return nil, fmt.Errorf("%s counts no blocks: run the program with hotspots run --blocks", t.Path())
	}
	snapshot, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	blocks, err := t.Blocks(snapshot)
	if err != nil {
		return nil, err
	}
	codes := map[string]*objcode.Image{}
	known := false
	for i := range t.Functions {
		e := &t.Functions[i]
		o := &t.Objects[e.Object]
		shown := symname.Display(e.Name, o.Path, e.Address, !mangled)
		if !isNamed(e, shown, name) {
			continue
		}
		known = true
		f := &Function{Object: o.Path, BuildID: o.BuildID, Address: report.Address(e.Address), Name: shown, Calls: snapshot.Calls[i]}
		if err := f.add(table.OfFunction(blocks, uint32(i)), o, codes); err != nil {
			return nil, err
		}
		if len(f.Blocks) > 0 {
			list = append(list, f)
		}
	}
	switch {
	case !known:
		return nil, fmt.Errorf("%s: no function of that name: hotspots report --filter %s shows those that are like it", name, name)
	case list == nil:
		return nil, fmt.Errorf("%s: its blocks are not counted", name)
	}
	return list, nil
}

func isNamed(e *layout.Function, shown, name string) bool {
	if shown == name || e.Name == name {
		return true
	}
	for _, a := range e.Aliases {
		if a == name {
			return true
		}
	}
	at, hex := strings.CutPrefix(name, "0x")
	n, err := strconv.ParseUint(at, 16, 64)
	return hex && err == nil && n == e.Address
}

// add adds the function's blocks.
func (f *Function) add(blocks []table.Block, o *layout.Object, codes map[string]*objcode.Image) (err error) {
	for k := range blocks {
		b := &blocks[k]
		img := codes[o.Path]
		if img == nil {
			if img, err = objcode.Load(o); err != nil {
				return err
			}
			codes[o.Path] = img
		}
		f.Instructions += b.Executed()
		f.Blocks = append(f.Blocks, Block{
			Address: report.Address(b.Address), Size: b.Size, Runs: b.Runs, Instructions: b.Executed(),
			Code: disassemble(img, b.Address, b.Size),
		})
	}
	return nil
}

func disassemble(img *objcode.Image, addr uint64, size uint32) (list []Instruction) {
	for at, code := range img.Instructions(addr, size) {
		list = append(list, Instruction{report.Address(at), x86.Text(code, at)})
	}
	return list
}

// JSON writes the functions.
func JSON(w io.Writer, functions []*Function) error {
	return report.WriteJSON(w, struct {
		Schema int `json:"schema"`
	}{report.Schema}, "functions", functions)
}

// Text writes a function: how often each instruction has run, and what share of the
// function's executed instructions its block has. What takes a tenth and more is in color.
func (f *Function) Text(w io.Writer, hot func(string) string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s of %s: %s calls, %s instructions, %d blocks\n", f.Name, filepath.Base(f.Object), report.Thousands(f.Calls), report.Thousands(f.Instructions), len(f.Blocks))
	width := len("RUNS")
	for i := range f.Blocks {
		width = max(width, len(report.Thousands(f.Blocks[i].Runs)))
	}
	fmt.Fprintf(&out, "%*s   SHARE  ADDRESS\n", width, "RUNS")
	for i := range f.Blocks {
		b := &f.Blocks[i]
		share := 0.0
		if f.Instructions > 0 {
			share = float64(b.Instructions) * 100 / float64(f.Instructions)
		}
		for k, in := range b.Code {
			numbers := fmt.Sprintf("%*s  %5.1f%%", width, report.Thousands(b.Runs), share)
			if k > 0 {
				numbers = strings.Repeat(" ", width+8)
			}
			const tenth = 10
			if share >= tenth {
				numbers = hot(numbers)
			}
			fmt.Fprintf(&out, "%s  %7x  %s\n", numbers, uint64(in.Address), in.Text)
		}
		if i+1 < len(f.Blocks) {
			out.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
