// Command arrivals tells how a program's calls come to the entries of its functions: by
// which of them, counted, go directly to a stub, and which by the jump at the entry.
//
//	go run ./bench/arrivals /usr/bin/lua5.4 bench/workloads/bench.lua 2
//
// The program runs in valgrind, without the library; what would be led is asked of the
// planner. It is some hundred times slower than by itself.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
)

func main() {
	all := flag.Bool("all", false, "count libc and the dynamic linker, too, as with --objects all")
	top := flag.Int("top", 0, "name so `many` pairs of caller and function that are most frequent, of each kind that is not led")
	flag.Parse()
	if err := study(flag.Args(), *all, *top); err != nil {
		fmt.Fprintln(os.Stderr, "arrivals:", err)
		os.Exit(1)
	}
}

func study(args []string, all bool, top int) error {
	if len(args) == 0 {
		return fmt.Errorf("which program?")
	}
	t, err := run(args)
	if err != nil {
		return err
	}
	c := classifier{all: all, objects: map[string]*object{}, maps: t.maps}
	kinds := map[string]uint64{}
	seen := map[string][]example{}
	total := uint64(0)
	for s, n := range t.steps {
		kind, ok := c.kind(s)
		if !ok {
			continue
		}
		kinds[kind] += n
		total += n
		if top > 0 && kind != led && kind != pastSlot {
			seen[kind] = append(seen[kind], example{c.name(s.from) + " -> " + c.name(s.to), n})
		}
	}
	fmt.Printf("%-44s %12d\n", "arrivals at entries of counted functions", total)
	for _, kind := range sorted(kinds) {
		fmt.Printf("%-44s %12d %6.2f %%\n", kind, kinds[kind], 100*float64(kinds[kind])/float64(total))
		slices.SortFunc(seen[kind], func(a, b example) int { return cmp.Compare(b.n, a.n) })
		for _, e := range seen[kind][:min(top, len(seen[kind]))] {
			fmt.Printf("    %12d  %s\n", e.n, e.what)
		}
	}
	return nil
}

type example struct {
	what string
	n    uint64
}

func sorted(kinds map[string]uint64) (list []string) {
	for kind := range kinds {
		list = append(list, kind)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(kinds[b], kinds[a]) })
	return list
}
