package test

import (
	"fmt"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestAttachClosed: what lies where text of a library was that the program has closed while it
// was counted stays as it is when it is detached from; and what is left of a text is given back.
func TestAttachClosed(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	program := compile(t, gcc, []string{"-O1"}, "attachclosed.c")
	library := compile(t, gcc, []string{"-O1", "-shared", "-fPIC", "-DLIBRARY"}, "attachclosed.c")
	for _, row := range lane.Some([]struct{ how, may, behind string }{
		{"data", "rw-p", "0"},
		{"part", "r-xp", "6"},
		{"none", "---p", "0"},
		{"file", "r--p", "0"},
	}, 0, 1) {
		t.Run(row.how, func(t *testing.T) {
			a := startAttached(t, program, library, row.how)
			does := func(what, want string) {
				t.Helper()
				fmt.Fprintln(a.to, what)
				a.expect(want)
			}
			table := a.attach()
			does("call", "6")
			does("change", row.behind)
			a.detach()
			does("may", row.may)
			does("use", row.behind)
			made := uint64(1)
			if row.how == "part" {
				made = 2
			}
			if n := readReport(t, table).late(library, "closed_second"); n != made {
				t.Errorf("closed_second: %d calls, not %d", n, made)
			}
			fmt.Fprintln(a.to, "end")
			a.ends()
		})
	}
}

// TestAttachNoVDSO: who is attached to may have no vdso any more where it was at its start, as
// valgrind's tools have none. (Where there is a dynamic linker it is said that its list is wrong.)
func TestAttachNoVDSO(t *testing.T) {
	lane.Parallel(t)
	gcc := need(t, "gcc")
	for _, how := range []string{"unmapped", "moved"} {
		t.Run(how, func(t *testing.T) {
			a := startAttached(t, compile(t, gcc, []string{"-O1", "-static"}, "novdso.c"), how)
			table := a.attach("--threshold", "10")
			fmt.Fprintln(a.to, "call")
			a.line()
			if n := readReport(t, table).calls(t, "work"); n != 1000 {
				t.Errorf("%d calls, not 1000", n)
			}
			a.detach()
			fmt.Fprintln(a.to, "end")
			a.ends()
		})
	}
}
