package elfscan

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// TestPreemptible: in this program itself nobody is preempted between the comparison of the stack
// with its end, by which most functions begin, and the jump behind it; but where they go on.
func TestPreemptible(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file := bytes.NewReader(content)
	list, err := Preemptible(file, file.Size())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range list {
		if r.Low >= r.High || i > 0 && list[i-1].High >= r.Low {
			t.Fatalf("%x %x", list[i-1], r)
		}
	}
	isIn := func(at uint64) bool {
		return slices.ContainsFunc(list, func(r Range) bool { return r.Low <= at && at < r.High })
	}
	o, err := Scan(file, file.Size())
	if err != nil {
		t.Fatal(err)
	}
	text := o.Segments[slices.IndexFunc(o.Segments, func(s Segment) bool { return s.Flags&1 != 0 })]
	seen, goesOn := 0, 0
	for _, f := range o.Functions {
		begin := []byte{0x49, 0x3b, 0x66, 0x10, 0x76} // cmp 0x10(%r14),%rsp; jbe …
		if f.Addr < text.Addr || f.Addr+f.Size > text.Addr+text.FileSize || !bytes.HasPrefix(content[text.Offset+f.Addr-text.Addr:], begin) {
			continue
		}
		if seen++; isIn(f.Addr + 4) {
			t.Errorf("%s may be preempted in front of the jump", f.Name)
		}
		if isIn(f.Addr + 6) {
			goesOn++
		}
	}
	if seen < 500 || goesOn < seen/2 {
		t.Errorf("%d functions, %d of them may be preempted behind the jump", seen, goesOn)
	}
	if list, err := Preemptible(bytes.NewReader(content[:64]), 64); len(list) > 0 && err == nil {
		t.Error("a file that is cut has a table")
	}
}
