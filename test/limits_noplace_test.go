package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestNoPlace: where no count table can be made, the program runs as it is
// after a line that says so, and nothing that was there is lost.
func TestNoPlace(t *testing.T) {
	lane.Parallel(t)
	program := victim(t)
	without := run(t, cmd(program))
	const tmpfs = "mount -t tmpfs -o %s none . && cd $PWD && "
	for _, row := range []struct {
		name   string
		around string // shell command; {run} is hotspots run, in a fresh directory
		mount  string // options of a file system to run it in, which takes root
		says   string
		file   bool // a file is in the way
	}{
		{"no files there", "{run} -o /proc/table -- {program}", "", "cannot create the count table.*choose another place", false},
		{"no files there, by process", "{run} -o /proc/%p.table -- {program}", "", "cannot create the count table.*choose another place", false},
		{"no directories there", "{run} -o /proc/dir/table -- {program}", "", "cannot make the directory.*choose another place", false},
		{"below a file", "touch file; {run} -o file/table -- {program}", "", "not a directory.*choose another (place|name)", false},
		{"too long a name", "{run} -o $(printf %0300d 1) -- {program}", "", "name too long.*choose another (place|name)", false},
		{"a directory", "mkdir dir; {run} -o dir -- {program}", "", "dir: .*choose another name", true},
		{"another's file", "echo mine >file; {run} -o file -- {program}; s=$?; grep -q mine file && exit $s", "", "no count table.*choose another name", true},
		{"a device", "{run} -o /dev/full -- {program}", "", "/dev/full: .*choose another name", true},
		{"an unknown letter", "{run} -o %z -- {program}", "", "%z: only .*known", false},
		{"file-size limit", "ulimit -f 10; {run} -o table -- {program}", "", "ulimit -f.*raise", false},
		{"default directory is a file", "touch dynprof; XDG_RUNTIME_DIR=$PWD {run} -- {program}", "", "dynprof.*(XDG_RUNTIME_DIR|-o)", false},
		{"no library", "{run} --library missing -- {program}", "", "no library there.*missing", false},
		{"no library in that file", "echo mine >file; {run} --library ./file -- {program}", "", "file", false},
		{"read-only", "{run} -o table -- {program}", "ro", "read-only.*choose another place", false},
		{"full", "head -c 60000 /dev/zero >fill; {run} -o table -- {program}", "size=64k", "no space left.*choose another place", false},
		{"no inodes left", "{run} -o table -- {program}", "nr_inodes=1", "no space left.*choose another place", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			script := strings.NewReplacer("{run}", build(t, "hotspots")+" run --summary 0", "{program}", program).Replace(row.around)
			c := cmd("sh", "-c", script)
			if row.mount != "" {
				rootOnly(t, "cannot mount a file system")
				c = cmd(need(t, "unshare"), "-m", "sh", "-c", fmt.Sprintf(tmpfs, row.mount)+"{ "+script+"; }")
			}
			c.dir = t.TempDir()
			with := run(t, c)
			oneLine(t, with.stderr, row.says, without.stderr)
			if row.file != strings.Contains(with.stderr, "write over a file") {
				t.Errorf("wrong about a file in the way: %s", with.stderr)
			}
			with.stderr = without.stderr
			same(t, without, with)
		})
	}
}

// TestUnborn: a program that is killed when its table has just been created leaves an
// empty file, and later runs are counted all the same. Other empty files stay.
func TestUnborn(t *testing.T) {
	lane.Parallel(t)
	program := victim(t)
	for _, row := range []struct {
		mode    os.FileMode
		open    bool // by somebody who may be about to write to it
		counted bool
	}{{0o600, false, true}, {0o644, false, false}, {0o600, true, false}} {
		t.Run(fmt.Sprintf("%o %t", row.mode, row.open), func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "table")
			f, err := os.OpenFile(table, os.O_CREATE|os.O_RDWR, row.mode)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Chmod(row.mode); err != nil {
				t.Fatal(err)
			}
			if !row.open {
				f.Close()
			}
			with := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "-o", table, "--", program))
			fi, err := os.Stat(table)
			if err != nil || (fi.Size() > 0) != row.counted || row.counted == strings.Contains(with.stderr, "write over a file") {
				t.Errorf("counted: %t, %v: %s", fi.Size() > 0, err, with.stderr)
			}
			if row.counted {
				readReport(t, table)
			}
		})
	}
}

