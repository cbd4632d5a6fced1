package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dynprof/dynprof/internal/lane"
)

// Accesses that are recorded where something is wrong with who takes them, and where a program
// forbids itself what waiting for it needs.

const unreadTable = 251 // bytes that testdata/regionsunread.c touches in turn

func buildUnread(t *testing.T) string {
	return compile(t, need(t, "gcc"), []string{"-O2", "-I../libdynprof", "-Wall", "-Wextra", "-Werror"}, "regionsunread.c")
}

// recordedOf is what hotspots regions says, also where accesses were lost.
func recordedOf(t *testing.T, table string) (l regionList) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "regions", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &l); r.status != 0 || err != nil || len(l.Regions) != 1 {
		t.Fatalf("%+v: %v", r, err)
	}
	return l
}

// allByTurns reports accesses that do not follow each other as the program made them.
func allByTurns(t *testing.T, table string, l *regionList) {
	t.Helper()
	all := accessesOf(t, table, l)
	if uint64(len(all)) != l.Total.Records && l.Total.Ended {
		t.Errorf("%d records, and %d are told", len(all), l.Total.Records)
	}
	for i, a := range all {
		if want := fmt.Sprintf("1 %d 1 both", i%unreadTable); a != want {
			t.Fatalf("access %d is %s, not %s", i, a, want)
		}
	}
}

// TestRegionsFiltered: behind filters that forbid all that waiting could do a thread waits all the
// same, and each access is recorded.
func TestRegionsFiltered(t *testing.T) {
	lane.Parallel(t)
	program := buildUnread(t)
	const n = 300_000
	for _, how := range []string{"strict", "filter"} {
		r, table := countedAt(t, cmd(program, strconv.Itoa(n), how), "--regions", "--objects", "main")
		if r.status != 0 || r.stdout != "off by 0\n" {
			t.Errorf("%s: %+v", how, r)
			continue
		}
		l := recordedOf(t, table)
		if l.Total.Records != n || l.Total.Lost != 0 || l.Regions[0].Accesses != n {
			t.Errorf("%s: %+v", how, l.Total)
		}
		allByTurns(t, table, &l)
	}
}

// TestRegionsFull: where there is no room for the file the program goes on, the accesses up to
// there are in it, how many are lost is told, and others have what is left to them.
func TestRegionsFull(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot mount")
	program, out := buildUnread(t), openDir(t)
	const n = 3_000_000 // 48 MB
	for _, megabytes := range lane.Some([]int{24, 33, 40}, 0) {
		const script = `mount -t tmpfs -o size="$1"m none "$2"; shift; dir=$1; hotspots=$2; shift 2; mkdir "$dir/in"
"$hotspots" run -o "$dir/in/table" --summary 0 --regions --objects main -- "$@"; echo $?
df -B1 --output=avail "$dir" | tail -1
"$hotspots" regions "$dir/in/table" --format json; "$hotspots" regions export "$dir/in/table" | wc -l`
		r := run(t, cmd(need(t, "unshare"), "-m", "sh", "-c", script, "sh", strconv.Itoa(megabytes), out, build(t, "hotspots"), program, strconv.Itoa(n)))
		lines := strings.SplitN(r.stdout, "\n", 4)
		var l regionList
		var exported uint64
		if len(lines) != 4 || lines[0] != "off by 0" || lines[1] != "0" {
			t.Fatalf("%+v", r)
		}
		if free, err := strconv.Atoi(lines[2]); err != nil || free < megabytes<<20/21 {
			t.Errorf("%d MB: %s bytes are left to others, %v", megabytes, lines[2], err)
		}
		d := json.NewDecoder(strings.NewReader(lines[3]))
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		rest, _ := io.ReadAll(d.Buffered())
		if _, err := fmt.Sscan(string(rest), &exported); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if !l.Total.Ended || l.Total.Lost == 0 || l.Total.Records == 0 || l.Total.Records+l.Total.Lost != n || exported != l.Total.Records+1 || !strings.Contains(r.stderr, "no space left") {
			t.Errorf("%d MB: %d lines and %+v: %s", megabytes, exported, l.Total, r.stderr)
		}
	}
}

// unread is a program that waits for a word before it makes its accesses.
type unread struct {
	hotspots *exec.Cmd
	to       io.WriteCloser
	from     *bufio.Reader
	pid      int
	table    string
}

func startUnread(t *testing.T, n int) *unread {
	t.Helper()
	u := &unread{table: filepath.Join(t.TempDir(), "table")}
	u.hotspots = exec.Command(build(t, "hotspots"), "run", "-o", u.table, "--summary", "0", "--regions", "--objects", "main", "--", buildUnread(t), strconv.Itoa(n), "waits")
	u.to, u.from = converse(t, u.hotspots)
	line := u.line(t)
	var err error
	if u.pid, err = strconv.Atoi(line); err != nil {
		t.Fatalf("%q", line)
	}
	t.Cleanup(func() {
		if t.Failed() {
			syscall.Kill(u.pid, syscall.SIGKILL)
			u.hotspots.Process.Kill()
		}
	})
	return u
}

func (u *unread) line(t *testing.T) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		s, _ := u.from.ReadString('\n')
		line <- strings.TrimSuffix(s, "\n")
	}()
	select {
	case s := <-line:
		return s
	case <-time.After(patience):
		t.Fatal("the program does not go on")
	}
	return ""
}

// isStopped reports whether all threads of a process are.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(all) == 0 {
		t.Fatal(err, all)
	}
	for _, path := range all {
		b, err := os.ReadFile(path)
		if i := strings.LastIndexByte(string(b), ')'); err == nil && (i < 0 || !strings.HasPrefix(string(b[i:]), ") T")) {
			return false
		}
	}
	return true
}
