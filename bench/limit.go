package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The limit program: a workload with stubs written by hand into the compiler's
// output, to show what the machine allows. Nothing is planned or scanned; what
// remains is the price of the instructions. All code stays where it is without
// stubs: some loops take 20 % longer when they are moved by 16 bytes.
//
//	f:    push %rbp       f:    jmp  stub        stub:  incq counter    jump
//	      push %rbx             int3 ...                push %rbp
//	      mov  %rdi,%rbx  rest: sub  $8,%rsp            push %rbx
//	      sub  $8,%rsp          ...                     mov  %rdi,%rbx
//	      ...                                           jmp  rest
//
//	                      f:    jmp  stub        stub:  incq counter    whole
//	                            int3 ...                push %rbp
//	                                                    ...

// style is one kind of stub.
type style struct {
	name, about, count string
	whole              bool
	direct             bool // calls lead to the stub, not to the entry
}

var styles = []style{
	{"limit-jump", "by hand: jump, inc, jump back", "incq limit_counters+%d(%%rip)", false, false},
	{"limit-whole", "by hand: jump, inc, whole body", "incq limit_counters+%d(%%rip)", true, false},
	{"limit-jump-gs", "by hand: jump, inc %gs:, jump back", "incq %%gs:%d", false, false},
	{"limit-whole-gs", "by hand: jump, inc %gs:, whole body", "incq %%gs:%d", true, false},
	{"limit-direct-gs", "by hand: callers changed, inc %gs:, jump back", "incq %%gs:%d", false, true},
	{"limit-lock", "by hand: jump, lock inc, jump back", "lock incq limit_counters+%d(%%rip)", false, false},
}

var limits = limitTools()

func limitTools() []*tool {
	var all []*tool
	for _, s := range styles {
		t := &tool{
			name: s.name, about: s.about,
			wants: func(w *workload) bool { return w.calls != nil && w.source != "" },
			program: func(m *machine, w *workload) (string, string, error) {
				program, err := m.limitProgram(w, s)
				return w.program, program, err
			},
			read: func(_ *machine, r *run) (counts, error) { return readPairs(string(r.stderr)) },
		}
		if strings.HasPrefix(s.count, "lock") {
			t.pace = medium
		}
		all = append(all, t)
	}
	return all
}

// limitProgram builds a workload with stubs by hand.
func (m *machine) limitProgram(w *workload, s style) (string, error) {
	listing := filepath.Join(m.work, "bin", w.name+"-limit.s")
	err := m.once(listing, func() error {
		_, err := m.tool("gcc", "-O2", "-pthread", "-fno-asynchronous-unwind-tables", "-S", filepath.Join(m.sources, w.source), "-o", listing)
		return err
	})
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(listing)
	if err != nil {
		return "", err
	}
	name := w.name + "-" + s.name
	assembly := filepath.Join(m.work, "bin", name+".s")
	shapes, err := m.shapes(listing, assembly+".o")
	if err != nil {
		return "", err
	}
	stubbed, err := withStubs(string(text), slices.Sorted(maps.Keys(w.calls(1))), shapes, s)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(assembly, []byte(stubbed), 0o644); err != nil {
		return "", err
	}
	return m.build(name, "gcc", "-O2", "-pthread", assembly, filepath.Join(m.sources, "limit.c"))
}

// shape is the length in bytes of a function and of its instructions in order,
// with the padding behind it.
type shape struct {
	bytes        int
	instructions []int
}

// shapes are those of the functions in an assembly file.
func (m *machine) shapes(assembly, object string) (map[string]*shape, error) {
	if _, err := m.tool("gcc", "-c", assembly, "-o", object); err != nil {
		return nil, err
	}
	symbols, err := m.tool("nm", "-S", object)
	if err != nil {
		return nil, err
	}
	all := map[string]*shape{}
	for line := range strings.Lines(symbols) {
		var address, bytes int
		var kind, name string
		if k, _ := fmt.Sscanf(line, "%x %x %s %s", &address, &bytes, &kind, &name); k == 4 {
			all[name] = &shape{bytes: bytes}
		}
	}
	text, err := m.tool("objdump", "-d", "-w", object)
	if err != nil {
		return nil, err
	}
	var in *shape
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if _, after, ok := strings.Cut(line, " <"); ok && strings.HasSuffix(line, ">:") {
			in = all[strings.TrimSuffix(after, ">:")]
		} else if columns := strings.Split(line, "\t"); in != nil && len(columns) >= 2 && strings.HasSuffix(columns[0], ":") {
			in.instructions = append(in.instructions, len(strings.Fields(columns[1])))
		}
	}
	return all, nil
}

