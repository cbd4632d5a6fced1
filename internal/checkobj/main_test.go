package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compiled is an object file of C.
func compiled(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	c := exec.Command("gcc", append(flags, "-O2", "-x", "c", "-c", "-o", filepath.Join(t.TempDir(), name), "-")...)
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c.Args[len(c.Args)-2]
}

// TestCheck: what is put in is found, and nothing else.
func TestCheck(t *testing.T) {
	good := compiled(t, "good.o", "int dp_one(int a) { return 3 * a; }", "-fPIC", "-mgeneral-regs-only")
	calls := "__attribute__((visibility(\"hidden\"))) int dp_one(int); int dp_two(int a) { return dp_one(a) + dp_one(a + 1); }"
	for _, row := range []struct {
		name, source string
		flags        []string
		may, vectors []string
		says         string
	}{
		{"calls ours", calls, []string{"-fPIC"}, nil, nil, ""},
		{"needs libc", "int puts(const char *); void dp_two(const char *s) { puts(s); puts(s); }", []string{"-fPIC"}, nil, nil, "needs puts"},
		{"may need it", "int puts(const char *); void dp_two(const char *s) { puts(s); puts(s); }", []string{"-fPIC"}, []string{"puts"}, nil, ""},
		{"needs it no more", calls, []string{"-fPIC"}, []string{"puts"}, nil, "nothing needs puts"},
		{"vectors", "double dp_two(double a) { return a * 2; }", []string{"-fPIC"}, nil, nil, "dp_two touches a vector register"},
		{"x87", "long double dp_two(long double a) { return a * a; }", []string{"-fPIC"}, nil, nil, "dp_two touches a vector register"},
		{"saves them", "void dp_two(void *p) { __builtin_ia32_fxsave64(p); }", []string{"-fPIC", "-mfxsr"}, nil, nil, "dp_two touches a vector register"},
		{"may touch them", "double dp_two(double a) { return a * 2; }", []string{"-fPIC"}, nil, []string{"file.o"}, ""},
		{"has a place", "static int at[9]; int *dp_two(long i) { return &at[i]; }", []string{"-fno-pie", "-mcmodel=large"}, nil, nil, "has a relocation R_X86_64_64"},
		{"a table of addresses", "extern int dp_there; int dp_two(void) { return dp_there; } int dp_there;", []string{"-fPIC"}, nil, nil, "has a relocation R_X86_64_REX_GOTPCRELX"},
	} {
		t.Run(row.name, func(t *testing.T) {
			problems, err := check([]string{good, compiled(t, "file.o", row.source, row.flags...)}, row.may, row.vectors)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(problems, "\n"); row.says == "" && all != "" || !strings.Contains(all, row.says) {
				t.Errorf("%q, not %q", all, row.says)
			}
		})
	}
}

// TestCircle: files that need each other, by way of a third, are found.
func TestCircle(t *testing.T) {
	hidden := "__attribute__((visibility(\"hidden\"))) "
	calls := func(from, to string) string {
		return compiled(t, from+".o", hidden+"int "+to+"(int); int "+from+"(int a) { return "+to+"(a) + "+to+"(2 * a); }", "-fPIC")
	}
	end := compiled(t, "end.o", "int end(int a) { return a; }", "-fPIC")
	one, two, three, out := calls("one", "two"), calls("two", "three"), calls("three", "one"), calls("three", "end")
	for _, row := range []struct {
		paths []string
		says  string
	}{
		{[]string{one, two, out, end}, ""},
		{[]string{one, two, three, end}, "files need each other: " + strings.Join([]string{one, two, three, one}, " -> ")},
	} {
		problems, err := check(row.paths, nil, nil)
		if all := strings.Join(problems, "\n"); err != nil || len(problems) > 1 || strings.Contains(all, "each other") != (row.says != "") || row.says != "" && len(all) != len(row.says) {
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
		if _, err := check([]string{p}, nil, nil); err == nil {
			t.Errorf("%s is taken", p)
		}
	}
}
