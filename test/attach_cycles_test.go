//go:build long

package test

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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

// freeAddress is one of this machine where nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	login := func() {
		r := run(t, cmd("ssh", "-F", "none", "-i", dir+"/user", "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "root@127.0.0.1", "echo here; exit 3"))
		if r.status != 3 || r.stdout != "here\n" {
			t.Errorf("ssh: %+v", r)
		}
	}
	listens := func() bool {
		c, err := net.Dial("tcp", address)
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
	gives := func(n int) {
		for range n {
			give(source)
		}
		waits() // a file is given when it is in the pipe, long before it is parsed
	}
	p := &cycled{pid: c.Process.Pid, function: "go/parser.ParseFile", calls: 5, loads: []func(){func() { gives(1) }}, do: gives}
	p.cycle(t, cyclesOf(10))
	t.Logf("%d files", given)
	for given < most {
		give(short)
	}
	if err := c.Wait(); err != nil || string(formatted.Sum(nil)) != string(sum.Sum(nil)) {
		t.Errorf("gofmt: %v, or files are formatted in another way", err)
	}
}

// TestAttachCompile: Go's compiler, while it reads files, and then while it compiles them on all
// CPUs and collects its garbage. The object is the same.
func TestAttachCompile(t *testing.T) {
	const procs, functions = 2, 20
	const window = procs + 10 // so many files it reads at a time
	cycles := cyclesOf(6)
	read, worked := cycles+2*window, cycles*60 // files that are read meanwhile, functions of those behind
	dir := t.TempDir()
	compiler := strings.TrimSpace(run(t, cmd(need(t, "go"), "tool", "-n", "compile")).stdout)
	var names, sources []string
	for i := range read + 2*window {
		n := functions
		if i >= read {
			n = worked / (2 * window)
		}
		names = append(names, fmt.Sprint(i, ".go"))
		sources = append(sources, goMaps(i, n))
	}
	// compiles begins to compile the files in a directory.
	compiles := func(dir string) *exec.Cmd {
		c := exec.Command(compiler, append([]string{"-p", "p", "-c", fmt.Sprint(procs), "-trimpath", dir, "-o", "object"}, names...)...)
		c.Dir, c.Stderr, c.Env = dir, os.Stderr, append(os.Environ(), "GOGC=10", fmt.Sprint("GOMAXPROCS=", procs))
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := t.TempDir()
	for i, name := range names {
		write(t, filepath.Join(plain, name), sources[i], 0o600)
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := compiles(plain).Wait(); err != nil {
		t.Fatal(err)
	}
	c := compiles(dir)
	defer c.Process.Kill()
	given, pipes := 0, map[int]*os.File{}
	// opens waits for the program to read a file: it has read all those that are so many in front.
	opens := func(i int) {
		if i < len(names) && pipes[i] == nil {
			f, err := os.OpenFile(filepath.Join(dir, names[i]), os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
			}
			pipes[i] = f
		}
	}
	give := func() {
		opens(given)
		io.WriteString(pipes[given], sources[given])
		pipes[given].Close()
		given++
		opens(given - 1 + window)
	}
	opens(0)
	for range window { // from now on it has so many open
		give()
	}
	p := &cycled{pid: c.Process.Pid, function: "cmd/compile/internal/syntax.(*parser).funcDeclOrNil", calls: functions, do: func(int) { give() }}
	p.cycle(t, cycles)
	ended := make(chan error, 1)
	for given < len(names) {
		opens(given)
		go func(f *os.File, source string) {
			io.WriteString(f, source)
			f.Close()
		}(pipes[given], sources[given])
		given++
	}
	go func() { ended <- c.Wait() }()
	pid, n := strconv.Itoa(c.Process.Pid), 0
	for ; len(ended) == 0; n++ {
		table := filepath.Join(dir, "table")
		r := run(t, cmd(build(t, "hotspots"), "attach", "-o", table, pid))
		if r.status == 0 {
			r = run(t, cmd(build(t, "hotspots"), "detach", pid))
		}
		os.Remove(table)
		if r.status != 0 {
			t.Logf("the last: %s", r.stderr)
			break
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d times while it compiles", n)
	got, _ := os.ReadFile(filepath.Join(dir, "object"))
	if want, err := os.ReadFile(filepath.Join(plain, "object")); err != nil || string(got) != string(want) {
		t.Errorf("another object: %d bytes, not %d (%v)", len(got), len(want), err)
	}
	if n < cycles/4 {
		t.Errorf("it was attached to only %d times while it compiles", n)
	}
}

// goMaps is a file of Go that imports nothing, with so many functions.
func goMaps(file, functions int) string {
	var b strings.Builder
	b.WriteString("package p\n")
	for i := range functions {
		fmt.Fprintf(&b, "\nfunc f%d_%d(s []string, m map[string]int) (n int) {\n\tfor i, x := range s {\n\t\tif y, ok := m[x+\"%d\"]; ok && i > %d {\n\t\t\tdefer func() { n += y }()\n\t\t}\n\t}\n\treturn n\n}\n", file, i, i, i)
	}
	return b.String()
}

// TestAttachCron: a daemon that sleeps, and forks once a minute.
func TestAttachCron(t *testing.T) {
	const program = "/usr/sbin/cron"
	needFile(t, program)
	rootOnly(t, "cron is root's")
	if cyclesOf(0) == 0 {
		t.Skip("DYNPROF_TEST_CYCLES is not set: it waits for the clock for a minute or two")
	}
	dir := place(t, nil)
	out := filepath.Join(dir, "out")
	c := exec.Command(need(t, "unshare"), "--mount", "sh", "-ec", `
for d in /var/spool/cron /etc/cron.d /run; do mount -t tmpfs none $d; done
mount --bind /dev/null /etc/crontab
mkdir /var/spool/cron/crontabs
echo '* * * * * echo $PPID $(($(date +\%s) / 60)) >>`+out+`' >/var/spool/cron/crontabs/root
chmod 600 /var/spool/cron/crontabs/root
exec `+program+` -f`)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	until(t, func() bool {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
		return exe == program
	}, "cron does not start")
	jobs := func() []string {
		b, _ := os.ReadFile(out)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	// A job each minute, however often it is attached to meanwhile.
	until(t, func() bool { return len(jobs()[0]) > 0 }, "cron does nothing")
	p := &cycled{pid: c.Process.Pid, flags: []string{"--objects", "all"}}
	for first := time.Now(); ; {
		p.cycle(t, cyclesOf(10))
		if time.Since(first) > time.Minute {
			break
		}
	}
	last := -1
	for _, job := range jobs() {
		minute, err := strconv.Atoi(job[strings.LastIndex(job, " ")+1:])
		if err != nil || last != -1 && minute != last+1 {
			t.Errorf("jobs ran in these minutes: %q", jobs())
			break
		}
		last = minute
	}
	if now := int(time.Now().Unix() / 60); last < now-1 {
		t.Errorf("the last job ran in minute %d of %d", last, now)
	}
	t.Logf("jobs: %q", jobs())
}

// TestAttachPrometheus: a static Go program that serves, asked by many, with a garbage collector
// that never rests. TEST_PROMETHEUS is one, as go install makes it.
func TestAttachPrometheus(t *testing.T) {
	program := setting("TEST_PROMETHEUS")
	if program == "" {
		t.Skip("DYNPROF_TEST_PROMETHEUS names no Prometheus that is static")
	}
	dir := t.TempDir()
	address := freeAddress(t)
	conf := write(t, filepath.Join(dir, "conf"), "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: self, static_configs: [{targets: ['"+address+"']}]}]\n", 0o600)
	ask := func(what string) string {
		r, err := http.Get("http://" + address + what)
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return fmt.Sprint(r.StatusCode, " ", string(b))
	}
	t.Setenv("GOGC", "5")
	s := start(t, dir, false, nil, func() bool { return strings.HasPrefix(ask("/-/ready"), "200") },
		program, "--config.file="+conf, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	p := &cycled{pid: s.Process.Pid, function: "github.com/prometheus/prometheus/web/api/v1.(*API).query", calls: 20, do: func(n int) {
		for i := range n {
			got := ask(fmt.Sprintf("/api/v1/query?query=vector(%d)%%2B1&time=7", i))
			if want := fmt.Sprintf(`200 {"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[7,"%d"]}]}}`, i+1); got != want {
				t.Errorf("it answers %q, not %q", got, want)
			}
		}
	}}
	ends := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(ends)
	for range 3 { // these go on while it is compared
		all.Go(func() {
			for {
				select {
				case <-ends:
					return
				default:
				}
				now := time.Now().Unix()
				got := ask(fmt.Sprintf("/api/v1/query_range?query=sum({__name__=~%%22.%%2B%%22})by(__name__)&start=%d&end=%d&step=1", now-10, now))
				if !strings.HasPrefix(got, `200 {"status":"success"`) {
					t.Errorf("it answers %.300q", got)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	p.cycle(t, cyclesOf(10))
}

// TestAttachBiome: a static-pie Rust program of musl that serves, without names of functions.
// TEST_BIOME is one, as npm has it (@biomejs/cli-linux-x64-musl).
func TestAttachBiome(t *testing.T) {
	program := setting("TEST_BIOME")
	if program == "" {
		t.Skip("DYNPROF_TEST_BIOME names no biome")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var source strings.Builder
	for i := range 100 {
		fmt.Fprintf(&source, "function  f%d( a,b ){ let x = a+b*%d;\n if(x===%d) { return [x,  { 'k':a , b}].map( y=>y ) } \n else {console.log( `v${x}` ) } return x }\n", i, i, i)
	}
	format := func(flags ...string) result {
		c := cmd(append(append([]string{program, "format"}, flags...), "--stdin-file-path=x.js")...)
		c.stdin, c.dir = source.String(), dir
		return run(t, c)
	}
	want := format()
	serve := func() bool { return format("--use-server") == want }
	s := start(t, dir, false, nil, serve, program, "__run_server")
	serves := func() {
		if got := format("--use-server"); got != want {
			t.Errorf("it formats to %.300q, %s", got.stdout, got.stderr)
		}
	}
	p := &cycled{pid: s.Process.Pid, calls: 5, late: true, steady: 100, loads: []func(){serves, serves}, do: func(n int) {
		for range n {
			serves()
		}
	}}
	p.cycle(t, cyclesOf(10))
	p.explain(t, program)
}

// explain asks uprobes whether functions whose calls differed differ by themselves, while nobody
// attaches to the program.
func (p *cycled) explain(t *testing.T, program string) {
	t.Helper()
	if len(p.differs) == 0 {
		return
	}
	count := probes(t, program, p.pid, slices.Sorted(maps.Keys(p.differs)))
	seen := map[string]map[uint64]int{}
	for range 2 * p.steady {
		for f, calls := range count(func() { p.do(p.calls) }) {
			if seen[f] == nil {
				seen[f] = map[uint64]int{}
			}
			seen[f][calls]++
		}
	}
	for f, calls := range p.differs {
		t.Logf("%s: %v calls in %d cycles, instead of %d; by uprobes (calls: times) %v", f, calls, len(calls), p.known[f], seen[f])
		if len(seen[f]) < 2 {
			t.Errorf("%s has the same calls each time by uprobes", f)
		}
	}
}

// probes counts calls of functions (OBJECT ADDRESS) of a process, while something is done.
func probes(t *testing.T, program string, pid int, functions []string) (count func(do func()) map[string]uint64) {
	t.Helper()
	rootOnly(t, "uprobes are root's")
	perf := need(t, "perf")
	const events = "/sys/kernel/tracing/uprobe_events"
	group := fmt.Sprint("dynprof", os.Getpid())
	tell := func(line string) {
		f, err := os.OpenFile(events, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(line + "\n")
			f.Close()
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var names []string
	of := map[string]string{}
	for i, f := range functions {
		address, err := strconv.ParseUint(f[strings.LastIndex(f, " ")+1:], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprint("f", i)
		tell(fmt.Sprintf("p:%s/%s %s:%#x", group, name, program, fileOffset(t, program, address)))
		t.Cleanup(func() { tell(fmt.Sprintf("-:%s/%s", group, name)) })
		names = append(names, group+":"+name)
		of[group+":"+name] = f
	}
	return func(do func()) map[string]uint64 {
		out, enabled := filepath.Join(t.TempDir(), "perf"), filepath.Join(t.TempDir(), "enabled")
		c := exec.Command(perf, "stat", "-x,", "-o", out, "-e", strings.Join(names, ","), "-p", fmt.Sprint(pid), "--", "sh", "-c", "touch '"+enabled+"'; read end")
		c.Stderr = os.Stderr
		end, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { _, err := os.Stat(enabled); return err == nil }, "perf does not begin")
		do()
		time.Sleep(100 * time.Millisecond) // it goes on a little
		end.Close()
		c.Wait() // of perf it says what read does
		counts := map[string]uint64{}
		for line := range strings.Lines(read(t, out)) {
			if fields := strings.Split(line, ","); len(fields) > 2 && of[fields[2]] != "" {
				counts[of[fields[2]]], err = strconv.ParseUint(fields[0], 10, 64)
				if err != nil {
					t.Errorf("perf: %q", line)
				}
			}
		}
		return counts
	}
}

// fileOffset is where a program's file has what lies at an address.
func fileOffset(t *testing.T, program string, address uint64) uint64 {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && address-p.Vaddr < p.Filesz {
			return address - p.Vaddr + p.Off
		}
	}
	t.Fatalf("%s has nothing at %#x", program, address)
	return 0
}
