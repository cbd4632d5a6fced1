package stubgen

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// TestRedirectable: every stub has one of the two forms that libdynprof knows
// (TestStubHeader), with the limit of its check inside one aligned quad, which is
// stored at once while others run there.
func TestRedirectable(t *testing.T) {
	header, err := os.ReadFile("../libdynprof/resident/stubs/stub.h")
	if err != nil {
		t.Fatal(err)
	}
	o := load(t, link(t, "testdata/entries.s"))
	found := map[bool]int{}
	for _, p := range NewSurvey(o, 1).Plans(Options{Redirectable: true}, 1, nil) {
		if !p.Counted() {
			continue
		}
		name := o.Functions[p.Function].Name
		code, words, stub := redirectable(t, o, &p)
		word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(code[int(p.Front)+at:]))) }
		f := formOf(t, &p, code, stub)
		if want := "#define DP_FORM_" + map[bool]string{false: "PLAIN", true: "FLAGS"}[p.FlagsLive] + " " + f.String() + "\n"; !strings.Contains(string(header), want) {
			t.Errorf("%s: form %s is not in stub.h", name, f)
		}
		if on := word(-4); on != int(formPointers-arenaAt)+pointerOn {
			t.Errorf("the front of %s ends with a jump by %#x", name, on)
		}
		if at := f.limit; word(at) != formLimit || at/8 != (at+3)/8 {
			t.Errorf("%s: the limit at %d is not inside one quad", name, at)
		}
		if next := binary.LittleEndian.Uint64(words[pointerNext:]); next != uint64(arenaAt.Add(f.check)) {
			t.Errorf("next is %#x", next)
		}
		if on := binary.LittleEndian.Uint64(words[pointerOn:]); on != uint64(arenaAt.Add(int(stub.Body))) {
			t.Errorf("on is %#x", on)
		}
		found[p.FlagsLive]++
	}
	if found[false] < 25 || found[true] < 2 {
		t.Errorf("%v stubs: this is no test", found)
	}
}
