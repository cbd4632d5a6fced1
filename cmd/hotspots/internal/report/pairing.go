package report

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bodyhash"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// pairing finds the functions of one table in another.
type pairing struct {
	diff  *Diff
	files map[string]string // paths by build ID, besides those in the tables
	since [2]time.Time      // when the programs started
}

// builds is an object as one table has it: mostly one build of it.
type builds struct {
	key    string
	sums   map[string]bool // which builds
	groups []*group
}

// group is functions that are told apart by nothing: of one name in different builds, or
// static ones of one name, where builds are compared.
type group struct {
	functions []*Function
	calls     uint64
}

// time is the CPU time of all of them; nil if none was sampled.
func (g *group) time() (sum *SelfTime) {
	for _, f := range g.functions {
		sum = sum.plus(f.SelfTime)
	}
	return sum
}

// add pairs all functions, by object.
func (p *pairing) add(both [2]*Report) {
	var sides [2][]*builds
	for i, r := range both {
		sides[i] = objects(r)
	}
	var none builds
	for _, pair := range pairObjects(sides[0], sides[1]) {
		a, b := pair[0], pair[1]
		switch {
		case a == nil:
			a = &none
		case b == nil:
			b = &none
		}
		p.object(a, b)
	}
}

// objects are those of a table, in their order.
func objects(r *Report) (all []*builds) {
	known := map[string]*builds{}
	for _, f := range r.Functions {
		key := objectKey(f.object)
		o := known[key]
		if o == nil {
			o = &builds{key: key, sums: map[string]bool{}}
			known[key] = o
			all = append(all, o)
		}
		o.groups = append(o.groups, &group{[]*Function{f}, f.Calls})
	}
	for _, o := range all {
		o.identify()
	}
	return all
}

// objectKey is what an object is known by: an executable is compared with the
// other's, whatever they are called.
func objectKey(o *layout.Object) string {
	if o.Flags&layout.ObjMain != 0 {
		return ""
	}
	return o.Path
}

// identify notes which builds of an object there are: build IDs or, where there is none, a
// sum of what functions it has.
func (o *builds) identify() {
	var sum uint64
	unnamed := false
	for _, g := range o.groups {
		f := g.functions[0]
		if f.object.BuildID != "" {
			o.sums[f.object.BuildID] = true
			continue
		}
		unnamed = true
		h := fnv.New64a()
		fmt.Fprintf(h, "%x %x %s", f.entry.Address, f.entry.Size, f.entry.Name)
		sum += h.Sum64()
	}
	if unnamed {
		o.sums[fmt.Sprint(sum)] = true
	}
}

// pairObjects pairs objects of the same path, then those of the same file name, then those
// of one library in different versions; nil is in place of what has no other.
func pairObjects(a, b []*builds) (pairs [][2]*builds) {
	taken := map[*builds]bool{}
	for _, key := range []func(string) string{func(path string) string { return path }, filepath.Base, stem} {
		byKey := map[string][]*builds{}
		for _, o := range b {
			if !taken[o] {
				byKey[key(o.key)] = append(byKey[key(o.key)], o)
			}
		}
		for _, o := range a {
			others := byKey[key(o.key)]
			if !taken[o] && len(others) == 1 && !taken[others[0]] {
				taken[o], taken[others[0]] = true, true
				pairs = append(pairs, [2]*builds{o, others[0]})
			}
		}
	}
	for _, o := range a {
		if !taken[o] {
			pairs = append(pairs, [2]*builds{o, nil})
		}
	}
	for _, o := range b {
		if !taken[o] {
			pairs = append(pairs, [2]*builds{nil, o})
		}
	}
	return pairs
}

// stem is a library's name without its version.
func stem(path string) string {
	base := filepath.Base(path)
	if at := strings.Index(base, ".so"); at > 0 {
		return base[:at]
	}
	return base
}

// object pairs the functions of one.
func (p *pairing) object(a, b *builds) {
	same := len(a.sums) == 1 && len(b.sums) == 1 && b.sums[onlyKey(a.sums)]
	var pairs []match.Pair
	if same {
		pairs = byAddress(a.groups, b.groups)
	} else {
		a.join()
		b.join()
		pairs = p.acrossBuilds(a, b)
	}
	var found [2][]bool
	found[0], found[1] = make([]bool, len(a.groups)), make([]bool, len(b.groups))
	for _, pair := range pairs {
		found[0][pair.A], found[1][pair.B] = true, true
		p.change(a.groups[pair.A], b.groups[pair.B], pair.By)
	}
	for i, g := range a.groups {
		if !found[0][i] {
			p.change(g, nil, match.Gone)
		}
	}
	for i, g := range b.groups {
		if !found[1][i] {
			p.change(nil, g, match.New)
		}
	}
}

