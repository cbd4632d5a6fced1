package survey

import (
	"encoding/binary"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestTransfersOfLibc: each system call of libc by which sockets receive and send is found, once, by what
// objdump reads, and nothing else is.
func TestTransfersOfLibc(t *testing.T) {
	text, err := exec.Command("objdump", "-d", "-w", "--no-show-raw-insn", fixture.Libc).Output()
	if err != nil {
		t.Fatal(err)
	}
	mov := regexp.MustCompile(`\tmov +\$0x(2c|2d|2e|2f|12b|133),%eax$`)
	lines := strings.Split(string(text), "\n")
	var want []stubgen.Transfer
	for i, line := range lines {
		m := mov.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for k, next := range lines[i+1 : i+6] {
			if !strings.HasSuffix(strings.TrimSpace(next), "syscall") {
				continue
			}
			behind := lines[i+2+k]
			if !strings.Contains(behind, "cmp    $0xfffffffffffff") {
				t.Fatalf("%s: %s", line, behind)
			}
			at, _, _ := strings.Cut(strings.TrimSpace(behind), ":")
			addr, _ := strconv.ParseUint(at, 16, 64)
			nr, _ := strconv.ParseUint(m[1], 16, 32)
			want = append(want, stubgen.Transfer{Addr: addr, Number: uint32(nr)})
			break
		}
	}
	got := FindTransfers(fixture.Load(t, fixture.Libc).Text)
	for i := range got {
		if len(got[i].Compares) != len(opCmpRAX) {
			t.Errorf("%+v", got[i])
		}
		got[i].Compares = ""
	}
	if len(want) < len(transfers) || !slices.Equal(got, want) {
		t.Errorf("%d of %d: %+v, not %+v", len(got), len(want), got, want)
	}
}

// TestTransfer: what is replaced is only entered behind the system call, and that is the one that is meant.
func TestTransfer(t *testing.T) {
	mov := binary.LittleEndian.AppendUint32([]byte{opMovEAX}, sysRecvfrom)
	nops := slices.Repeat([]byte{0x90}, 64)
	least := []byte{0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff}
	for _, row := range []struct {
		name  string
		parts [][]byte
		found bool
	}{
		{"at once", [][]byte{mov, opSyscall, least}, true},
		{"the other comparison", [][]byte{mov, opSyscall, opCmpRAX}, true},
		{"an argument in between", [][]byte{mov, {0x31, 0xff}, opSyscall, least}, true},
		{"rax changes in between", [][]byte{mov, {0x31, 0xc0}, opSyscall, least}, false},
		{"a call in between", [][]byte{mov, {0xe8, 0, 0, 0, 0}, opSyscall, least}, false},
		{"another number", [][]byte{binary.LittleEndian.AppendUint32([]byte{opMovEAX}, 1), opSyscall, least}, false},
		{"another comparison", [][]byte{mov, opSyscall, {0x48, 0x3d, 0x00, 0xf0, 0xff, 0x7f}}, false},
		{"a lesser one", [][]byte{mov, opSyscall, {0x48, 0x3d, 0x02, 0xf0, 0xff, 0xff}}, false},
		{"of eax", [][]byte{mov, opSyscall, {0x90, 0x3d, 0x00, 0xf0, 0xff, 0xff}}, false},
		{"the text ends", [][]byte{mov, opSyscall, least[:5]}, false},
		{"somebody jumps there", [][]byte{{0xeb, 7}, mov, opSyscall, least}, false},
		{"and back", [][]byte{mov, opSyscall, least, {0xeb, 0xf8}}, false},
		{"somebody jumps to the call", [][]byte{{0xeb, 5}, mov, opSyscall, least}, true},
	} {
		code := slices.Concat(append([][]byte{nops}, row.parts...)...)
		if row.name != "the text ends" {
			code = append(code, nops...)
		}
		found := FindTransfers([]stubgen.Segment{{Addr: 0x1000, Code: code}})
		if len(found) == 1 != row.found || row.found && (found[0].Number != sysRecvfrom || len(found[0].Compares) != len(least)) {
			t.Errorf("%s: %+v", row.name, found)
		}
	}
}
