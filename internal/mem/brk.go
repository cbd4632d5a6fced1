package mem

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/procfile"
)

// SelfBrk is where brk(2) of this process starts.
func SelfBrk() (uint64, error) { return Brk("self") }

// Brk is where that of a process starts (proc_pid_stat(5), start_brk).
func Brk(pid string) (uint64, error) {
	const field = 47
	b, err := procfile.Read("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	words := procfile.FieldsOf(b) // from field 3 on
	if len(words) <= field-3 {
		return 0, fmt.Errorf("/proc/%s/stat has %d fields", pid, len(words)+2)
	}
	return strconv.ParseUint(string(words[field-3]), 10, 64)
}

// Lowest is the least address that mmap(2) gives.
func Lowest() uint64 {
	const usual = 64 << 10
	b, err := procfile.Read("/proc/sys/vm/mmap_min_addr")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return usual
	}
	return max(n, usual)
}
