package stubgen

import (
	"bytes"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
)

// TestStubsCanBePaused: every stub begins with one of the counts that
// libdynprof/resident/stubs/pause.c knows, and a short jump from its first two bytes, which lie
// in one aligned word, leads behind the count.
func TestStubsCanBePaused(t *testing.T) {
	const counter = 0x1238
	add, lockAdd := []byte{0x65, 0x48, 0xff, 0x04, 0x25, 0x38, 0x12, 0, 0}, []byte{0xf0, 0x48, 0xff, 0x05}
	o := load(t, link(t, "testdata/entries.s"))
	forms := map[string]int{}
	for _, c := range []Count{{}, {Threshold: 1000}, {Shared: sharedAt}, {Shared: sharedAt, Threshold: 1000}} {
		for _, p := range NewSurvey(o, 1).Plans(c.options(), 1, nil) {
			if !p.Counted() {
				continue
			}
			var e Emitter
			buf := make([]byte, p.Size)
			stub, err := e.Emit(o, &p, buf, arenaAt, Count{Counter: counter, Shared: c.Shared, Threshold: c.Threshold,
				Cold: make([]byte, ColdSize), ColdAt: arenaAt.Add(0x1000), ColdCommon: arenaAt.Add(0x2000)})
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
			forms[form]++
			name := o.Functions[p.Function].Name
			if !bytes.HasPrefix(buf[at:], add) || count < at+8 || count > 127 {
				t.Errorf("%s: a count of %d bytes, % x", name, count, buf[:count])
			}
			var in x86.Inst
			n := 0
			for n < count && x86.Decode(buf[n:], &in) == nil {
				n += int(in.Len)
			}
			if n != count {
				t.Errorf("%s: byte %d is inside an instruction", name, count)
			}
		}
	}
	if forms["plain"] < 50 || forms["plain flags"] < 4 || forms["lock"] < 50 || forms["lock flags"] < 4 || Alignment%8 != 0 {
		t.Errorf("stubs %v, alignment %d: this is no test", forms, Alignment)
	}
}
