package match

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/bodyhash"
)

// functions of a build: name, size, and a letter for the code and for what it refers to.
func functions(list ...string) (all []Function) {
	for i, one := range list {
		var name, plain, linked string
		fmt.Sscanf(one, "%s %s %s", &name, &plain, &linked)
		f := Function{Address: uint64(16 * (i + 1)), Size: 16}
		if name != "-" {
			f.Name, f.Shown = name, name
		}
		if plain != "-" {
			f.Body = bodyhash.Body{Plain: bodyhash.Hash{plain[0]}, Linked: bodyhash.Hash{plain[0], linked[0]}}
			for _, c := range plain {
				f.Body.Shape = append(f.Body.Shape, uint16(c))
			}
			slices.Sort(f.Body.Shape)
		}
		all = append(all, f)
	}
	return all
}

func TestFunctions(t *testing.T) {
	for _, row := range []struct {
		name string
		a, b []Function
		want string
	}{
		{"names come first", functions("f a 1", "g b 1"), functions("g a 1", "f b 1"), "0-1 name, 1-0 name, "},
		{"what it refers to tells twins", functions("- a 1", "- a 2"), functions("- a 2", "- a 1"), "0-1 body, 1-0 body, "},
		{"a callee has changed", functions("- a 1"), functions("- a 2"), "0-0 body, "},
		{"twins beside one that is known", functions("- a 1", "- b 1", "- a 1"), functions("- x 1", "- a 1", "- b 1", "- a 1"), "1-2 body, 2-3 body, 0-1 body, "},
		{"a name against another", functions("f abcd 1"), functions("g zbcd 1"), ""},
		{"renamed", functions("f a 1"), functions("g a 1"), "0-0 body, "},
		{"changed between two", functions("- a 1", "- bxyz 1", "- c 1"), functions("- a 1", "- dxyz 1", "- exyw 1", "- c 1"), "0-0 body, 2-3 body, 1-1 similar, "},
		{"changed too much", functions("- a 1", "- bxyz 1", "- c 1"), functions("- a 1", "- devw 1", "- c 1"), "0-0 body, 2-2 body, "},
		{"no code is read", functions("f - -", "- - -", "g - -"), functions("f - -", "- - -", "g - -"), "0-0 name, 2-2 name, "},
	} {
		got := ""
		for _, p := range Functions(row.a, row.b) {
			got += fmt.Sprintf("%d-%d %s, ", p.A, p.B, p.By)
		}
		if got != row.want {
			t.Errorf("%s: %s, not %s", row.name, got, row.want)
		}
	}
}

// TestReferred: of two functions of the same code what they name at the same place is the same.
func TestReferred(t *testing.T) {
	a, b := functions("f a 1", "- bxyz 1", "- c 1"), functions("f a 2", "- - -", "- dxyz 1", "- euvw 1")
	a[0].Body.Refers, b[0].Body.Refers = []uint64{0x1234, a[1].Address, a[2].Address}, []uint64{0x4321, b[2].Address, b[3].Address}
	if got := Functions(a, b); !slices.Equal(got, []Pair{{0, 0, ByName}, {1, 2, ByCaller}}) {
		t.Errorf("%v", got)
	}
}
