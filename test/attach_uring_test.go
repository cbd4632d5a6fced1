package test

import (
	"fmt"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachUring: the kernel has threads of its own in a program that uses io_uring, which cannot
// make system calls for us; and what one of them waits for must not fail.
func TestAttachUring(t *testing.T) {
	lane.Parallel(t)
	for _, args := range [][]string{nil, {"poll"}} {
		t.Run(fmt.Sprint("with ", args), func(t *testing.T) {
			a := startAttached(t, append([]string{compile(t, need(t, "gcc"), []string{"-O1"}, "uring.c")}, args...)...)
			fmt.Fprintln(a.to, "begin")
			if a.line() != "waits" {
				t.Skip("no io_uring here")
			}
			for range 2 {
				table := a.attach()
				fmt.Fprintln(a.to, "call")
				a.expect("called")
				if n := readReport(t, table).calls(t, "work"); n != 1000 {
					t.Errorf("%d calls, not 1000", n)
				}
				a.detach()
			}
			fmt.Fprintln(a.to, "end")
			a.expect("1")
			a.ends()
		})
	}
}
