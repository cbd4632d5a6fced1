package test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// oneLine fails unless stderr is one message that matches says, followed by
// what the program itself writes.
func oneLine(t *testing.T, stderr, says, own string) {
	t.Helper()
	message, ok := strings.CutSuffix(stderr, own)
	if !ok {
		t.Errorf("the program's own %q is not at the end of stderr:\n%s", own, stderr)
	}
	if strings.Count(message, "\n") != 1 || !strings.HasSuffix(message, "\n") {
		t.Errorf("not one line:\n%s", message)
	}
	if !regexp.MustCompile(`^(hotspots|dynprof): .*(` + says + `)`).MatchString(message) {
		t.Errorf("%q does not say %q", message, says)
	}
}

// openDir is a directory that other users may reach and write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dynprof-test")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// victim is the program that bad things happen to.
func victim(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, need(t, "gcc"), append([]string{"-O1"}, flags...), "victim.c")
}

// victim32 needs no 32-bit libraries to be linked.
func victim32(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "victim32")
	in(t, ".", "", "gcc", "-m32", "-nostdlib", "-static", "-no-pie", "-o", program, "testdata/victim32.S")
	return program
}

// copyFile copies a program; see install. One that was there is replaced, and not written
// to: of a run with --control the agent may still have it for a moment.
func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	in(t, ".", "", "cp", "--remove-destination", from, to)
	return to
}

// install makes a program. Another process writes it: a file that this one has
// open for writing might be inherited by a program started meanwhile, and then
// not be executable.
func install(t *testing.T, path, content string) string {
	t.Helper()
	in(t, ".", content, "sh", "-c", `cat >"$1" && chmod 755 "$1"`, "sh", path)
	return path
}

// rootOnly skips a test that only root can prepare.
func rootOnly(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: " + why)
	}
}

// nobody makes a command that another user runs, with nothing of ours.
func nobody(t *testing.T, dir string, args ...string) command {
	t.Helper()
	setpriv := []string{need(t, "setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", "--"}
	return command{args: append(setpriv, args...), env: []string{"HOME=/nonexistent", "XDG_RUNTIME_DIR=", "XDG_CACHE_HOME=" + dir}}
}

// privileged makes a copy of the victim that runs with the rights of its owner
// or group, and has another user start it.
func privileged(bits os.FileMode) func(t *testing.T, dir string) func(args ...string) command {
	return func(t *testing.T, dir string) func(args ...string) command {
		rootOnly(t, "cannot make a program of another user")
		program := copyFile(t, victim(t), filepath.Join(dir, "program"))
		const daemon = 1
		if err := errors.Join(os.Chown(program, daemon, daemon), os.Chmod(program, 0o755|bits)); err != nil {
			t.Fatal(err)
		}
		start := func(args ...string) command { return nobody(t, dir, args...) }
		if r := run(t, start(program)); !strings.Contains(r.stdout, "privileged") {
			t.Skipf("%s is on a file system without set-user-ID, or this process may not gain rights", dir)
		}
		return start
	}
}

// TestUncountable: programs that ignore LD_PRELOAD are announced as such, and
// run as they are; with --strict they do not run.
func TestUncountable(t *testing.T) {
	lane.Parallel(t)
	plain := func(program func(*testing.T) string) func(t *testing.T, dir string) func(...string) command {
		return func(t *testing.T, dir string) func(...string) command {
			copyFile(t, program(t), filepath.Join(dir, "program"))
			return cmd
		}
	}
	for _, row := range []struct {
		name string
		make func(t *testing.T, dir string) func(args ...string) command // makes dir/program and returns how to start it
		says string
	}{
		{"32-bit", plain(victim32), "32-bit"},
		{"set-user-ID", privileged(os.ModeSetuid), "set-user-ID"},
		{"set-group-ID", privileged(os.ModeSetgid), "set-group-ID"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			start := row.make(t, dir)
			hotspots := copyFile(t, build(t, "hotspots"), filepath.Join(dir, "hotspots"))
			program, table, made := filepath.Join(dir, "program"), filepath.Join(dir, "table"), filepath.Join(dir, "made")

			without := run(t, start(program, made))
			if err := os.Remove(made); err != nil || without.status != 3 {
				t.Fatalf("status %d without hotspots: %v", without.status, err)
			}
			with := run(t, start(hotspots, "run", "-o", table, "--", program, made))
			oneLine(t, with.stderr, row.says, without.stderr)
			with.stderr = without.stderr
			same(t, without, with)
			if err := os.Remove(made); err != nil {
				t.Errorf("it did not run: %v", err)
			}

			strict := run(t, start(hotspots, "run", "--strict", "-o", table, "--", program, made))
			oneLine(t, strict.stderr, "--strict.*"+row.says, "")
			if strict.status != 125 || strict.stdout != "" {
				t.Errorf("--strict: status %d, not 125; %q", strict.status, strict.stdout)
			}
			if _, err := os.Stat(made); err == nil {
				t.Error("--strict: it ran")
			}
			if _, err := os.Stat(table); err == nil {
				t.Error("there is a count table")
			}
		})
	}
}

