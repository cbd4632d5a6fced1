package stubgen

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
)

// TestRedirectable: every stub has one of the two forms that libdynprof knows,
// with the limit of its check inside one aligned quad, which is stored at once
// while others run there.
func TestRedirectable(t *testing.T) {
	source, err := os.ReadFile("../libdynprof/redirect.c")
	if err != nil {
		t.Fatal(err)
	}
	forms := regexp.MustCompile(`struct dp_form (\w+) = (\{[^}]*\})`).FindAllStringSubmatch(string(source), -1)
	if len(forms) != 2 {
		t.Fatalf("%d forms", len(forms))
	}
	const counter, limit = 0x1238, 0x12345678
	const pointers = arenaAt + 0x3000
	o := load(t, link(t, "testdata/entries.s"))
	found := map[bool]int{}
	for _, p := range NewSurvey(o, 1).Plans(Options{Redirectable: true}, 1, nil) {
		if !p.Counted() {
			continue
		}
		var e Emitter
		buf, front, words := make([]byte, p.Size), make([]byte, p.Front), make([]byte, PointersSize)
		stub, err := e.Emit(o, &p, buf, arenaAt, Count{Counter: counter, Threshold: limit,
			Cold: make([]byte, ColdSize), ColdAt: arenaAt.Add(0x1000), ColdCommon: arenaAt.Add(0x2000),
			Front: front, Pointers: words, PointersAt: pointers})
		if err != nil {
			t.Fatal(err)
		}
		all := append(front, buf...)
		word := func(at int) int { return int(int32(binary.LittleEndian.Uint32(all[at:]))) }
		offset := func(text string) int { // of the instruction that objdump prints so
			var in x86.Inst
			for at := 0; at < int(p.Front)+int(stub.Body); at += int(in.Len) {
				if err := x86.Decode(all[at:], &in); err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprintf("%x", all[at:at+int(in.Len)]); regexp.MustCompile("^" + text).MatchString(got) {
					return at - int(p.Front)
				}
			}
			t.Fatalf("no %s in % x", text, all)
			return 0
		}
		check := offset("6548813c25")
		lap := offset("f048ff0d")
		arrive := lap
		for at := -int(p.Front); at < 0; at++ {
			if all[at+int(p.Front)] == 0xff && all[at+int(p.Front)+1] == 0x25 &&
				at+6+word(at+int(p.Front)+2) == int(pointers-arenaAt)+pointerArrive {
				arrive = at
			}
		}
		back := -6
		if p.FlagsLive {
			back = offset("047f")
		}
		if on := -6 + 6 + word(int(p.Front)-4); on != int(pointers-arenaAt)+pointerOn {
			t.Errorf("the front of %s ends with a jump by %#x", o.Functions[p.Function].Name, on)
		}
		form := fmt.Sprintf("{%#x, %d, %d, %d, %d, %d, %d, %d, %d, %d}", int(buf[0])|int(buf[1])<<8,
			offset("6548ff0425")+int(p.Front), p.Front, arrive, lap, back, check, check+9, (check+9)&^7, stub.Body)
		want := forms[0][2]
		if p.FlagsLive {
			want = forms[1][2]
		}
		if form != want {
			t.Errorf("%s: form %s, libdynprof has %s", o.Functions[p.Function].Name, form, want)
		}
		if at := check + 9; word(at+int(p.Front)) != limit || at/8 != (at+3)/8 {
			t.Errorf("%s: the limit at %d is not inside one quad", o.Functions[p.Function].Name, at)
		}
		if next := binary.LittleEndian.Uint64(words[pointerNext:]); next != uint64(arenaAt.Add(check)) {
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