func onlyKey(m map[string]bool) string {
	for k := range m {
		return k
	}
	return ""
}

// byAddress pairs functions of one build.
func byAddress(a, b []*group) (pairs []match.Pair) {
	at := map[Address]int{}
	for i, g := range b {
		at[g.functions[0].Address] = i
	}
	for i, g := range a {
		if k, ok := at[g.functions[0].Address]; ok {
			pairs = append(pairs, match.Pair{A: i, B: k, By: match.ByAddress})
		}
	}
	return pairs
}

// join makes one group of those of one name.
func (o *builds) join() {
	byName := map[string]*group{}
	o.groups = slices.DeleteFunc(o.groups, func(g *group) bool {
		name := g.functions[0].entry.Name
		one := byName[name]
		if name == "" || one == nil {
			byName[name] = g
			return false
		}
		one.functions = append(one.functions, g.functions...)
		one.calls += g.calls
		return true
	})
}

// acrossBuilds pairs functions of different builds: by names, and, if that leaves some, by
// their code.
func (p *pairing) acrossBuilds(a, b *builds) []match.Pair {
	sides := [2][]match.Function{described(a), described(b)}
	pairs := match.Functions(sides[0], sides[1])
	if len(pairs) == len(sides[0]) || len(pairs) == len(sides[1]) {
		return pairs
	}
	var unread [2]error
	for i, o := range []*builds{a, b} {
		unread[i] = p.addBodies(sides[i], o, i)
	}
	if err := cmp.Or(unread[0], unread[1]); err == nil {
		pairs = match.Functions(sides[0], sides[1])
	} else {
		p.tellUnread(a, b, pairs, err)
	}
	return pairs
}

func described(o *builds) []match.Function {
	all := make([]match.Function, len(o.groups))
	for i, g := range o.groups {
		f := g.functions[0]
		all[i] = match.Function{Address: f.entry.Address, Size: uint64(f.entry.Size), Name: f.entry.Name}
		if f.entry.Name != "" {
			all[i].Shown = f.Name
		}
	}
	return all
}

// addBodies adds hashes of the functions' code, from the object's file. Several builds of an
// object in one table are told apart by names only.
func (p *pairing) addBodies(all []match.Function, o *builds, side int) error {
	if len(o.sums) != 1 {
		return fmt.Errorf("%d builds of it are in one table", len(o.sums))
	}
	object := *o.groups[0].functions[0].object
	if path := p.files[object.BuildID]; path != "" {
		object.Path = path
	}
	file, err := objcode.LoadCounted(&object, p.since[side])
	if err != nil {
		return err
	}
	list := make([]bodyhash.Function, len(all))
	for i, g := range o.groups {
		if len(g.functions) == 1 { // of others it is not known which one is meant
			list[i] = bodyhash.Function{Address: all[i].Address, Size: uint32(all[i].Size)}
		}
	}
	for i, body := range bodyhash.Of(file, list) {
		all[i].Body = body
	}
	return nil
}

// tellUnread notes that functions that were called cannot be compared.
func (p *pairing) tellUnread(a, b *builds, pairs []match.Pair, err error) {
	left := map[*group]bool{}
	for _, g := range append(slices.Clone(a.groups), b.groups...) {
		left[g] = g.calls > 0 && g.functions[0].entry.Name == ""
	}
	for _, pair := range pairs {
		left[a.groups[pair.A]], left[b.groups[pair.B]] = false, false
	}
	n := 0
	for _, is := range left {
		if is {
			n++
		}
	}
	if n > 0 {
		p.diff.Unread = append(p.diff.Unread, fmt.Sprintf("%d functions without a name are not compared: %v", n, err))
	}
}

// change adds a function, which either table may not have.
func (p *pairing) change(before, after *group, by match.By) {
	c := &Change{Match: by}
	for i, g := range []*group{before, after} {
		if g == nil {
			continue
		}
		f := g.functions[len(g.functions)-1]
		c.Object, c.BuildID, c.Address, c.Aliases = f.Object, f.BuildID, f.Address, f.Aliases
		named := f.entry.Name != ""
		if i == 0 {
			c.Before, c.NameBefore, c.TimeBefore = g.calls, f.Name, g.time()
		} else {
			c.After, c.TimeAfter = g.calls, g.time()
		}
		if named || i == 0 || before == nil || before.functions[0].entry.Name == "" {
			c.Name = f.Name
		}
	}
	p.diff.Functions = append(p.diff.Functions, c)
}
