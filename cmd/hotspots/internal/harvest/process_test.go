package harvest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// TestProcess: page faults are those since the process was last looked at, whatever its name is,
// and of no other that has got its number.
func TestProcess(t *testing.T) {
	stat := func(minor, major, threads, started, resident int) []byte {
		return fmt.Appendf(nil, "7 (a) R 1 (b)) S 1 7 7 0 -1 4194304 %d 99 %d 98 5 6 0 0 20 0 %d 0 %d 1000000 %d 18446744073709551615 1 1", minor, major, threads, started, resident)
	}
	var p process
	for i, row := range []struct {
		stat []byte
		want heat.Slice
	}{
		{stat(100, 3, 1, 50, 700), heat.Slice{Minor: 100, Major: 3, Threads: 1, Resident: 700}},
		{stat(150, 3, 4, 50, 800), heat.Slice{Minor: 50, Threads: 4, Resident: 800}},
		{stat(150, 3, 4, 50, 800)[:40], heat.Slice{Threads: 4, Resident: 800}},
		{stat(160, 4, 1, 50, 0), heat.Slice{Minor: 10, Major: 1, Threads: 4, Resident: 800}}, // it has ended
		{stat(900, 9, 9, 51, 9), heat.Slice{Threads: 4, Resident: 800}},                      // another
		{nil, heat.Slice{Threads: 4, Resident: 800}},
	} {
		var s heat.Slice
		p.add(row.stat, &s)
		p.look(0, &s)
		if s.Minor != row.want.Minor || s.Major != row.want.Major || s.Threads != row.want.Threads || s.Resident != row.want.Resident {
			t.Errorf("%d: %+v, not %+v", i, s, row.want)
		}
	}
	var own process
	var s heat.Slice
	if own.look(int32(os.Getpid()), &s); s.Minor == 0 || s.Threads < 2 || s.Resident < 100 {
		t.Errorf("of this process: %+v", s)
	}
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	s = heat.Slice{}
	own.look(int32(c.Process.Pid), &s)
	if s.Minor != 0 || s.Threads < 2 {
		t.Errorf("of one that is gone: %+v", s)
	}
}
