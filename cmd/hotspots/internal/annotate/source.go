package annotate

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/lines"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// AddSource adds the source lines that functions' instructions are of, as far as debug
// information tells them. What it cannot read it says, once for each object or function.
func AddSource(functions []*Function, find *debugfile.Finder, say func(error)) {
	files := map[string]*lines.File{}
	sources := lines.Sources{}
	for _, f := range functions {
		file, ok := files[f.Object]
		if !ok {
			var err error
			if file, err = lines.Open(&layout.Object{Path: f.Object, BuildID: f.BuildID}, find); err != nil {
				say(err)
			}
			files[f.Object] = file
		}
		if file == nil {
			continue
		}
		if err := f.addSource(file, sources); err != nil {
			say(err)
		}
	}
}

func (f *Function) addSource(file *lines.File, sources lines.Sources) error {
	low, high := uint64(math.MaxUint64), uint64(0)
	for i := range f.Blocks {
		at := uint64(f.Blocks[i].Address)
		low, high = min(low, at), max(high, at+uint64(f.Blocks[i].Size))
	}
	rows, err := file.Of(uint64(f.Address), low, high)
	if err != nil {
		return err
	}
	for i := range f.Blocks {
		for k := range f.Blocks[i].Code {
			in := &f.Blocks[i].Code[k]
			if in.File, in.Line = rows.At(uint64(in.Address)); in.Line != 0 {
				in.source = sources.Line(in.File, in.Line, file.Built)
				in.File = symname.Clean(in.File)
			}
		}
	}
	return nil
}

// where is the source line of an instruction, as text.
func (in *Instruction) where() string {
	if in.Line == 0 {
		return "no source line"
	}
	text := strings.ReplaceAll(strings.TrimSpace(in.source), "\t", " ")
	return strings.TrimSpace(fmt.Sprintf("%s:%d  %s", filepath.Base(in.File), in.Line, symname.Clean(text)))
}
