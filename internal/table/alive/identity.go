package alive

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// SameKernel reports whether this kernel, since this boot, ran the process.
func SameKernel(id *layout.Identity) bool {
	boot := bootID()
	return boot != [16]byte{} && boot == id.BootID
}

// SamePidNS reports whether the numbers of processes that the process saw are those
// that we see.
func SamePidNS(id *layout.Identity) bool { return id.PidNS != 0 && id.PidNS == pidNamespace("self") }

// Identify returns what tells process pid from every other, as far as /proc
// says; what it does not say is zero.
func Identify(pid int) layout.Identity {
	id := layout.Identity{
		Pid:        uint32(pid),
		UID:        uint32(os.Getuid()),
		StartTicks: Start(uint32(pid)),
		BootID:     bootID(),
		PidNS:      pidNamespace(strconv.Itoa(pid)),
	}
	id.Realtime, id.Monotonic = time.Now(), monotonic()
	return id
}

// Start is the start time of a living process in clock ticks since
// boot; 0 if there is none, or only its corpse. Of one whose first thread has ended the
// kernel says that it is a zombie, as long as others go on.
func Start(pid uint32) uint64 {
	b, err := procfile.Read(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := procfile.FieldsOf(b)
	if len(fields) < 20 {
		return 0
	}
	threads, _ := strconv.Atoi(string(fields[17])) // field 20 of the line; the zombie is one of them
	if (string(fields[0]) == "Z" || string(fields[0]) == "X") && threads <= 1 {
		return 0
	}
	start, _ := strconv.ParseUint(string(fields[19]), 10, 64) // field 22
	return start
}

// runsBelow reports whether the process lives in a pid namespace below ours, as in a container:
// there it has the number that the identity has, and its start is that of all.
func runsBelow(id *layout.Identity) bool {
	if id.StartTicks == 0 || SamePidNS(id) {
		return false
	}
	all, _ := os.ReadDir("/proc") // who cannot be seen is not known to live
	for _, e := range all {
		pid, err := strconv.ParseUint(e.Name(), 10, 32)
		if err == nil && Start(uint32(pid)) == id.StartTicks && pidNamespace(e.Name()) == id.PidNS {
			return true
		}
	}
	return false
}

func bootID() (id [16]byte) {
	b, err := procfile.Read("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	hex := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	for i := range id {
		n, err := strconv.ParseUint(hex[min(len(hex), 2*i):min(len(hex), 2*i+2)], 16, 8)
		if err != nil {
			return [16]byte{}
		}
		id[i] = byte(n)
	}
	return id
}

func pidNamespace(pid string) uint64 {
	fi, err := os.Stat("/proc/" + pid + "/ns/pid")
	if err != nil {
		return 0
	}
	return fi.Sys().(*syscall.Stat_t).Ino
}
