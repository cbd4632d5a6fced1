// A small function is looked for in the program's own CPU profile, until it is there.
package main

import "C" // for a dynamic program

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

//go:noinline
func hog(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

var sum uint64

// profiled reports whether a profile of so many calls names the function.
func profiled(calls int) bool {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		panic(err)
	}
	for range calls {
		sum = hog(sum + 1)
	}
	pprof.StopCPUProfile()
	z, err := gzip.NewReader(&profile)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return bytes.Contains(text, []byte("main.hog"))
}

func main() {
	for range 20 {
		if profiled(50_000_000) {
			return
		}
	}
	fmt.Println("main.hog is in no profile")
	os.Exit(1)
}
