package test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachApart: a handler may leave the stack of who was interrupted, and come back to it when the
// program was attached to, or detached from, meanwhile: nothing leads to that stack. By the program's
// own restorer it returns to our code, which stays as long.
func TestAttachApart(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, how := range lane.Some([][]string{{"-O1"}, {"-O1", "-static"}, {"-O1", "own"}}, 0, 2) {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			var arguments []string
			if n := len(how) - 1; how[n] == "own" {
				how, arguments = how[:n], how[n:]
			}
			a := startAttached(t, append([]string{compile(t, gcc, how, "attachapart.c")}, arguments...)...)
			does := func(what, want string) {
				t.Helper()
				fmt.Fprintln(a.to, what)
				a.expect(want)
			}
			fmt.Fprintln(a.to, "where")
			at, err := strconv.ParseInt(a.line(), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			memory, err := os.Open("/proc/" + a.pid() + "/mem")
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			code := func() []byte {
				b := make([]byte, 8)
				if _, err := memory.ReadAt(b, at); err != nil {
					t.Fatal(err)
				}
				return b
			}
			before := code()

			own := arguments != nil // then what a fault's handler has interrupted is not changed
			if !own {
				does("leave", "3")
			}
			table := a.attach()
			if !own {
				does("return", "30")
			}
			does("leave", "3")
			ended := make(chan result, 1)
			go func() { ended <- a.hotspots("detach") }()
			for until := time.Now().Add(patience); !bytes.Equal(code(), before) && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			var r result
			select {
			case r = <-ended:
				if own {
					t.Errorf("detach is through while handlers are to return: status %d: %s", r.status, r.stderr)
				}
				does("return", "30")
			case <-time.After(200 * time.Millisecond): // our code must not be unmapped yet; it is a while later, if it is
				does("return", "30")
				r = <-ended
			}
			if r.status != 0 {
				t.Errorf("detach: status %d: %s", r.status, r.stderr)
			}
			does("leave", "3")
			does("return", "30")
			if n := readReport(t, table).calls(t, "faults"); n != 3 {
				t.Errorf("%d calls, not 3", n)
			}
			fmt.Fprintln(a.to, "end")
			a.ends()
		})
	}
}