// jumpLength is that of a jmp rel32.
const jumpLength = 5

// withStubs gives the named functions of an assembly file stubs, in that order. It
// uses shapes up.
func withStubs(text string, names []string, shapes map[string]*shape, s style) (string, error) {
	if s.direct {
		text = toStubs(text, names)
	}
	bodies := bodies(text)
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(bodies[a].from, bodies[b].from) })
	var code, stubs, table strings.Builder
	at := 0
	for i, name := range names {
		f, ok := bodies[name]
		if !ok || f.to < 0 || shapes[name] == nil {
			return "", fmt.Errorf("the compiler's output has no function %s", name)
		}
		moved, rest, bytes, err := split(text[f.from:f.to], shapes[name], s.whole)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&stubs, "\t.p2align 4\nstub.%s:\n\t"+s.count+"\n%s", name, 8*i, moved)
		if rest != "" {
			fmt.Fprintf(&stubs, "\tjmp rest.%s\n", name)
		}
		code.WriteString(text[at:f.from])
		fmt.Fprintf(&code, "\t.byte 0xe9\n\t.long stub.%s - . - 4\n\t.skip %d, 0xcc\nrest.%s:\n%s", name, bytes-jumpLength, name, rest)
		at = f.to
		fmt.Fprintf(&table, "\t.quad 1f\n\t.section .rodata\n1:\t.string \"%s\"\n\t.section .data.rel.ro\n", name)
	}
	code.WriteString(text[at:])
	return fmt.Sprintf(`%s
	.section .stubs,"ax",@progbits
%s	.section .data.rel.ro,"aw"
	.globl limit_names
	.p2align 3
limit_names:
%s	.section .rodata
	.globl limit_functions
	.p2align 3
limit_functions:
	.quad %d
`, code.String(), stubs.String(), table.String(), len(names)), nil
}

// body is where a function's lines are in a text.
type body struct{ from, to int }

// bodies finds functions: the lines between a label and the .size of that name.
func bodies(text string) map[string]body {
	all, at := map[string]body{}, 0
	for line := range strings.Lines(text) {
		if name, ok := strings.CutSuffix(line, ":\n"); ok && line[0] != '.' {
			all[name] = body{at + len(line), -1}
		} else if after, ok := strings.CutPrefix(line, "\t.size\t"); ok {
			name, _, _ := strings.Cut(after, ",")
			if f, ok := all[name]; ok {
				all[name] = body{f.from, at}
			}
		}
		at += len(line)
	}
	return all
}

// toStubs has direct calls of the named functions, and jumps, lead to their stubs.
func toStubs(text string, names []string) string {
	var all []string
	for _, name := range names {
		for _, how := range []string{"call", "jmp"} {
			for _, behind := range []string{"\n", "@PLT\n"} {
				all = append(all, "\t"+how+"\t"+name+behind, "\t"+how+"\tstub."+name+"\n")
			}
		}
	}
	return strings.NewReplacer(all...).Replace(text)
}

// split divides a function's assembly into what moves into the stub, which is
// long enough for a jump or all of it, and what stays. bytes is the length of
// what moves.
func split(body string, f *shape, whole bool) (moved, rest string, bytes int, err error) {
	if strings.Contains(body, "\t.section") || strings.Contains(body, "\t.text") {
		return "", "", 0, errors.New("it is not one piece of code")
	}
	if whole {
		return body, "", f.bytes, atLeast(f.bytes)
	}
	at := 0
	for line := range strings.Lines(body) {
		if bytes >= jumpLength {
			break
		}
		at += len(line)
		if line[0] != '\t' && line[0] != '#' || strings.HasPrefix(line, "\t.p2align") {
			return "", "", 0, errors.New("a label or padding in the window")
		}
		if line[0] == '\t' && line[1] != '.' {
			bytes, f.instructions = bytes+f.instructions[0], f.instructions[1:]
		}
	}
	return body[:at], body[at:], bytes, atLeast(bytes)
}

func atLeast(bytes int) error {
	if bytes < jumpLength {
		return errors.New("it is shorter than a jump")
	}
	return nil
}
