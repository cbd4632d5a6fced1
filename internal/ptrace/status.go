package ptrace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/procfile"
)

// Status is what /proc/PID/status tells of a process, or of a thread of it.
type Status struct {
	Name     string
	State    byte
	Group    int    // the number of its process
	TracerID int    // the thread that traces it; 0: nobody does
	Numbers  []int  // its number in each pid namespace that it is seen from, its own last
	Seccomp  int    // mode
	Locked   uint64 // kB
	UID, GID int    // effective
	Shadow   bool   // it has a shadow stack
	// Signals that wait, for the thread and its process, that are blocked, and that handlers
	// are for: bit N-1 for signal N.
	Pending, Blocked, Caught uint64
}

// ReadStatus reads that of a thread.
func ReadStatus(pid, tid int) (*Status, error) {
	b, err := procfile.Read(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	if err != nil {
		return nil, err
	}
	return parseStatus(b), nil
}

func parseStatus(b []byte) *Status {
	s := &Status{UID: -1, GID: -1}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimLeft(value, "\t ")
		words := strings.Fields(value)
		first := ""
		if len(words) > 0 {
			first = words[0]
		}
		number, _ := strconv.Atoi(first)
		set, _ := strconv.ParseUint(first, 16, 64)
		switch name {
		case "Name":
			s.Name = value
		case "State":
			if first != "" {
				s.State = first[0]
			}
		case "Tgid":
			s.Group = number
		case "TracerPid":
			s.TracerID = number
		case "NSpid":
			for _, w := range words {
				n, _ := strconv.Atoi(w)
				s.Numbers = append(s.Numbers, n)
			}
		case "Seccomp":
			s.Seccomp = number
		case "x86_Thread_features":
			s.Shadow = slices.Contains(words, "shstk")
		case "VmLck":
			s.Locked = uint64(number)
		case "Uid", "Gid":
			if len(words) > 1 {
				number, _ = strconv.Atoi(words[1])
				if name == "Uid" {
					s.UID = number
				} else {
					s.GID = number
				}
			}
		case "SigPnd", "ShdPnd":
			s.Pending |= set
		case "SigBlk":
			s.Blocked = set
		case "SigCgt":
			s.Caught = set
		}
	}
	return s
}
