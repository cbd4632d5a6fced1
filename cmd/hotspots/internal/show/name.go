package show

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// named are the numbers of the functions that a user names, those to count before others.
func (v *View) named(name string) (numbers []int) {
	object, offset := splitAddress(name)
	for i := range v.table.Functions {
		e := &v.table.Functions[i]
		if report.IsNamed(e, v.shown(i), name) || v.isAlias(e, name) || object != "" && e.Address == offset && filepath.Base(v.table.Objects[e.Object].Path) == object {
			numbers = append(numbers, i)
		}
	}
	switch {
	case len(numbers) > 0 || name == "":
	case offset != none:
		numbers = v.around(object, offset)
	default:
		for i := range v.table.Functions {
			if before, _ := split(v.shown(i)); before == name {
				numbers = append(numbers, i)
			}
		}
	}
	slices.SortStableFunc(numbers, func(a, b int) int {
		return cmp.Compare(v.counts.Calls[b], v.counts.Calls[a])
	})
	return numbers
}

// split cuts a name of C++ in front of its parameters, if it has some.
func split(shown string) (before, parameters string) {
	at := strings.IndexByte(shown, '(')
	if at <= 0 {
		return shown, ""
	}
	return shown[:at], shown[at:]
}

// around are the functions that an address lies in, of objects of that name, or of any if it
// is empty; then it may also be one of the program's memory.
func (v *View) around(object string, address uint64) (numbers []int) {
	for i := range v.table.Functions {
		e := &v.table.Functions[i]
		o := &v.table.Objects[e.Object]
		switch {
		case object != "" && filepath.Base(o.Path) != object:
		case address-e.Address < uint64(e.Size),
			object == "" && address >= o.Low && address < o.High && address-o.Bias-e.Address < uint64(e.Size):
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// isAlias reports whether a name is an alias of a function as it is shown. (As it is in the
// file report.IsNamed knows it.)
func (v *View) isAlias(e *layout.Function, name string) bool {
	return !v.mangled && slices.ContainsFunc(e.Aliases, func(alias string) bool {
		return strings.HasPrefix(alias, "_") && symname.Display(alias, "", e.Address, true) == name
	})
}

// none is an address that nothing has.
const none = ^uint64(0)

// splitAddress reads object+0xaddress, or 0xaddress of any object; "" and none if it is
// neither.
func splitAddress(name string) (object string, address uint64) {
	at := strings.LastIndex(name, "0x")
	if at < 0 || at > 0 && name[at-1] != '+' {
		return "", none
	}
	n, err := strconv.ParseUint(name[at+2:], 16, 64)
	if err != nil {
		return "", none
	}
	return strings.TrimSuffix(name[:at], "+"), n
}

// noneNamed is the error that no function has a name, with some that are like it.
func (v *View) noneNamed(name string) error {
	if _, address := splitAddress(name); address != none {
		return fmt.Errorf("%s: no known function has that address, of its file, as hotspots report shows them, or of the program's memory", name)
	}
	like := v.like(name)
	if len(like) == 0 {
		return report.NoneNamed(name)
	}
	return fmt.Errorf("%s: no function of that name: did you mean %s?", name, strings.Join(like, ", "))
}

// like are names that differ from one by letters that were mistyped, left out or written
// twice, or have it in them; the most alike first, of those the one called most.
func (v *View) like(name string) []string {
	type candidate struct {
		name  string
		far   int
		calls uint64
	}
	const (
		shown   = 3
		longest = 200 // of names that are compared
	)
	most := min(max(1, len(name)/4), 3) // so many letters
	wanted := strings.ToLower(name)
	var all []candidate
	seen := map[string]bool{}
	for i := range v.table.Functions {
		e := &v.table.Functions[i]
		text := v.shown(i)
		if e.Reason.Excluded() || e.Name == "" || len(text) > longest || len(wanted) > longest || seen[text] {
			continue
		}
		seen[text] = true
		lower := strings.ToLower(text)
		before, _ := split(lower)
		far := min(distance(wanted, lower, most), distance(wanted, before, most))
		if far > most && len(wanted) > 2 && strings.Contains(lower, wanted) {
			far = most + 1
		}
		if far <= most+1 && (far <= most || strings.Contains(lower, wanted)) {
			all = append(all, candidate{text, far, v.counts.Calls[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(b.calls, a.calls), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range all[:min(shown, len(all))] {
		names = append(names, c.name)
	}
	return names
}

// distance is how many letters have to be put in, taken out, replaced or exchanged with
// their neighbour to make b of a (optimal string alignment); more than most if it is that.
func distance(a, b string, most int) int {
	if max(len(a)-len(b), len(b)-len(a)) > most {
		return most + 1
	}
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for k := range last {
		last[k] = k
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for k := 1; k <= len(b); k++ {
			change := 1
			if a[i-1] == b[k-1] {
				change = 0
			}
			row[k] = min(last[k]+1, row[k-1]+1, last[k-1]+change)
			if i > 1 && k > 1 && a[i-1] == b[k-2] && a[i-2] == b[k-1] {
				row[k] = min(row[k], before[k-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
