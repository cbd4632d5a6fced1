// Signals find this program everywhere: it is profiled and preempted while it
// calls functions whose loops come back right behind the entry.
package main

import "C" // for a dynamic program

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
)

var table [2]uint32

// fill's loop comes back right behind its entry, and it is too long to move
// whole: its entry hops to an island.
//
//go:noinline
func fill() {
	i := 0
	for {
		x := uint32(i)
		x = x*1664525 + 1013904223 ^ x>>3
		x = x*1664525 + 1013904223 ^ x>>5
		x = x*1664525 + 1013904223 ^ x>>7
		x = x*1664525 + 1013904223 ^ x>>9
		x = x*1664525 + 1013904223 ^ x>>11
		x = x*1664525 + 1013904223 ^ x>>13
		x = x*1664525 + 1013904223 ^ x>>15
		x = x*1664525 + 1013904223 ^ x>>17
		x = x*1664525 + 1013904223 ^ x>>19
		x = x*1664525 + 1013904223 ^ x>>21
		x = x*1664525 + 1013904223 ^ x>>2
		x = x*1664525 + 1013904223 ^ x>>4
		x = x*1664525 + 1013904223 ^ x>>6
		x = x*1664525 + 1013904223 ^ x>>8
		x = x*1664525 + 1013904223 ^ x>>10
		x = x*1664525 + 1013904223 ^ x>>12
		x = x*1664525 + 1013904223 ^ x>>14
		x = x*1664525 + 1013904223 ^ x>>16
		x = x*1664525 + 1013904223 ^ x>>18
		table[i&1] += x
		if i++; i == 2 {
			return
		}
	}
}

func main() {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	runtime.SetCPUProfileRate(5000)
	pprof.StartCPUProfile(io.Discard) // says that there is a rate already
	go func() {
		for {
			runtime.GC()
		}
	}()
	for range n {
		fill()
	}
	pprof.StopCPUProfile()
	fmt.Println(table)
}
