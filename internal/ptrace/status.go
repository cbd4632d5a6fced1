package ptrace

import (
	"bytes"
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
	UID      int    // effective
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

// ThreadOf is the number here of a process's thread, of which that is known by which the process
// sees it, in its own namespace.
func ThreadOf(pid, own int) (int, error) {
	tids, err := tasks(pid)
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if s, err := ReadStatus(pid, tid); err == nil && len(s.Numbers) > 0 && s.Numbers[len(s.Numbers)-1] == own {
			return tid, nil
		}
	}
	return 0, fmt.Errorf("process %d has no thread %d", pid, own)
}

// parseStatus is called for each of many threads while they are stopped: it looks at no more
// than it needs.
func parseStatus(b []byte) *Status {
	s := &Status{UID: -1}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte("\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		s.set(string(name), bytes.TrimLeft(value, "\t "))
	}
	return s
}

func (s *Status) set(name string, value []byte) {
	word := func(i int) string {
		if words := bytes.Fields(value); i < len(words) {
			return string(words[i])
		}
		return ""
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(word(i))
		return n
	}
	switch name {
	case "Name":
		s.Name = string(value)
	case "State":
		if len(value) > 0 {
			s.State = value[0]
		}
	case "Tgid":
		s.Group = number(0)
	case "TracerPid":
		s.TracerID = number(0)
	case "NSpid":
		for i := range bytes.Fields(value) {
			s.Numbers = append(s.Numbers, number(i))
		}
	case "Seccomp":
		s.Seccomp = number(0)
	case "x86_Thread_features":
		s.Shadow = slices.Contains(strings.Fields(string(value)), "shstk")
	case "VmLck":
		s.Locked = uint64(number(0))
	case "Uid":
		if word(1) != "" {
			s.UID = number(1)
		}
	case "SigPnd", "ShdPnd", "SigBlk", "SigCgt":
		set, _ := strconv.ParseUint(word(0), 16, 64)
		switch name {
		case "SigBlk":
			s.Blocked = set
		case "SigCgt":
			s.Caught = set
		default:
			s.Pending |= set
		}
	}
}

// IsKernels reports whether a /proc/PID/stat is of the kernel itself: who is about to end has
// no executable any more, either.
func IsKernels(stat []byte) bool {
	const flags, kthread = 6, 0x200000 // the field, from the state on; PF_KTHREAD
	fields := procfile.FieldsOf(stat)
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && n&kthread != 0
}