// TestNoProgram: what cannot be executed gives the shell's status and a line.
func TestNoProgram(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	program := copyFile(t, victim(t), at("victim"))
	image := read(t, program)
	write(t, at("text"), "hello\n", 0o644)
	write(t, at("rubbish"), "\x00\x01\x02\x03rubbish", 0o755)
	write(t, at("cut"), image[:100], 0o755)
	write(t, at("foreign"), image[:18]+"\xb7"+image[19:], 0o755) // e_machine: AArch64
	write(t, at("orphan"), strings.Replace(image, "/lib64/ld-linux", "/lib65/ld-linux", 1), 0o755)
	write(t, at("script"), "#!/no/such/interpreter\n", 0o755)
	write(t, at("itself"), "#!"+at("itself")+"\n", 0o755)
	for _, row := range []struct {
		name   string
		status int
		says   string
	}{
		{at("missing"), 127, "no such program"},
		{"missing-from-the-path", 127, "no such program in PATH"},
		{"", 127, "no such program"},
		{at("victim/below"), 127, "no such program"},
		{at("script"), 127, "interpreter"},
		{at("orphan"), 127, "interpreter"},
		{dir, 126, "is a directory"},
		{at("text"), 126, "permission denied"},
		{at("rubbish"), 126, "exec format error"},
		{at("cut"), 126, "exec format error|invalid argument"},
		{at("foreign"), 126, "another machine|exec format error"},
		{at("itself"), 126, "too many levels|script of a script"},
	} {
		for _, flag := range []string{"--summary=5", "--follow-exec"} {
			t.Run(filepath.Base(row.name)+" "+flag, func(t *testing.T) {
				r := run(t, cmd(build(t, "hotspots"), "run", flag, "-o", at("%p.table"), "--", row.name))
				oneLine(t, r.stderr, row.says, "")
				if r.status != row.status || r.stdout != "" {
					t.Errorf("status %d, not %d; %q", r.status, row.status, r.stdout)
				}
			})
		}
	}
}

// TestScripts: of a script the interpreter is counted. One without a first
// line goes to the shell, as execvp(3) has it.
func TestScripts(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	for name, first := range map[string]string{"sh": "#!/bin/sh", "env": "#!/usr/bin/env sh", "none": ""} {
		script := write(t, filepath.Join(dir, name), first+"\necho $0 $*; echo complaint >&2; exit 4\n", 0o755)
		t.Run(name, func(t *testing.T) {
			without := run(t, cmd("/bin/sh", script, "one", "two"))
			with, r := counted(t, cmd(script, "one", "two"))
			same(t, without, with)
			shell, err := filepath.EvalSymlinks("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			if r.Program != filepath.Join("/usr/bin", filepath.Base(shell)) && r.Program != shell || r.TotalCalls < 100 {
				t.Errorf("%d calls of %s counted, not of %s", r.TotalCalls, r.Program, shell)
			}
		})
	}
}

// TestBadFlags: a wrong flag is told in one line, and nothing runs. hotspots
// run then has its own status, 125.
func TestBadFlags(t *testing.T) {
	lane.Parallel(t)
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	program := victim(t) + " " + made
	for _, row := range []struct {
		args   string
		status int
		says   string
	}{
		{"run --threshold -1 -- {program}", 125, "--threshold.*--help"},
		{"run --threshold abc -- {program}", 125, "--threshold.*--help"},
		{"run --threshold 2147483648 -- {program}", 125, "--threshold.*1 to 2147483647.*--help"},
		{"run --threshold 99999999999999999999 -- {program}", 125, "--threshold.*--help"},
		{"run --summary x -- {program}", 125, "--summary.*--help"},
		{"run --summary -1 -- {program}", 125, "--summary.*0 or more"},
		{"run --only [ -- {program}", 125, "--only.*not a regular expression"},
		{"run --skip (?z) -- {program}", 125, "--skip.*not a regular expression"},
		{"run --only @missing -- {program}", 125, "--only.*list of names.*missing"},
		{"run --skip @. -- {program}", 125, "--skip.*list of names"},
		{"run --objects [ -- {program}", 125, "--objects.*not a glob"},
		{"run --follow-exec -o table -- {program}", 125, "-o needs %p"},
		{"run --unknown -- {program}", 125, "--unknown.*--help"},
		{"run -o", 125, "-o.*--help"},
		{"run", 125, "no program.*--help"},
		{"run --", 125, "no program.*--help"},
		{"DYNPROF_THRESHOLD=abc run -- {program}", 125, "DYNPROF_THRESHOLD.*abc"},
		{"DYNPROF_ONLY=[ run -- {program}", 125, "DYNPROF_ONLY.*not a regular expression"},
		{"runn -- {program}", 2, "unknown command.*--help"},
		{"--unknown", 2, "--unknown.*--help"},
		{"report --format xml", 2, "--format xml.*text, json, csv"},
		{"report --top -1", 2, "--top.*0 or more"},
		{"report --top x", 2, "--top.*--help"},
		{"report --sort colour", 2, "--sort colour.*calls, instructions, loads, stores, name, size"},
		{"report --by colour", 2, "--by colour.*function, object"},
		{"report --filter [", 2, "--filter.*regexp"},
		{"coverage --list colour", 2, "--list colour.*too-short"},
		{"coverage --format xml", 2, "--format xml.*text, json, csv"},
		{"events --format xml", 2, "--format xml.*text, json, csv"},
		{"ls --format xml", 2, "--format xml.*text, json, csv"},
		{"prune --older-than soon", 2, "--older-than.*--help"},
		{"prune --keep -1", 2, "--keep.*0 or more"},
		{"version too many", 2, "version|argument"},
	} {
		t.Run(row.args, func(t *testing.T) {
			c := cmd(build(t, "hotspots"))
			c.dir = dir
			for _, arg := range strings.Fields(strings.ReplaceAll(row.args, "{program}", program)) {
				if strings.HasPrefix(arg, "DYNPROF_") {
					c.env = append(c.env, arg)
				} else {
					c.args = append(c.args, arg)
				}
			}
			r := run(t, c)
			oneLine(t, r.stderr, row.says, "")
			if r.status != row.status || r.stdout != "" {
				t.Errorf("status %d, not %d; %q", r.status, row.status, r.stdout)
			}
			if os.Remove(made) == nil {
				t.Error("the program ran")
			}
		})
	}
}
