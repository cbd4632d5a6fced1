package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compiled is an object file of C, in a folder of that name.
func compiled(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("gcc", append(flags, "-O2", "-x", "c", "-c", "-o", path, "-")...)
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// linked is one object made of others.
func linked(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "whole.o")
	if out, err := exec.Command("ld", append([]string{"-r", "-o", path}, parts...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

const hidden = "__attribute__((visibility(\"hidden\"))) "

// faults are what nothing that is resident may have.
var faults = []struct {
	name, source string
	flags        []string
	says         string
}{
	{"needs libc", "int puts(const char *); void dp_two(const char *s) { puts(s); puts(s); }", []string{"-fPIC"}, "needs puts of others"},
	{"vectors", "double dp_two(double a) { return a * 2; }", []string{"-fPIC"}, "dp_two touches a vector register"},
	{"x87", "long double dp_two(long double a) { return a * a; }", []string{"-fPIC"}, "dp_two touches a vector register"},
	{"saves them", "void dp_two(void *p) { __builtin_ia32_fxsave64(p); }", []string{"-fPIC", "-mfxsr"}, "dp_two touches a vector register"},
	{"has a place", "static int at[9]; int *dp_two(long i) { return &at[i]; }", []string{"-fno-pie", "-mcmodel=large"}, ".text has a relocation R_X86_64_64"},
	{"by a table", "extern int dp_there; int dp_two(void) { return dp_there; } int dp_there;", []string{"-fPIC"}, "has a relocation R_X86_64_REX_GOTPCRELX"},
	{"a table of addresses", "static int a, b; int *dp_both[] = {&a, &b};", []string{"-fPIC"}, ".data.rel.local has a relocation R_X86_64_64"},
	{"a constructor", "static int a; __attribute__((constructor)) static void dp_two(void) { a++; }", []string{"-fPIC"}, ".init_array has a relocation R_X86_64_64"},
	{"of a thread", "__thread int dp_a; int dp_two(void) { return dp_a; }", []string{"-fPIC"}, "has a relocation R_X86_64_TLSGD"},
}

// TestCheck: what is put in is found, and nothing else.
func TestCheck(t *testing.T) {
	good := compiled(t, "good.o", "int dp_one(int a) { return 3 * a; }", "-fPIC", "-mgeneral-regs-only")
	calls := compiled(t, "calls.o", hidden+"int dp_one(int); int dp_two(int a) { return dp_one(a) + dp_one(a + 1); }", "-fPIC")
	twice := compiled(t, "twice.o", "double dp_two(double a) { return a * 2; }", "-fPIC")
	for _, row := range []struct {
		name  string
		rules rules
		parts []string
		says  string
	}{
		{"calls ours", rules{interfaces: []string{"dp_two"}}, []string{good, calls}, ""},
		{"is not there", rules{interfaces: []string{"dp_three"}}, []string{good, calls}, "has no dp_three"},
		{"may touch them", rules{vectors: []string{"dp_two"}}, []string{good, twice}, ""},
		{"does not", rules{vectors: []string{"dp_two"}}, []string{good, calls}, "dp_two touches no vector register"},
	} {
		t.Run(row.name, func(t *testing.T) { expect(t, row.rules, linked(t, row.parts...), row.parts, row.says) })
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			parts := []string{good, compiled(t, "file.o", f.source, f.flags...)}
			expect(t, rules{}, linked(t, parts...), parts, f.says)
		})
	}
}

func expect(t *testing.T, r rules, object string, parts []string, says string) {
	t.Helper()
	problems, err := r.check(object, parts)
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(problems, "\n"); says == "" && all != "" || !strings.Contains(all, says) {
		t.Errorf("%q, not %q", all, says)
	}
}

// TestOurs: the object that the library is linked with (make) passes, and with any
// fault put in it does not.
func TestOurs(t *testing.T) {
	const ours = "../../libdynprof/resident_linux_amd64.syso"
	if _, err := os.Stat(ours); err != nil {
		t.Skip("make builds what is checked here: ", err)
	}
	r := rules{vectors: []string{"dp_keeper", "dp_on_stack", "dp_on_stack_over", "dp_store_vector", "dp_mask_word", "dp_mask_quad"}}
	if _, err := r.readInterface("../../libdynprof/resident/interface.sym"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, ours, nil, "")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			expect(t, r, linked(t, ours, compiled(t, "file.o", f.source, f.flags...)), nil, f.says)
		})
	}
}

// TestCircle: files that need each other, by way of a third, are found.
func TestCircle(t *testing.T) {
	calls := func(from, to string) string {
		return compiled(t, from+".o", hidden+"int "+to+"(int); int "+from+"(int a) { return "+to+"(a) + "+to+"(2 * a); }", "-fPIC")
	}
	end := compiled(t, "end.o", "int end(int a) { return a; }", "-fPIC")
	one, two, three, out := calls("one", "two"), calls("two", "three"), calls("three", "one"), calls("three", "end")
	round := "files need each other: " + strings.Join([]string{one, two, three, one}, " -> ")
	for _, row := range []struct {
		parts []string // of one thing
		paths []string
		says  string
	}{
		{nil, []string{one, two, out, end}, ""},
		{nil, []string{one, two, three, end}, round},
		{[]string{one, end}, []string{one, two, three, end}, round},
		{[]string{one, three}, []string{one, two, three, end}, ""},
	} {
		r := rules{one: row.parts}
		problems, err := r.graph(row.paths)
		if all := strings.Join(problems, "\n"); err != nil || all != row.says {
			t.Errorf("%q, %v, not %q", all, err, row.says)
		}
	}
}

// TestOrder: a folder may need those before it, by symbols and by headers.
func TestOrder(t *testing.T) {
	low := compiled(t, "low/a.o", "int dp_low(int a) { return a; }", "-fPIC")
	high := compiled(t, "high/b.o", hidden+"int dp_low(int); int dp_high(int a) { return dp_low(a) + 1; }", "-fPIC")
	reads := compiled(t, "low/c.o", "int dp_reads(int a) { return a; }", "-fPIC")
	list := "c.o: low/c.c /x/resident/low/c.h \\\n /x/resident/high/b.h /x/resident/../public.h /usr/include/stdio.h\n"
	if err := os.WriteFile(strings.TrimSuffix(reads, ".o")+".d", []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		order []string
		parts []string
		says  string
	}{
		{[]string{"low", "high"}, []string{low, high}, ""},
		{[]string{"high", "low"}, []string{low, high}, high + " needs " + low + ", of a later folder"},
		{[]string{"low"}, []string{low, high}, high + " lies in no folder of the order [low]"},
		{[]string{"low", "high"}, []string{reads}, reads + " needs /x/resident/high/b.h, of a later folder"},
		{[]string{"high", "low"}, []string{reads}, ""},
	} {
		r := rules{order: row.order}
		problems, err := r.graph(row.parts)
		if all := strings.Join(problems, "\n"); err != nil || all != row.says {
			t.Errorf("%q, %v, not %q", all, err, row.says)
		}
	}
}

// TestNoObject: other files are errors.
func TestNoObject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.o")
	if err := os.WriteFile(path, []byte("no object"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, "/nowhere.o"} {
		if _, err := new(rules).check(p, nil); err == nil {
			t.Errorf("%s is taken", p)
		}
	}
}
