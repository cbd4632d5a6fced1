package report

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/lines"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// AddLines adds where the functions' sources are, and what was inlined into them, as far as
// debug information tells. What it cannot read it says, once for each object.
func (r *Report) AddLines(find *debugfile.Finder, opt Options, say func(error)) {
	r.HasLines = true
	byObject := map[*layout.Object][]*Function{}
	var objects []*layout.Object
	for _, f := range r.Functions {
		if byObject[f.object] == nil {
			objects = append(objects, f.object)
		}
		byObject[f.object] = append(byObject[f.object], f)
	}
	for _, o := range objects {
		file, err := lines.Open(o, find)
		if err != nil {
			say(err)
		}
		if file == nil {
			continue
		}
		entries := make([]uint64, len(byObject[o]))
		for i, f := range byObject[o] {
			entries[i] = f.first.Address
		}
		known, err := file.Functions(entries)
		if err != nil {
			say(err)
		}
		for _, f := range byObject[o] {
			one := known[f.first.Address]
			f.File, f.Line = symname.Clean(one.File), one.Line
			for _, name := range one.Inlined {
				f.Inlined = append(f.Inlined, symname.Display(name, o.Path, 0, !opt.Mangled))
			}
		}
	}
}

// where is its source line and what was inlined, as text; empty if it is not known.
func (f *Function) where() string {
	const shown = 3
	text := ""
	if f.Line > 0 {
		text = fmt.Sprintf("  %s:%d", filepath.Base(f.File), f.Line)
	}
	switch n := len(f.Inlined); {
	case n > shown:
		text += fmt.Sprintf("  inlines %s and %d more", strings.Join(f.Inlined[:shown], ", "), n-shown)
	case n > 0:
		text += "  inlines " + strings.Join(f.Inlined, ", ")
	}
	return text
}
