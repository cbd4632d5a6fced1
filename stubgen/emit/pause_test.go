package emit

import (
	"bytes"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestStubsCanBePaused: every stub begins with one of the counts that
// libdynprof/resident/stubs/pause.c knows, and a short jump from its first two bytes, which lie
// in one aligned word, leads behind the count.
func TestStubsCanBePaused(t *testing.T) {
	const counter = 0x1238
	add, lockAdd := []byte{0x65, 0x48, 0xff, 0x04, 0x25, 0x38, 0x12, 0, 0}, []byte{0xf0, 0x48, 0xff, 0x05}
	found := map[string]int{}
	for _, c := range forms {
		o, all := windows(t, &c)
		for _, p := range all {
			var e Emitter
			buf := make([]byte, p.Size)
			stub, err := e.Emit(o, &p, buf, fixture.ArenaAt, Count{Counter: counter, Shared: c.Shared, Threshold: c.Threshold,
				Cold: make([]byte, ColdSize), ColdAt: fixture.ArenaAt.Add(0x1000), ColdCommon: fixture.ArenaAt.Add(0x2000)})
			if err != nil {
				t.Fatal(err)
			}
			count := int(stub.Body)
			form, at, add := "plain", 0, add
			if c.Shared != 0 {
				form, add = "lock", lockAdd
			}
			if bytes.HasPrefix(buf, []byte{0x48, 0x8d, 0x64, 0x24, 0x80}) {
				form, at = form+" flags", 10
			}
			found[form]++
			if !bytes.HasPrefix(buf[at:], add) || count < at+8 || count > 127 {
				t.Errorf("%#x: a count of %d bytes, % x", p.Start, count, buf[:count])
			}
			var in x86.Inst
			n := 0
			for n < count && x86.Decode(buf[n:], &in) == nil {
				n += int(in.Len)
			}
			if n != count {
				t.Errorf("%#x: byte %d is inside an instruction", p.Start, count)
			}
		}
	}
	if found["plain"] < 50 || found["plain flags"] < 50 || found["lock"] < 50 || found["lock flags"] < 50 || Alignment%8 != 0 {
		t.Errorf("stubs %v, alignment %d: this is no test", found, Alignment)
	}
}
