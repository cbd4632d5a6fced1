package heat

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/debugfile"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/lines"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/elfscan"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// Asker is a call that asks for blocks.
type Asker struct {
	Function string `json:"function"` // empty: it is in none that is known
	Memory   string `json:"memory"`   // the object's path; empty: it is in none that is known
	Address  uint64 `json:"-"`        // in that file, or in the program: where the call returns to
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// String is what people read.
func (a *Asker) String() string {
	if a.Address == 0 {
		return "others"
	}
	text := a.Function
	if text == "" {
		text = "?"
		if a.Memory == "" {
			text = fmt.Sprintf("code at 0x%x", a.Address)
		}
	}
	switch {
	case a.Line > 0:
		return fmt.Sprintf("%s (%s:%d)", text, filepath.Base(a.File), a.Line)
	case a.Memory != "":
		return fmt.Sprintf("%s (%s+0x%x)", text, filepath.Base(a.Memory), a.Address)
	}
	return text
}

// askers are the calls that were looked for so far.
type askers struct {
	known map[uint64]Asker // by return address
	files map[int][]elfscan.Function
	lines map[int]*lines.File
	spent time.Duration // on source lines
}

// most is how long source lines are looked for, of all together: those of large files take long.
const mostLines = 5 * time.Second

// Asker is the call that returns to an address.
func (y *Symbols) Asker(back uint64) Asker {
	if y.askers.known == nil {
		y.askers = askers{map[uint64]Asker{}, map[int][]elfscan.Function{}, map[int]*lines.File{}, 0}
	}
	a, known := y.askers.known[back]
	if !known {
		a = y.asker(back)
		y.askers.known[back] = a
	}
	return a
}

func (y *Symbols) asker(back uint64) Asker {
	if back == 0 {
		return Asker{}
	}
	at := back - 1 // in the call, which may be the last of its function
	n := slices.IndexFunc(y.Objects, func(o layout.Object) bool { return at >= o.Low && at < o.High })
	if n < 0 {
		return Asker{Address: back}
	}
	o := &y.Objects[n]
	a := Asker{Memory: symname.Clean(o.Path), Address: back - o.Bias}
	i := sort.Search(len(y.functions), func(i int) bool { return y.functions[i].from > at }) - 1
	entry := at
	if i >= 0 && y.functions[i].to > at {
		a.Function, entry = y.Name(y.functions[i].i), y.functions[i].from
	} else if f := y.fileFunction(n, at-o.Bias); f != nil {
		a.Function, entry = symname.Display(f.Name, o.Path, f.Addr, !y.Mangled), f.Addr+o.Bias
	}
	a.File, a.Line = y.lineOf(n, entry-o.Bias, at-o.Bias)
	return a
}

// fileFunction is one of an object that is not counted, by its file; nil: it is not known.
func (y *Symbols) fileFunction(n int, at uint64) *elfscan.Function {
	all, looked := y.askers.files[n]
	if !looked {
		if f, err := objcode.LoadFile(y.Objects[n].Path); err == nil {
			all = f.Functions
		}
		y.askers.files[n] = all
	}
	i, _ := slices.BinarySearchFunc(all, at+1, func(f elfscan.Function, to uint64) int { return cmp.Compare(f.Addr, to) })
	if i == 0 || at >= all[i-1].Addr+all[i-1].Size || all[i-1].Name == "" {
		return nil
	}
	return &all[i-1]
}

// lineOf is the source line of an address of a function of an object; 0: it is not known.
func (y *Symbols) lineOf(n int, entry, at uint64) (file string, line int) {
	if y.askers.spent > mostLines {
		return "", 0
	}
	begun := time.Now()
	defer func() { y.askers.spent += time.Since(begun) }()
	f, looked := y.askers.lines[n]
	if !looked {
		f, _ = lines.Open(&y.Objects[n], &debugfile.Finder{Root: debugfile.System}) // without it there are none
		y.askers.lines[n] = f
	}
	if f == nil {
		return "", 0
	}
	rows, err := f.Of(entry, at, at+1)
	if err != nil {
		return "", 0
	}
	return rows.At(at)
}