// TestDirectoryOfAnother: as above, by a user who may not write there.
func TestDirectoryOfAnother(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot become another user")
	dir := openDir(t)
	program := copyFile(t, victim(t), filepath.Join(dir, "program"))
	hotspots := copyFile(t, build(t, "hotspots"), filepath.Join(dir, "hotspots"))
	if err := os.Mkdir(filepath.Join(dir, "root's"), 0o755); err != nil {
		t.Fatal(err)
	}
	without := run(t, cmd(program))
	for _, name := range []string{"table", "%p", "dir/table"} {
		with := run(t, nobody(t, dir, hotspots, "run", "-o", filepath.Join(dir, "root's", name), "--", program))
		oneLine(t, with.stderr, "permission denied.*choose another place", without.stderr)
		with.stderr = without.stderr
		same(t, without, with)
	}
}

// TestStrict: without a table there is no counting, and --strict means not to
// run then.
func TestStrict(t *testing.T) {
	lane.Parallel(t)
	made := filepath.Join(t.TempDir(), "made")
	for _, place := range []string{"/proc/table", "/dev/full"} {
		r := run(t, cmd(build(t, "hotspots"), "run", "--strict", "-o", place, "--", victim(t), made))
		oneLine(t, r.stderr, "choose another", "")
		if r.status != 125 || r.stdout != "" {
			t.Errorf("%s: status %d, not 125; %q", place, r.status, r.stdout)
		}
		if os.Remove(made) == nil {
			t.Errorf("%s: the program ran", place)
		}
	}
	for value, status := range map[string]int{"1": 125, "01": 125, "no": 125, "0": 0, "": 0} { // as internal/setting has it
		r := run(t, command{args: []string{"true"}, env: []string{
			"LD_PRELOAD=" + build(t, "libdynprof.so"), "DYNPROF_OUTPUT=/proc/table", "DYNPROF_STRICT=" + value}})
		if r.status != status {
			t.Errorf("DYNPROF_STRICT=%s: status %d, not %d", value, r.status, status)
		}
	}
}

// TestDiskFillsUp: a program that has its table, fills the disk, and then
// starts threads, whose rows find no room, works on, and the report says what
// is missing.
func TestDiskFillsUp(t *testing.T) {
	lane.Parallel(t)
	rootOnly(t, "cannot mount a file system")
	dir, program := t.TempDir(), victim(t)
	full := func(command string) result {
		const mount = "mount -t tmpfs -o size=2m none . && cd $PWD && "
		c := cmd(need(t, "unshare"), "-m", "sh", "-c", mount+command)
		c.dir = dir
		return run(t, c)
	}
	without := full(program + " fill file")
	if !strings.Contains(without.stdout, "threads 43200\n") {
		t.Errorf("without the library: %q", without.stdout)
	}
	hotspots, text := build(t, "hotspots"), filepath.Join(t.TempDir(), "report")
	for _, flags := range []string{"", "--threshold 1000"} { // an event asks all threads for their calls
		with := full(fmt.Sprintf("{ %s run %s --summary 0 -o table -- %s fill file; s=$?; %s report table >%s; exit $s; }", hotspots, flags, program, hotspots, text))
		same(t, without, with)
		if r := read(t, text); !regexp.MustCompile(`threads had no room .* missing`).MatchString(r) {
			t.Errorf("%s: the report does not say that threads are missing:\n%s", flags, r)
		}
	}
}
