package mem

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/dynprof/dynprof/internal/procfile"
)

// SelfBrk is where brk(2) of this process starts (proc_pid_stat(5), start_brk).
func SelfBrk() (uint64, error) {
	const field = 47
	b, err := procfile.Read("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // from field 3 on
	if len(words) <= field-3 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields", len(words)+2)
	}
	return strconv.ParseUint(string(words[field-3]), 10, 64)
}
