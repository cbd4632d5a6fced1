package main

import (
	"debug/elf"
	"encoding/binary"
	"strconv"
	"strings"
)

// explain leaves out of a comparison with callgrind what that cannot see, and
// what dynprof does not count:
//
//   - In a stripped program a jump from one function to another's entry, a tail
//     call, is none to callgrind: no symbol tells it that a function begins there.
//     Then it has fewer calls than dynprof, never more. Only functions that a
//     jump can lead to are left out: the target of a direct one, or an address
//     that code or data hold.
//   - Valgrind's CPU is another one, so who asks what a CPU can, and calls a function
//     for each feature as libgcc does, calls it more or less often.
//   - IFUNC resolvers run before dynprof's constructor: in an object that has
//     some, callgrind may have two calls more.
//   - Functions that vary from run to run.
func explain(m *machine, table *tableFacts, varies map[string]bool, ours, theirs counts) (counts, counts, error) {
	left, right := counts{}, counts{}
	for at, name := range table.names {
		if theirs[name] != ours[name] {
			o, err := m.reach(at.object)
			if err != nil {
				return nil, nil, err
			}
			if varies[name] || o.cpuid[at.address] || theirs[name] < ours[name] && o.targets[at.address] || o.resolvers && theirs[name] <= ours[name]+2 {
				continue
			}
		}
		left[name], right[name] = ours[name], theirs[name]
	}
	return left, right, nil
}

// reach is where jumps of an object may lead.
type reach struct {
	targets   map[uint64]bool
	cpuid     map[uint64]bool // what is called soon behind a cpuid instruction
	resolvers bool            // it has IFUNCs
}

// reach reads an object, once.
func (m *machine) reach(object string) (*reach, error) {
	if r := m.reached[object]; r != nil {
		return r, nil
	}
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &reach{targets: map[uint64]bool{}, cpuid: map[uint64]bool{}}
	m.reached[object] = r
	symbols, _ := f.DynamicSymbols()
	for _, s := range symbols {
		r.resolvers = r.resolvers || elf.ST_TYPE(s.Info) == elf.STT_GNU_IFUNC
	}
	// Words of data, and addends of relocations, which are words, too.
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || s.Type == elf.SHT_NOBITS {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return nil, err
		}
		for ; len(b) >= 8; b = b[8:] {
			r.targets[binary.LittleEndian.Uint64(b)] = true
		}
	}
	return r, m.codeTargets(object, r)
}

// soon is how many instructions behind a cpuid the features are looked at.
const soon = 1000

// codeTargets adds the addresses that instructions jump to, compute or store; the
// last two forms are of programs that are not position independent.
//
//	1234:	jmp    1000 <name>
//	1239:	lea    0x10(%rip),%rax        # 1250 <name>
//	1240:	mov    $0x1250,%esi
//	1245:	movq   $0x1250,0x10(%rip)     # 1260 <name>
func (m *machine) codeTargets(object string, r *reach) error {
	text, err := m.tool("objdump", "-d", "--no-show-raw-insn", "-j", ".text", object)
	if err != nil {
		return err
	}
	add := func(set map[uint64]bool, address string) {
		if at, err := strconv.ParseUint(address, 16, 64); err == nil {
			set[at] = true
		}
	}
	behind := soon
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if behind++; len(words) == 2 && words[1] == "cpuid" {
			behind = 0
		}
		if len(words) < 3 {
			continue
		}
		if words[1][0] == 'j' {
			add(r.targets, words[2])
		} else if words[1] == "call" && behind < soon {
			add(r.cpuid, words[2])
		}
		if _, after, ok := strings.Cut(line, "# "); ok {
			add(r.targets, strings.Fields(after)[0])
		}
		if _, after, ok := strings.Cut(words[2], "$0x"); ok {
			after, _, _ = strings.Cut(after, ",")
			add(r.targets, after)
		}
	}
	return nil
}
