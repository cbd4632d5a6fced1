package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// compatibility is the matrix of what breaks under a profiler that lives in the
// program: a Go runtime there kills or hangs each of these. A row's name is that
// of the matrix first, then what is special. A disk that fills up later is in
// limits_noplace_test.go.
func (o *observer) compatibility(t *testing.T) []scene {
	user := []func(*testing.T){needsRoot}
	spaces := []func(*testing.T){needsNamespaces}
	const mount = "unshare -Urm sh -c 'mount "
	const then = " && exec \"$@\"' sh @ "
	uncached := []string{"DYNPROF_CACHE=0"} // plans of earlier starts would do
	other := "setpriv --reuid 65533 --regid 65533 --clear-groups "
	return []scene{
		{name: "signalfd", args: "OBSERVE waiting signalfd", calls: 2 * steps},
		{name: "sigwait", args: "OBSERVE waiting sigwait", calls: 2 * steps},
		{name: "sigtimedwait", args: "OBSERVE waiting sigtimedwait", calls: 2 * steps},

		{name: "unshare -U: counted", args: "unshare -U id -u", calls: uncertain},
		{name: "unshare -U: the call", args: "OBSERVE user-namespace", calls: 2 * steps, needs: spaces},
		{name: "user namespaces", args: "unshare -U @ OBSERVE process", needs: spaces, env: []string{"XDG_RUNTIME_DIR=" + t.TempDir()}}, // not nobody's in /tmp
		{name: "user namespaces: as root", args: "unshare -Ur @ OBSERVE undumpable", needs: spaces, calls: 14 * steps},
		{name: "setpriv: counted", args: other + "id", needs: user, calls: uncertain},
		{name: "setpriv: another user", args: other + "@ OBSERVE process", needs: user},
		{name: "setpriv: without capabilities", args: "setpriv --reuid 65533 --bounding-set=-all --no-new-privs @ OBSERVE limited", needs: user, calls: 25 * steps},
		{name: "raw setresuid", args: "OBSERVE rights", calls: 2 * steps, needs: user},

		{name: "seccomp strict", args: "OBSERVE strict", calls: 2 * steps},
		{name: "seccomp TSYNC: write and exit only", args: "OBSERVE sandbox", calls: 2 * steps},
		{name: "seccomp TSYNC: a thread", args: "OBSERVE sandbox-threads 1", calls: 6 * steps},
		{name: "seccomp TSYNC: 40 threads", args: "OBSERVE sandbox-threads 40", calls: 84 * steps},
		{name: "seccomp TSYNC: more threads than rows", args: "OBSERVE sandbox-threads 150", calls: 304 * steps},
		{name: "seccomp TSYNC: a crowd", args: "OBSERVE sandbox-crowd 300", calls: (1 + 4*300) * steps},
		{name: "seccomp TSYNC: a crowd that vforks", args: "OBSERVE sandbox-crowd 300 vfork", calls: (1 + 4*300) * steps},
		{name: "seccomp TSYNC: a crowd that vforks, and nobody tells its number", args: "OBSERVE sandbox-crowd 300 vfork-blind", calls: uncertain, missing: true},
		{name: "seccomp TSYNC: a crowd, and threads that are not made", args: "OBSERVE sandbox-crowd 300 refused", calls: (1 + 4*300) * steps},
		{name: "seccomp TSYNC: a crowd that is killed", args: "OBSERVE sandbox-crowd 300 killed", calls: uncertain, missing: true},
		{name: "seccomp TSYNC: a crowd that some end at once", args: "OBSERVE sandbox-crowd 300 exits", calls: (1 + 2*300) * steps},
		{name: "seccomp TSYNC: a crowd in a pid namespace", args: "OBSERVE sandbox-crowd 300 apart", needs: spaces, calls: (1 + 2*300) * steps},
		{name: "seccomp TSYNC: the kernel may be asked for threads", args: "OBSERVE sandbox-threads 150 probes", calls: 304 * steps},
		{name: "seccomp TSYNC: a filter that fails calls", args: "OBSERVE sandbox-threads 40 errno", calls: 84 * steps},
		{name: "seccomp TSYNC: a filter that is refused", args: "OBSERVE sandbox-threads 150 broken", calls: 304 * steps},
		{name: "seccomp TSYNC: a child", args: "OBSERVE sandbox-forks 1", calls: 2 * steps},
		{name: "seccomp TSYNC: 12 children", args: "OBSERVE sandbox-forks 12", calls: 13 * steps},
		{name: "seccomp TSYNC: more children than rows", args: "OBSERVE sandbox-brood 200", calls: (1 + 3*200) * steps},
		{name: "seccomp TSYNC: a child with threads and a child", args: "OBSERVE sandbox-family", calls: 9 * steps},
		{name: "seccomp TSYNC: while threads are made", args: "OBSERVE sandbox-races 20", calls: (1 + 20*48) * steps},
		{name: "seccomp by prctl", args: "OBSERVE sandbox-threads 40 prctl", calls: 84 * steps},
		{name: "seccomp TSYNC: another user", args: other + "@ OBSERVE sandbox-threads 20", needs: user, calls: 44 * steps},
		{name: "seccomp TSYNC: little address space", args: "prlimit --as=1000000000:1000000000 @ OBSERVE sandbox-threads 4", only: "preload", calls: 12 * steps},

		{name: "RLIMIT_AS", args: "prlimit --as=50000000:50000000 @ OBSERVE echo", only: "preload", refused: "resource limit", env: uncached},
		{name: "RLIMIT_AS: soft", args: "prlimit --as=50000000: @ OBSERVE echo", only: "preload", calls: 2 * steps},
		{name: "RLIMIT_AS: its own", args: "OBSERVE cramped", calls: 3 * steps},
		{name: "RLIMIT_NPROC=1", args: other + "prlimit --nproc=1 @ OBSERVE echo", needs: user, only: "preload", refused: "process limit"},
		{name: "RLIMIT_NPROC=1: its own", args: other + "@ OBSERVE one-process", needs: user, only: "preload", calls: 2 * steps},
		{name: "RLIMIT_NOFILE: 12", args: "prlimit --nofile=12:12 @ OBSERVE undumpable", calls: 14 * steps},
		{name: "RLIMIT_NOFILE: 4", args: "prlimit --nofile=4:4 @ OBSERVE undumpable", only: "preload", refused: "too many open files"},
		{name: "RLIMIT_NOFILE: 5", args: "prlimit --nofile=5:5 @ OBSERVE undumpable", only: "preload", refused: "too many open files", env: uncached},
		{name: "RLIMIT_FSIZE", args: "prlimit --fsize=0:0 @ OBSERVE limited", only: "preload", refused: "too large"},
		{name: "RLIMIT_FSIZE: soft", args: "prlimit --fsize=0: @ OBSERVE limited", only: "preload", calls: 25 * steps},
		{name: "RLIMIT_FSIZE: its own", args: "OBSERVE limited", calls: 25 * steps},
		{name: "RLIMIT_DATA", args: "prlimit --data=3000000:3000000 @ OBSERVE echo", only: "preload", refused: "resource limit", env: uncached},

		{name: "closefrom", args: "OBSERVE closing", calls: 4 * steps},
		{name: "PR_SET_DUMPABLE 0", args: "OBSERVE undumpable", calls: 14 * steps},
		{name: "chroot", args: "OBSERVE jail " + o.void, calls: 14 * steps, needs: user},
		{name: "no /proc", args: mount + "-t tmpfs none /proc" + then + "OBSERVE undumpable", needs: spaces, refused: "is /proc mounted?"},
		{name: "read-only file system", args: mount + "--bind TABLE TABLE && mount -o remount,ro,bind TABLE" + then + "OBSERVE undumpable", needs: spaces, refused: "read-only"},
		{name: "read-only file system: all but the table's", args: mount + "--bind TABLE TABLE && mount -o remount,ro,bind /" + then + "OBSERVE undumpable", needs: spaces, calls: 14 * steps, only: "preload"},
		{name: "full disk", args: mount + "-t tmpfs -o size=64k none TABLE && head -c 60000 /dev/zero >TABLE/fill" + then + "OBSERVE undumpable", needs: spaces, refused: "no space left"},

		{name: "waitpid(-1, ..., __WALL)", args: "OBSERVE process"},
		{name: "waitpid(-1, ..., __WALL): a child it did not make", args: "OBSERVE -with-child @ OBSERVE adopts", only: "preload", calls: 2 * steps},
		{name: "PID 1 of a pid namespace", args: "unshare -Urpf --mount-proc @ OBSERVE adopts", needs: spaces, only: "preload", calls: 2 * steps},
		{name: "PID 1 of a pid namespace is still to come", args: "unshare -Urp @ sh -c '/bin/true; echo $?'", needs: spaces, only: "preload", refused: "another pid namespace", env: uncached},
		{name: "PID 1 of a pid namespace: hotspots", args: "unshare -Urpf --mount-proc @ OBSERVE starts", needs: spaces, only: "run", calls: steps + 1},
		{name: "subreaper", args: "OBSERVE adopts", calls: 2 * steps},
		{name: "kill(0, ...)", args: "OBSERVE groups", calls: 2 * steps},
		{name: "kill(0, ...): a session of its own", args: "setsid -w @ OBSERVE groups", calls: 2 * steps},
		{name: "fork and clone by syscall()", args: "OBSERVE bare", calls: 5 * steps},

		{name: "gdb", args: "gdb -batch -nx -q -ex 'set startup-with-shell off' -ex 'set breakpoint pending on' -ex 'break await' -ex run -ex bt -ex delete -ex continue --args @ OBSERVE starts", only: "preload", calls: steps + 1, edit: gdbSaid},
		{name: "strace -f", args: "strace -f -o /dev/null @ OBSERVE starts", only: "preload", calls: steps + 1},
		{name: "strace -f: threads in a sandbox", args: "strace -f -o /dev/null @ OBSERVE sandbox-threads 5", only: "preload", calls: 14 * steps},
		{name: "vm overcommit off", args: "OBSERVE limited", needs: []func(*testing.T){needsNoOvercommit}, calls: 25 * steps},
		{name: "musl", args: o.musl(t), refused: "glibc", only: "preload", needs: []func(*testing.T){needsMusl}},
	}
}

