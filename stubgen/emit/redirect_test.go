package emit

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// TestRedirectable: every stub has one of the two forms that libdynprof knows
// (TestStubHeader), with the limit of its check inside one aligned quad, which is
// stored at once while others run there.
func TestRedirectable(t *testing.T) {
	header, err := os.ReadFile("../../libdynprof/resident/base/stub.h")
	if err != nil {
		t.Fatal(err)
	}
	o, all := windows(t, &Count{Threshold: formLimit})
	found := map[bool]int{}
	for _, p := range all {
		p.Front = FrontSize(p.KeepsFlags)
		code, words, stub := redirectable(t, o, &p)
		word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(code[p.Front+at:]))) }
		f := formOf(t, &p, code, stub)
		if want := "#define DP_FORM_" + map[bool]string{false: "PLAIN", true: "FLAGS"}[p.KeepsFlags] + " " + f.String() + "\n"; !strings.Contains(string(header), want) {
			t.Errorf("%#x: form %s is not in stub.h", p.Start, f)
		}
		if on := word(-4); on != int(formPointers-fixture.ArenaAt)+pointerOn {
			t.Errorf("the front of %#x ends with a jump by %#x", p.Start, on)
		}
		if at := f.limit; word(at) != formLimit || at/8 != (at+3)/8 {
			t.Errorf("%#x: the limit at %d is not inside one quad", p.Start, at)
		}
		if next := binary.LittleEndian.Uint64(words[pointerNext:]); next != uint64(fixture.ArenaAt.Add(f.check)) {
			t.Errorf("next is %#x", next)
		}
		if on := binary.LittleEndian.Uint64(words[pointerOn:]); on != uint64(fixture.ArenaAt.Add(int(stub.Body))) {
			t.Errorf("on is %#x", on)
		}
		found[p.KeepsFlags]++
	}
	if found[false] < 25 || found[true] < 25 {
		t.Errorf("%v stubs: this is no test", found)
	}
}
