// A Go program that does what Go programs do, while garbage is collected without a pause, and
// knows its calls. With a number it does so many pieces of work, prints what comes of them, and
// on stderr its calls, a line NAME CALLS each. Else it works until its stdin ends, and is spoken
// to there as attached.c is.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

var leaves, tinies, deeps, ints, texts, closures, panicked, worked, served, pinned atomic.Uint64

func calls(w io.Writer) {
	for _, c := range []struct {
		name string
		n    *atomic.Uint64
	}{
		{"main.leaf", &leaves}, {"main.tiny", &tinies}, {"main.deep", &deeps}, {"main.largest[go.shape.int]", &ints}, {"main.largest[go.shape.string]", &texts},
		{"main.adder.func1", &closures}, {"main.panics", &panicked}, {"main.work", &worked}, {"main.handler.ServeHTTP", &served}, {"main.ends", &pinned},
	} {
		fmt.Fprintln(w, c.name, c.n.Load())
	}
}

// leaf has no frame, and its loop comes back right behind its entry.
//
//go:noinline
func leaf(x uint64) uint64 {
	for x&7 != 0 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x >> 3
}

//go:noinline
func tiny(x uint64) uint64 { return x + 1 }

// deep has its goroutine's stack moved.
//
//go:noinline
func deep(n int) int {
	var room [256]byte
	room[n&255] = byte(n)
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n&255]&1)
}

//go:noinline
func largest[T ~int | ~string](all ...T) (m T) {
	for _, v := range all {
		m = max(m, v)
	}
	return m
}

//go:noinline
func adder(k int) func(int) int { return func(n int) int { return n + k } }

type square struct{ side int }

func (s *square) area() int { return s.side * s.side }

//go:noinline
func panics(k int) (err error) {
	defer func() { err = fmt.Errorf("%v", recover()) }()
	switch k % 3 {
	case 0:
		var s *square
		return errors.New(strconv.Itoa(s.area()))
	case 1:
		var none []int
		return errors.New(strconv.Itoa(none[k]))
	}
	panic("k")
}

//go:noinline
func work(k int) int {
	const few = 50
	words := map[string]int{}
	for i := range few {
		words[strconv.Itoa(i)] += i * k
	}
	f, sum := adder(k), 0
	for _, v := range words {
		sum += f(v)
	}
	closures.Add(few)
	depth := 20 + k%200
	sum += deep(depth)
	deeps.Add(uint64(depth) + 1)
	sum += largest(1, 2, k)
	ints.Add(1)
	sum += len(largest("a", "b", strconv.Itoa(k)))
	texts.Add(1)
	sum += len(panics(k).Error())
	panicked.Add(1)
	x := uint64(k)
	for range 100 {
		x = leaf(x) + tiny(x)
	}
	leaves.Add(100)
	tinies.Add(100)
	worked.Add(1)
	return sum + int(x&1)
}

type handler struct{}

//go:noinline
func (handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	served.Add(1)
	fmt.Fprintf(w, "%s %d", r.URL.Path, deep(100))
	deeps.Add(101)
}

// ends has a thread end with its goroutine.
//
//go:noinline
func ends() { runtime.LockOSThread() }

// asks asks itself over a socket.
func asks(address string, k int) string {
	r, err := http.Get(fmt.Sprintf("http://%s/%d", address, k))
	if err != nil {
		panic(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// some is one piece of work.
func some(address string, k int) string {
	said := fmt.Sprint(k, work(k))
	if k%16 == 0 {
		said += " " + asks(address, k)
	}
	if k%64 == 0 {
		out, err := exec.Command("/bin/echo", "child").CombinedOutput()
		said += fmt.Sprint(" ", string(out[:5]), err)
	}
	if k%32 == 0 {
		through := make(chan struct{})
		go func() { defer close(through); ends() }()
		<-through
		pinned.Add(1)
	}
	return said
}

// quiet is held by who works.
var quiet sync.RWMutex

// pool has workers do what comes, until there is no more, and passes on what comes of it.
func pool(address string, pieces <-chan int, results chan<- string) {
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for k := range pieces {
				quiet.RLock()
				s := some(address, k)
				quiet.RUnlock()
				results <- s
			}
		}()
	}
	all.Wait()
	close(results)
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(l, handler{})
	go func() {
		for {
			runtime.GC()
		}
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	<-signals
	pieces, results := make(chan int), make(chan string, 16)
	go pool(l.Addr().String(), pieces, results)
	if len(os.Args) > 1 {
		runs(pieces, results)
		return
	}
	go func() {
		for k := 0; ; k++ {
			pieces <- k % 1000
		}
	}()
	said := [1000]string{}
	wrong := atomic.Int32{}
	go func() {
		for s := range results {
			k := 0
			fmt.Sscan(s, &k)
			if said[k] != "" && said[k] != s {
				wrong.Add(1)
			}
			said[k] = s
		}
	}()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "quiet":
			quiet.Lock()
			calls(os.Stdout)
			fmt.Println(".")
		case "go":
			quiet.Unlock()
			fmt.Println("gone")
		case "end":
			fmt.Println("wrong", wrong.Load(), "interrupted", 0)
			return
		}
	}
}

// runs does so many pieces of work as an argument says.
func runs(pieces chan<- int, results <-chan string) {
	n, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	go func() {
		for k := range n {
			pieces <- k
		}
		close(pieces)
	}()
	said := make([]string, n)
	for s := range results {
		var k int
		fmt.Sscan(s, &k)
		said[k] = s
	}
	for _, s := range said {
		fmt.Println(s)
	}
	calls(os.Stderr)
	os.Exit(7)
}