// TestCompatibility: each row behaves as without the library, and is counted
// exactly, or not at all after a line that says why.
func TestCompatibility(t *testing.T) {
	lane.Parallel(t)
	o := buildObserver(t)
	o.play(t, o.compatibility(t))
}

// musl is a program of that C library, if it is here.
func (o *observer) musl(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("musl-gcc")
	if err != nil {
		return "true"
	}
	program := filepath.Join(o.dir, "musl")
	if err := os.Rename(compile(t, gcc, []string{"-O1"}, "transparent/other.c"), program); err != nil {
		t.Fatal(err)
	}
	return program
}

func needsMusl(t *testing.T) {
	t.Helper()
	need(t, "musl-gcc")
}

const overcommit = "/proc/sys/vm/overcommit_memory"

// needsNoOvercommit: the setting is the whole machine's, so a test leaves it,
// but for TestLongNoOvercommit.
func needsNoOvercommit(t *testing.T) {
	t.Helper()
	if now := strings.TrimSpace(read(t, overcommit)); now != "2" {
		t.Skipf("%s is %s here; DYNPROF_SYSCTL=1 make long runs it", overcommit, now)
	}
}

// gdbSaid leaves out what gdb tells of itself, of numbers and of addresses. With
// the library it comes by way of env.
func gdbSaid(out string) string {
	return regexp.MustCompile(`(?m)^(\[|Function "await" not defined|Breakpoint 1|process .* is executing new program|Using host |Setting ).*\n|0x[0-9a-f]+`).ReplaceAllString(out, "")
}
