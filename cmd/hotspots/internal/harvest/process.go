package harvest

import (
	"strconv"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/heat"
)

// process is what the kernel says of the program's first process: of others that it has forked
// nothing.
type process struct {
	started                         uint64 // when it was, of that which was looked at first: numbers are used again
	minor, major, threads, resident uint64
}

// Fields of /proc/PID/stat (proc_pid_stat(5)), counted from the one behind the name.
const (
	fieldMinor    = 10 - 3
	fieldMajor    = 12 - 3
	fieldThreads  = 20 - 3
	fieldStarted  = 22 - 3
	fieldResident = 24 - 3
)

// look adds to a slice what has happened to a process since it was last looked at, and how it is.
func (p *process) look(pid int32, s *heat.Slice) {
	if pid != 0 {
		b, err := procfile.Read("/proc/" + strconv.Itoa(int(pid)) + "/stat")
		if err == nil {
			p.add(b, s)
		}
	}
	s.Resident, s.Threads = p.resident, p.threads
}

func (p *process) add(stat []byte, s *heat.Slice) {
	fields := procfile.FieldsOf(stat)
	if len(fields) <= fieldResident {
		return
	}
	ok := true
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(string(fields[i]), 10, 64)
		ok = ok && err == nil
		return n
	}
	now := process{number(fieldStarted), number(fieldMinor), number(fieldMajor), number(fieldThreads), number(fieldResident)}
	if !ok || p.started != 0 && p.started != now.started {
		return
	}
	s.Minor, s.Major = now.minor-min(p.minor, now.minor), now.major-min(p.major, now.major)
	if now.resident == 0 { // it has ended
		now.resident, now.threads = p.resident, p.threads
	}
	*p = now
}
