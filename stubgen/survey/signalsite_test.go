package survey

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/emit"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestSignalSitesOfLibc: a site that is missed lets a thread block SIGTRAP, and
// die of a trap. They are compared with what objdump reads.
func TestSignalSitesOfLibc(t *testing.T) {
	found := map[uint64]stubgen.SignalSite{}
	for _, s := range FindSignalSites(fixture.Load(t, fixture.Libc).Text) {
		found[s.Addr] = s
	}
	for _, s := range FindKernelSites(fixture.Load(t, fixture.Libc).Text) {
		if SetsHandlers(&s) {
			found[s.Addr] = stubgen.SignalSite{Addr: s.Addr} // served there
		}
	}
	text, err := exec.Command("objdump", "-d", "-w", "--no-show-raw-insn", fixture.Libc).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	mov := regexp.MustCompile(`^ *([0-9a-f]+):\tmov +\$0x(d|e|82|10e|10f|119|1b9),%eax$`)
	want := 0
	for i, line := range lines {
		m := mov.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, next := range lines[i+1 : min(i+4, len(lines))] {
			if strings.HasSuffix(next, "\tsyscall") {
				var addr uint64
				fmt.Sscanf(m[1], "%x", &addr)
				if want++; found[addr].Addr == 0 {
					t.Errorf("missed: %s", line)
				}
				break
			}
		}
	}
	if want < 20 || len(found) != want {
		t.Errorf("%d sites, objdump shows %d", len(found), want)
	}
}

// TestSignalThunk: what stands between the mov and the system call runs in the
// thunk, and means the same there.
func TestSignalThunk(t *testing.T) {
	code := []byte{
		0xb8, 14, 0, 0, 0, // mov $14,%eax
		0x48, 0x8d, 0x35, 0x00, 0x10, 0, 0, // lea 0x1000(%rip),%rsi
		0x31, 0xff, // xor %edi,%edi
		0x0f, 0x05, // syscall
		0xc3,
	}
	o := &stubgen.Object{Text: []stubgen.Segment{{Addr: 0x401000, Code: code}}}
	buf := make([]byte, emit.ThunkSize)
	site := stubgen.SignalSite{Addr: 0x401000, NR: sysSigprocmask, Between: 9}
	if n, ok := toSyscall(code[setupLen:]); !ok || n != site.Between {
		t.Errorf("%d bytes between the two, not %d", n, site.Between)
	}
	if err := emit.EmitSignalThunk(o, site, buf, fixture.ArenaAt, fixture.Slow); err != nil {
		t.Fatal(err)
	}
	const want = `  200000  b80e000000                       mov $0xe,%eax
  200005  488d3500202000                   lea 0x202000(%rip),%rsi # 0x40200c
  20000c  31ff                             xor %edi,%edi
  20000e  488d0dfb0f2000                   lea 0x200ffb(%rip),%rcx # 0x401010
  200015  ff2505000000                     jmp *0x5(%rip) # 0x200020
`
	if got := fixture.Disassemble(t, buf[:27], uint64(fixture.ArenaAt)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
