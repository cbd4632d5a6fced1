package objcode

import "testing"

func TestAccesses(t *testing.T) {
	image := &Image{[]Segment{{Addr: 0x1000, Code: []byte("" +
		"\x50" + // push %rax
		"\x48\x03\x03" + // add (%rbx),%rax
		"\x01\x03" + // add %eax,(%rbx)
		"\xf0\x0f\xc1\x03" + // lock xadd %eax,(%rbx)
		"\xa4" + // movsb
		"\xf3\xa4" + // rep movsb
		"\xc4\xe2\x7d\x2c\x03" + // vmaskmovps (%rbx),%ymm0,%ymm0
		"\x0f\x18\x0b" + // prefetcht0 (%rbx)
		"\xff\x13")}}} // call *(%rbx)
	want := Accesses{Loads: 5, Stores: 5, Modifies: 2, Atomics: 1, LoadBytes: 8 + 4 + 4 + 1 + 8, StoreBytes: 8 + 4 + 4 + 1 + 8, Untold: 2}
	if got := image.Accesses(0x1000, 23); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	var thrice Accesses
	thrice.Add(want, 3)
	if thrice.Loads != 15 || thrice.Untold != 6 || thrice.StoreBytes != 75 || thrice.More() != "+" || (&Accesses{}).More() != "" {
		t.Errorf("%+v", thrice)
	}
}
