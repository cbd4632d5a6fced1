package doctor

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

var checks = []func(*Machine) []Finding{
	glibc, library, tables, seccomp, writeExecute, selinux, limits, overcommit,
	perfEvents, ptrace, hiddenProc, debugFiles, debugger,
}

// needed is the oldest glibc that the library runs with.
const needed = 34

// glibc looks at the C library that programs start with.
func glibc(m *Machine) []Finding {
	version := regexp.MustCompile(`version 2\.(\d+)`).FindStringSubmatch(m.GlibC())
	if version == nil {
		return []Finding{{Fatal, "glibc: no /lib64/ld-linux-x86-64.so.2 that tells its version",
			"programs of musl, and static ones, are counted from outside only: no trips, traps, translators", "count in a container or chroot with glibc 2.34 or newer"}}
	}
	if n, err := strconv.Atoi(version[1]); err != nil || n < needed {
		return []Finding{{Fatal, "glibc 2." + version[1], "2.34 is the oldest that can be counted: programs run uncounted", "count on a newer system, or in a container of one"}}
	}
	return []Finding{fine("glibc 2." + version[1])}
}

// library looks at where the library is for programs to preload.
func library(m *Machine) []Finding {
	path, err := m.Library()
	if err != nil {
		return []Finding{{Fatal, "library: " + err.Error(), "programs run uncounted", "set XDG_CACHE_HOME to a directory of yours that is not mounted noexec, or build with make"}}
	}
	return []Finding{fine("library: " + path)}
}

// roomy is how much room tables shall have: one of a large program takes some 10 MB.
const roomy = 64 << 20

// tables looks at the directory of tables.
func tables(m *Machine) []Finding {
	room, err := m.Room(m.Tables)
	switch {
	case err != nil:
		return []Finding{{Fatal, fmt.Sprintf("tables: %s: %v", m.Tables, err), "without -o there is no place for tables, and nothing is counted", "set XDG_RUNTIME_DIR to a directory of yours, or use -o FILE"}}
	case room < roomy:
		return []Finding{{Limit, fmt.Sprintf("tables: %s has %d MiB left", m.Tables, room>>20), "threads and libraries for which there is no room are not counted", "hotspots prune --older-than 0s, or -o FILE elsewhere"}}
	}
	return []Finding{fine("tables: " + m.Tables)}
}

// status is a number of /proc/self/status; -1 if it is not there.
func (m *Machine) status(name string) int {
	b, _ := m.Read("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
				return n
			}
		}
	}
	return -1
}

