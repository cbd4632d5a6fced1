// A Go program that loads libc: goroutines, growing stacks, garbage, panics
// that are faults, system calls, C. What it does does not depend on time.
package main

// #include <stdlib.h>
// static int twice(int n) { return 2 * n; }
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

type point struct{ x, y int }

//go:noinline
func (p *point) sum() int { return p.x + p.y }

//go:noinline
func leaf(n int) int { return n*3 + 1 }

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// deep needs more stack than a goroutine starts with: its prologue jumps back
// to its entry.
//
//go:noinline
func deep(n int) int {
	var room [64]int
	if n == 0 {
		return len(room)
	}
	room[n%64] = n
	return deep(n-1) + room[n%64] - n
}

//go:noinline
func recovered(p *point) (what string) {
	defer func() { what = fmt.Sprint(recover()) }()
	return fmt.Sprint(p.sum())
}

//go:noinline
func divide(a, b int) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return a / b, nil
}

// cold has the name that gcc gives to parts of functions.
//
//go:noinline
func cold(n int) int { return n ^ 5 }

// callers names the functions on its stack, as the runtime finds them.
//
//go:noinline
func callers(n int) []string {
	if n > 0 {
		return callers(n - 1)
	}
	pcs := make([]uintptr, 20)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	var names []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, fmt.Sprint(f.Function, ":", f.Line))
	}
	return names
}

//go:noinline
func answer(n int) int { return n*2 + 40 }

//go:noinline
func other(n int) int { return n + 1000 }

//go:noinline
func asks(n int) int { return answer(n) - n }

// replace writes a jump to another function over answer's entry, as libraries for
// tests do, and returns what puts the old bytes back.
func replace(to func(int) int) func() {
	at := reflect.ValueOf(answer).Pointer()
	jump := []byte{0x48, 0xba, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x22} // mov $to,%rdx; jmp *(%rdx)
	*(*uintptr)(unsafe.Pointer(&jump[2])) = *(*uintptr)(unsafe.Pointer(&to))
	write := func(from []byte) []byte {
		text := func(at uintptr, n int) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(at)), n) }
		pages := text(at&^4095, 8192)
		if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
			panic(err)
		}
		old := append([]byte(nil), text(at, len(from))...)
		copy(text(at, len(from)), from)
		if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
			panic(err)
		}
		return old
	}
	old := write(jump)
	return func() { write(old) }
}

// dies ends the program by a fault, and the runtime tells where.
//
//go:noinline
func dies(p *point) { fmt.Println(p.sum()) }

func main() {
	if len(os.Args) > 1 {
		dies(nil)
	}
	fmt.Println(cold(1)+cold(2), callers(3))
	fmt.Println("fib", fib(22), "deep", deep(5000), "C", C.twice(21))
	fmt.Println(recovered(&point{1, 2}), recovered(nil))
	fmt.Println(divide(7, 0))
	before, restore := asks(1), replace(other)
	fmt.Print("asks ", before, " ", asks(1))
	restore()
	fmt.Println("", asks(1))
	n := 0
	for i := range 100_000 {
		n += leaf(i)
	}
	fmt.Println("leaf", n)

	var wg sync.WaitGroup
	sums := make([]int, 200)
	for i := range sums {
		wg.Add(1)
		go func() {
			defer wg.Done()
			sums[i] = deep(i*3) + fib(10)
			runtime.Gosched()
			sums[i] += len(strings.Repeat("garbage ", i))
		}()
	}
	wg.Wait()
	runtime.GC()
	words := strings.Fields(strings.Repeat("the quick brown fox jumps over the lazy dog ", 500))
	counts := map[string]int{}
	for _, w := range words {
		counts[w]++
	}
	sort.Strings(words)
	fmt.Println(sums[199], counts["the"], words[0], words[len(words)-1])
	if _, err := os.ReadFile("/nowhere"); err != nil {
		fmt.Println(err)
	}
	defer fmt.Println("deferred")
	var m map[string]int
	fmt.Println(func() (s string) {
		defer func() { s = fmt.Sprint(recover()) }()
		m["x"] = 1
		return "?"
	}())
}
