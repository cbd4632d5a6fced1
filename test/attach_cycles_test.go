//go:build long

package test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// shell is a shell that works and forks, knows how often it has done what, and what must come of
// it. While there is a file it says so and waits for a line.
const shell = `
twice() { twice=$(($1 + $1)); }
i=0 wrong=0
echo ready
while :; do
	twice $i
	[ $twice = $((2 * i)) ] || wrong=$((wrong + 1))
	case $((i % 64)) in 0) [ "$(echo $i)" = $i ] || wrong=$((wrong + 1)) ;; esac
	umask >/dev/null
	i=$((i + 1))
	if [ -e asked ]; then
		echo $i
		read go || break
	fi
done
echo wrong $wrong`

// TestAttachShells: a shell under a loop of work. Those of Debian have no symbols, so that it is
// seen first which functions are called once each time round; TEST_SHELLS names others.
func TestAttachShells(t *testing.T) {
	for _, args := range append([][]string{{"dash"}, {"busybox", "sh"}, {"bash-static"}, {"zsh-static", "-f"}}, others()...) {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			c := exec.Command(need(t, args[0]), append(args[1:], "-c", shell)...)
			c.Dir = t.TempDir()
			a := converseAttached(t, c)
			p := &cycled{pid: c.Process.Pid, calm: func() (n uint64) {
				asked := write(t, filepath.Join(c.Dir, "asked"), "", 0o600)
				n, _ = strconv.ParseUint(a.line(), 10, 64)
				os.Remove(asked)
				return n
			}, wake: func() { fmt.Fprintln(a.to) }}
			p.cycle(t, cyclesOf(10))
			p.calm()
			a.to.Close()
			a.expect("wrong 0")
			a.ends()
		})
	}
}

// others are programs by a setting, separated by commas.
func others() (all [][]string) {
	for program := range strings.SplitSeq(setting("TEST_SHELLS"), ",") {
		if program != "" {
			all = append(all, strings.Fields(program))
		}
	}
	return all
}

// TestAttachSSHD: a daemon that forks and executes itself for each who logs in.
func TestAttachSSHD(t *testing.T) {
	const program = "/usr/sbin/sshd"
	needFile(t, program)
	rootOnly(t, "sshd logs others in")
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	dir := place(t, nil)
	for _, key := range []string{"host", "user"} {
		run(t, cmd(need(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	login := func() {
		r := run(t, cmd("ssh", "-F", "none", "-i", dir+"/user", "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "root@127.0.0.1", "echo here; exit 3"))
		if r.status != 3 || r.stdout != "here\n" {
			t.Errorf("ssh: %+v", r)
		}
	}
	listens := func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	s := start(t, dir, false, nil, listens, program, "-D", "-e", "-f", "none", "-p", port, "-h", dir+"/host", "-o", "ListenAddress=127.0.0.1",
		"-o", "AuthorizedKeysFile="+dir+"/user.pub", "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "MaxStartups=100", "-o", "UsePAM=no")
	p := &cycled{pid: s.Process.Pid, object: "libc.so.6", function: "accept", flags: []string{"--objects", "all"}, calls: 3, do: func(n int) {
		for range n {
			login()
		}
	}, loads: []func(){login}}
	p.cycle(t, cyclesOf(5))
	s.Process.Signal(syscall.SIGTERM)
	s.Wait()
}

// fifos are named pipes, of which a program reads one after the other, the first when it is
// through with the last.
type fifos []string

func newFifos(t *testing.T, dir string) (all fifos) {
	t.Helper()
	for _, name := range []string{"a.go", "b.go"} {
		name = filepath.Join(dir, name)
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

// goSource is a file of Go with so many functions.
func goSource(functions int) string {
	var b strings.Builder
	b.WriteString("package p\n\nimport \"strings\"\n")
	for i := range functions {
		fmt.Fprintf(&b, "\nfunc f%d(s []string, m map[string]int) (n int) {\n\tfor i, x := range s {\n\t\tif y, ok := m[strings.ToUpper(x)]; ok && i > %d {\n\t\t\tdefer func() { n += y }()\n\t\t}\n\t}\n\treturn n\n}\n", i, i)
	}
	return b.String()
}

// TestAttachGofmt: Go's own formatter reads long files, and collects its garbage all the time.
func TestAttachGofmt(t *testing.T) {
	const functions, most = 300, 30000
	source, short := goSource(functions), "package p\n"
	dir := t.TempDir()
	two := newFifos(t, dir)
	c := exec.Command(goStatic(t, "cmd/gofmt", "-ldflags=-s -w"))
	for i := range most {
		c.Args = append(c.Args, filepath.Base(two[i%2]))
	}
	formatted := sha256.New()
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), "GOGC=10"), formatted, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	given, sum := 0, sha256.New()
	var next *os.File
	// waits waits for the program to be through with all that it was given, and to read the next.
	waits := func() {
		if next == nil && given < most {
			f, err := os.OpenFile(two[given%2], os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			next = f
		}
	}
	give := func(text string) {
		if waits(); next != nil {
			io.WriteString(io.MultiWriter(next, sum), text)
			next.Close()
			next = nil
			given++
		}
	}
	p := &cycled{pid: c.Process.Pid, function: "go/parser.ParseFile", calls: 5, loads: []func(){func() { give(source) }}, do: func(n int) {
		for range n {
			give(source)
		}
		waits()
	}}
	p.cycle(t, cyclesOf(10))
	t.Logf("%d files", given)
	for given < most {
		give(short)
	}
	if err := c.Wait(); err != nil || string(formatted.Sum(nil)) != string(sum.Sum(nil)) {
		t.Errorf("gofmt: %v, or files are formatted in another way", err)
	}
}
