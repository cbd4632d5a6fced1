package emit

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
	"github.com/dynprof/dynprof/stubgen/internal/fixture"
)

// siteForms are the stubs of call sites that there are, by the words of docs/stubs.md.
var siteForms = map[string]CallSite{
	"plain":        {},
	"flags":        {KeepsFlags: true},
	"shared":       {Shared: fixture.SharedAt},
	"shared flags": {Shared: fixture.SharedAt, KeepsFlags: true},
}

const (
	calleeAt  = 0x4010e0               // its window
	calleeRun = fixture.ArenaAt + 0x40 // its stub
)

// emitSite writes a form, and returns its code, how long its count is, and what tells of it.
func emitSite(t *testing.T, form string) (code []byte, count int, origins *Origins) {
	t.Helper()
	s := siteForms[form]
	s.Callee, s.Counter, s.To = calleeAt, 0x88, calleeRun
	e := Emitter{Origins: &Origins{Base: fixture.ArenaAt}}
	code = make([]byte, CallSiteSize(s.KeepsFlags))
	count, err := e.EmitCallSite(&stubgen.Object{}, &s, code, fixture.ArenaAt)
	if err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	return code, count, e.Origins
}

// TestCallSite: the stub begins as those that pausing knows, and is a way to the callee's
// entry that goes on in its stub.
func TestCallSite(t *testing.T) {
	for form, s := range siteForms {
		code, count, origins := emitSite(t, form)
		if want := CountSize(s.KeepsFlags, false, s.Shared != 0); count != want || len(code)%Alignment != 0 {
			t.Errorf("%s: a count of %d bytes, not %d, of %d", form, count, want, len(code))
		}
		var in x86.Inst
		if err := x86.Decode(code[count:], &in); err != nil || in.Kind != x86.Jmp || in.BranchTarget(code[count:], uint64(fixture.ArenaAt)+uint64(count)) != uint64(calleeRun) {
			t.Errorf("%s: % x does not go on in the callee's stub", form, code[count:])
		}
		for _, b := range code[count+JumpSize:] {
			if b != opInt3 {
				t.Errorf("%s: % x behind the jump", form, code[count+JumpSize:])
			}
		}
		ref := ArenaRef{At: uint64(fixture.ArenaAt)}
		list := ref.Read(origins.Records, origins.Lengths)
		if len(list) != 1 || list[0].From != calleeAt || list[0].Count != count || list[0].KeepsFlag != s.KeepsFlags || len(list[0].Copies) != 0 || list[0].Front != 0 {
			t.Errorf("%s: %+v", form, list)
		}
		if origins.Records[originFlags]&(originWay|originCopy|originNote) != originWay {
			t.Errorf("%s: flags %#x", form, origins.Records[originFlags])
		}
	}
}

// siteMark names a listing of docs/stubs.md.
var siteMark = regexp.MustCompile("(?s)<!-- call site ([a-z ]+) -->\n(\n```\n.*?```\n)?")

// TestCallSiteDocs keeps the listings of call sites in docs/stubs.md what the code emits.
func TestCallSiteDocs(t *testing.T) {
	const path = "../../docs/stubs.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	listings := 0
	want := siteMark.ReplaceAllStringFunc(string(doc), func(old string) string {
		form := siteMark.FindStringSubmatch(old)[1]
		if _, ok := siteForms[form]; !ok {
			t.Fatalf("%s has call site %q", path, form)
		}
		listings++
		code, count, _ := emitSite(t, form)
		text := fixture.Disassemble(t, code[:count+JumpSize], uint64(fixture.ArenaAt))
		return fmt.Sprintf("<!-- call site %s -->\n\n```\n%s\n```\n", form, strings.TrimRight(text, "\n"))
	})
	fixture.Compare(t, path, want, "go test ./stubgen/emit -update")
	if listings < len(siteForms) {
		t.Errorf("%d listings in %s", listings, path)
	}
}