// number is what a file of /proc/sys or /sys says; ok is false if it says nothing.
func (m *Machine) number(path string) (n int, ok bool) {
	b, err := m.Read(path)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

func seccomp(m *Machine) []Finding {
	const filtered = 2
	if m.status("Seccomp") != filtered {
		return nil
	}
	return []Finding{{Limit, "seccomp: a filter is on, as in most containers", "what it forbids dynprof does without: hotspots selftest shows whether all can be counted; perf events are mostly among it", "none needed if selftest is content; else run the container with --security-opt seccomp=unconfined"}}
}

func writeExecute(m *Machine) []Finding {
	const prGetMDWE = 66
	if m.Prctl(prGetMDWE) <= 0 {
		return nil
	}
	return []Finding{fine("memory-deny-write-execute (PR_SET_MDWE) is on: counting works with it")}
}

func selinux(m *Machine) []Finding {
	if on, ok := m.number("/sys/fs/selinux/enforce"); !ok || on != 1 {
		return nil
	}
	return []Finding{{Limit, "SELinux enforces its policy", "programs of confined domains may be denied execmem, execmod or the table, and run uncounted", "ausearch -m avc shows what; allow it for the domain, or count elsewhere"}}
}

// least is what hotspots itself and the planner must have (docs/limits.md).
var least = []atLeast{
	{syscall.RLIMIT_AS, "-v", "LimitAS", "address space", 768 << 20, "programs run uncounted"},
	{syscall.RLIMIT_DATA, "-d", "LimitDATA", "data", 96 << 20, "programs run uncounted"},
	{limitProcesses, "-u", "LimitNPROC", "processes", 16, "programs run uncounted"},
	{syscall.RLIMIT_NOFILE, "-n", "LimitNOFILE", "descriptors", 64, "starts are slower, and below 5 uncounted"},
	{syscall.RLIMIT_FSIZE, "-f", "LimitFSIZE", "file size", 1 << 30, "tables have less room for threads, and for libraries that are loaded later"},
}

const limitProcesses = 6 // RLIMIT_NPROC, which package syscall has not

type atLeast struct {
	resource           int
	option, unit, what string
	need               uint64 // bytes, or a number
	effect             string
}

// shown is a value of the limit in the unit of ulimit.
func (l *atLeast) shown(value uint64) uint64 {
	if l.resource == limitProcesses || l.resource == syscall.RLIMIT_NOFILE {
		return value
	}
	return value >> 10
}

func limits(m *Machine) (all []Finding) {
	for _, l := range least {
		soft, known := m.Limit(l.resource)
		if known && soft != math.MaxUint64 && soft < l.need {
			all = append(all, Finding{Limit, fmt.Sprintf("ulimit %s: %s is limited to %d", l.option, l.what, l.shown(soft)), l.effect, fmt.Sprintf("ulimit %s %d or more; of a service %s=", l.option, l.shown(l.need), l.unit)})
		}
	}
	if all == nil {
		all = []Finding{fine("limits of this shell (ulimit)")}
	}
	return all
}

func overcommit(m *Machine) []Finding {
	const strict = 2
	if n, ok := m.number("/proc/sys/vm/overcommit_memory"); !ok || n != strict {
		return nil
	}
	return []Finding{{Limit, "vm.overcommit_memory=2", "memory that a program reserves counts: large programs may find none for their counting code", "sysctl vm.overcommit_memory=0"}}
}

func perfEvents(m *Machine) []Finding {
	const user = 2 // what every user may measure of programs of their own
	n, ok := m.number("/proc/sys/kernel/perf_event_paranoid")
	switch {
	case !ok:
		return []Finding{{Limit, "kernel without perf events", "calls are counted; CPU time is not sampled", ""}}
	case n > user && m.Uid != 0:
		return []Finding{{Limit, fmt.Sprintf("kernel.perf_event_paranoid=%d", n), "calls are counted; CPU time is not sampled, and perf sees nothing", "sysctl kernel.perf_event_paranoid=2"}}
	}
	return []Finding{fine(fmt.Sprintf("kernel.perf_event_paranoid=%d", n))}
}

func ptrace(m *Machine) []Finding {
	n, ok := m.number("/proc/sys/kernel/yama/ptrace_scope")
	if !ok || n == 0 || n == 1 && m.Uid == 0 || n == 2 && m.Uid == 0 {
		return nil
	}
	return []Finding{{Limit, fmt.Sprintf("kernel.yama.ptrace_scope=%d", n), "counting needs no ptrace; hotspots gdb -p PID is refused", "sysctl kernel.yama.ptrace_scope=0, or run gdb as root"}}
}

func hiddenProc(m *Machine) []Finding {
	if m.Uid == 0 || m.Exists("/proc/1/status") {
		return nil
	}
	return []Finding{{Limit, "/proc is mounted with hidepid, or is not there", "programs of other users are not seen: hotspots serve --all-users needs root", "mount -o remount,hidepid=0 /proc"}}
}

func debugFiles(m *Machine) []Finding {
	if m.Exists("/usr/lib/debug/.build-id") || m.Getenv("DEBUGINFOD_URLS") != "" {
		return []Finding{fine("debug files: /usr/lib/debug or DEBUGINFOD_URLS")}
	}
	return []Finding{{Limit, "no debug files in /usr/lib/debug", "functions of stripped programs have no names or source lines: lua5.4+0x8870; hotspots show helps to guess", "install the -dbgsym packages of what you count (https://wiki.debian.org/HowToGetABacktrace)"}}
}

func debugger(m *Machine) []Finding {
	for dir := range strings.SplitSeq(m.Getenv("PATH"), ":") {
		if dir != "" && m.Exists(dir+"/gdb") {
			return nil
		}
	}
	return []Finding{{Limit, "no gdb in PATH", "hotspots gdb cannot run; nothing else needs it", "apt-get install gdb"}}
}
