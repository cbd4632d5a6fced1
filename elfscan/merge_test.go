package elfscan

import (
	"fmt"
	"strings"
	"testing"
)

// TestMerge merges what several tables tell of one address, 0x1010.
func TestMerge(t *testing.T) {
	type sym struct {
		name string
		size uint32
		rank uint8
	}
	const local, weak, dynsym, ifunc = rankLocal, rankWeak, rankDynsym, rankIFunc
	for _, row := range []struct {
		name   string
		syms   []sym
		frames []frame
		want   string
	}{
		{"FDE only", nil, []frame{{size: 9, start: startEntry}}, `0x1010+9 "" [] eh_frame  fde=true lsda=false resolver=false`},
		{"FDE of a part", nil, []frame{{size: 9, start: startPart, lsda: true}}, `0x1010+9 "" [] eh_frame cold-part fde=true lsda=true resolver=false`},
		{"folded FDEs", nil, []frame{{size: 4, start: startPart}, {size: 9, start: startEntry}}, `0x1010+9 "" [] eh_frame  fde=true lsda=false resolver=false`},
		{"symbol and FDE of other sizes", []sym{{"f", 7, 0}}, []frame{{size: 9, start: startEntry}}, `0x1010+7 "f" [] symtab  fde=true lsda=false resolver=false`},
		{"symbol without a size", []sym{{"f", 0, 0}}, []frame{{size: 9, start: startEntry}}, `0x1010+9 "f" [] symtab  fde=true lsda=false resolver=false`},
		{"symbol of a part that starts as a function", []sym{{"f.cold", 7, local}}, []frame{{size: 7, start: startEntry}}, `0x1010+7 "f.cold" [] symtab cold-part fde=true lsda=false resolver=false`},
		{"symbol whose FDE starts as a part", []sym{{"f", 7, dynsym}}, []frame{{size: 7, start: startPart}}, `0x1010+7 "f" [] dynsym  fde=true lsda=false resolver=false`},
		{"empty function before a part", []sym{{"f", 0, 0}, {"g.cold", 7, local}}, []frame{{size: 7, start: startPart}}, `0x1010+7 "f" ["g.cold"] symtab cold-part fde=true lsda=false resolver=false`},
		{"function folded with a part", []sym{{"f", 7, 0}, {"g.cold", 7, local}}, []frame{{size: 7, start: startEntry}}, `0x1010+7 "f" ["g.cold"] symtab  fde=true lsda=false resolver=false`},
		{"one name in both tables", []sym{{"f", 7, dynsym}, {"f", 7, 0}}, nil, `0x1010+7 "f" [] symtab  fde=false lsda=false resolver=false`},
		{"local of .symtab before global of .dynsym", []sym{{"a", 7, dynsym}, {"bb", 7, local}}, nil, `0x1010+7 "bb" ["a"] symtab  fde=false lsda=false resolver=false`},
		{"weak before local", []sym{{"a", 7, local}, {"bb", 7, weak}}, nil, `0x1010+7 "bb" ["a"] symtab  fde=false lsda=false resolver=false`},
		{"resolver before what it serves", []sym{{"memcpy", 7, ifunc}, {"choose", 7, local}}, nil, `0x1010+7 "choose" ["memcpy"] symtab  fde=false lsda=false resolver=true`},
		{"shortest, then alphabet", []sym{{"bb", 7, 0}, {"aa", 7, 0}, {"_", 7, 0}, {"ccc", 7, 0}}, nil, `0x1010+7 "aa" ["bb" "ccc" "_"] symtab  fde=false lsda=false resolver=false`},
		{"symbol without a name", []sym{{"", 7, 0}, {"f", 0, dynsym}}, nil, `0x1010+7 "f" [] symtab  fde=false lsda=false resolver=false`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var table symbols
			for _, s := range row.syms {
				table.list = append(table.list, symbol{
					addr: 0x10, size: s.size, rank: s.rank, reason: reasonOfName(s.name),
					name: uint32(len(table.symtab)), nameLen: uint16(len(s.name)),
				})
				table.symtab += s.name
			}
			table.dynsym = table.symtab
			for i := range row.frames {
				row.frames[i].addr = 0x10
			}
			got := merge(0x1000, &table, row.frames)
			fillSizes(got, nil, spans{{0x1000, 0x2000}})
			if len(got) != 1 || got[0].String() != row.want {
				t.Errorf("got  %v\nwant [%v]", got, row.want)
			}
		})
	}
}

// TestMergeBehindEndbr: an FDE that starts 4 bytes behind a symbol describes its
// function; further behind it is a part.
func TestMergeBehindEndbr(t *testing.T) {
	for _, row := range []struct {
		behind uint32
		want   string
	}{
		{4, `[0x1010+32 "f" [] dynsym  fde=true lsda=true resolver=false]`},
		{8, `[0x1010+32 "f" [] dynsym  fde=false lsda=false resolver=false 0x1018+24 "" [] eh_frame cold-part fde=true lsda=true resolver=false]`},
	} {
		table := symbols{list: []symbol{{addr: 0x10, size: 32, rank: rankDynsym, nameLen: 1}}, dynsym: "f"}
		got := merge(0x1000, &table, []frame{{addr: 0x10 + row.behind, size: 32 - row.behind, start: startEntry, lsda: true}})
		if text := fmt.Sprint(got); text != row.want {
			t.Errorf("%d behind: got  %v\nwant %v", row.behind, text, row.want)
		}
	}
}

// TestVersions checks which versions are cut from names of .symtab.
func TestVersions(t *testing.T) {
	for name, want := range map[string]string{
		"memcpy":             "memcpy",
		"memcpy@@GLIBC_2.14": "memcpy",
		"memcpy@GLIBC_2.2.5": "memcpy@GLIBC_2.2.5", // an old one, of another function
		"@@GLIBC_2.14":       "",
	} {
		if got := stripDefaultVersion(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestNotes walks notes of both alignments to the one that is asked for.
func TestNotes(t *testing.T) {
	note := func(align int, kind uint32, name, desc string) []byte {
		b := le.AppendUint32(nil, uint32(len(name)))
		b = le.AppendUint32(b, uint32(len(desc)))
		b = append(le.AppendUint32(b, kind), name...)
		for len(b)%align != 0 {
			b = append(b, 0)
		}
		b = append(b, desc...)
		for len(b)%align != 0 {
			b = append(b, 0)
		}
		return b
	}
	for _, align := range []int{4, 8} {
		b := note(align, 5, "GNU\x00", "property of 13")
		b = append(b, note(align, 3, "Go\x00", "not GNU")...)
		b = append(b, note(align, 3, "GNU\x00", "build id")...)
		if got := string(findNote(b, uint64(align), "GNU\x00", 3)); got != "build id" {
			t.Errorf("align %d: got %q", align, got)
		}
		for n := range len(b) - 1 {
			if got := string(findNote(b[:n], uint64(align), "GNU\x00", 3)); !strings.HasPrefix("build id", got) {
				t.Errorf("align %d, %d bytes: got %q", align, n, got)
			}
		}
	}
	if got := findNote(note(4, 3, "GNU\x00", "id"), 16, "GNU\x00", 3); got != nil {
		t.Errorf("align 16: got %q", got)
	}
}
