package main

import (
	"fmt"
	"strconv"
)

// sized are the arguments of most workloads: the size.
func sized(_ *machine, size int) ([]string, error) { return []string{strconv.Itoa(size)}, nil }

// workloads, in the order of the tables. Sizes make about a second.
var workloads = []*workload{
	{
		name: "leaf", about: "one tiny function, in a loop", source: "leaf.c", size: 500_000, small: 40, args: sized,
		calls: func(size int) counts { return counts{"leaf": uint64(size) * 1000} },
	},
	{
		name: "threads", about: "the same function, by two threads on a CPU each", source: "leaf.c", size: 250_000, small: 40, uses: 2,
		args:  func(_ *machine, size int) ([]string, error) { return []string{strconv.Itoa(size), "2"}, nil },
		calls: func(size int) counts { return counts{"leaf": uint64(size) * 2000} },
	},
	{
		name: "hundred", about: "100 functions in turn", source: "hundred.c", size: 5000, small: 40, args: sized,
		calls: func(size int) counts { return each("f", 100, 2, uint64(size)*1000) },
	},
	{
		name: "tiny", about: "5,000 tiny functions in turn", source: "tiny.c", size: 40_000, small: 20, args: sized,
		calls: func(size int) counts { return each("t", 5000, 4, uint64(size)) },
	},
	{
		name: "fib", about: "recursion", source: "fib.c", size: 15_000, small: 40, args: sized,
		calls: func(size int) counts { return counts{"fib": uint64(size) * 21_891} },
	},
	{
		name: "deep", about: "call trees 100 deep", source: "deep.c", size: 1200, small: 20, args: sized,
		calls: func(size int) counts {
			c := each("d", 100, 2, uint64(size)*1000)
			c["branch"] = uint64(size) * 100 * 1023
			return c
		},
	},
	{name: "exceptions", about: "a C++ program that throws", source: "exceptions.cc", size: 2500, small: 40, args: sized},
	luaWorkload,
	sqliteWorkload,
	xzWorkload,
	pythonWorkload,
	x264Workload,
	wcWorkload,
	perlWorkload,
	redisWorkload,
	cc1Workload,
	nodeWorkload,
	clangWorkload,
	compileWorkload,
}

// each is n functions of one letter and a number of so many digits, called
// equally often.
func each(letter string, n, digits int, calls uint64) counts {
	c := counts{}
	for i := range n {
		c[fmt.Sprintf("%s%0*d", letter, digits, i)] = calls
	}
	return c
}
