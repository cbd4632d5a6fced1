package launch

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// transfersOf is what the kernel has read and stored for a process, which may have ended, and for
// children that it has waited for (proc_pid_io(5)); the zero value if the kernel does not tell.
func transfersOf(pid int) (t layout.Transfers) {
	text, err := procfile.Read("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return t
	}
	for line := range bytes.Lines(text) {
		for name, to := range map[string]*uint64{"rchar": &t.Read, "wchar": &t.Written, "syscr": &t.ReadCalls, "syscw": &t.WriteCalls} {
			if value, is := bytes.CutPrefix(line, []byte(name+": ")); is {
				fmt.Sscan(string(value), to)
			}
		}
	}
	return t
}
