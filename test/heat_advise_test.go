package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// What hotspots advise says, and what comes of it.

type advice struct {
	Heat   bool
	Advice []struct {
		Kind, Memory, Proof  string
		Pages, Before, After int
	}
	Overlay []struct {
		Address      string
		Pages, Frame int
		First, Last  int
	}
}

func adviceOf(t *testing.T, table string) (a advice) {
	t.Helper()
	r := run(t, cmd(build(t, "hotspots"), "advise", table, "--format", "json"))
	if err := json.Unmarshal([]byte(r.stdout), &a); err != nil || r.status != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	return a
}

// scattered is the source of a program of which a tenth of the functions runs, each of some
// 200 bytes.
func scattered() string {
	const functions, each = 300, 10
	var text, calls strings.Builder
	for i := range functions {
		fmt.Fprintf(&text, "__attribute__((noinline)) static unsigned f%d(unsigned n)\n{\n", i)
		for k := range 12 {
			fmt.Fprintf(&text, "\tn = (n ^ %du) * %du + (n >> %d);\n", 77*i+k, 2*k+3, k+1)
		}
		text.WriteString("\treturn n;\n}\n")
		call := fmt.Sprintf("\tn += f%d(n);\n", i)
		if i%each != 0 {
			call = "\tif (argc > 1)\n\t" + call
		}
		calls.WriteString(call)
	}
	return "#include <stdio.h>\n" + text.String() + "int main(int argc, char **argv)\n{\n\tunsigned n = argc;\n\t(void)argv;\n" + calls.String() + "\tprintf(\"%u\\n\", n);\n\treturn 0;\n}\n"
}

// executedPages are those of a program's own file, by what hotspots heat says.
func executedPages(t *testing.T, table, program string) (n int) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(run(t, cmd(build(t, "hotspots"), "heat", table, "--format", "csv")).stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[0] == program && row[5] == "true" {
			pages, err := strconv.Atoi(row[2])
			if err != nil {
				t.Fatal(err)
			}
			n += pages
		}
	}
	return n
}

// TestAdviseOrder: a program that is linked again in the order that is advised runs on as many
// pages as were promised, and says the same.
func TestAdviseOrder(t *testing.T) {
	lane.Parallel(t)
	gcc, hotspots, dir := need(t, "gcc"), build(t, "hotspots"), t.TempDir()
	source := filepath.Join(dir, "a.c")
	if err := os.WriteFile(source, []byte(scattered()), 0o600); err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(dir, "a.o")
	if r := run(t, cmd(gcc, "-O1", "-ffunction-sections", "-c", "-o", object, source)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	linked := func(name string, flags ...string) (pages int, table, says string) {
		program := filepath.Join(dir, name)
		if r := run(t, cmd(append([]string{gcc, "-o", program, object}, flags...)...)); r.status != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		table = program + ".dynprof"
		r := run(t, cmd(hotspots, "run", "--heat=pages", "--objects", "main", "--summary", "0", "-o", table, "--", program))
		if r.status != 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		return executedPages(t, table, program), table, r.stdout
	}
	before, table, says := linked("a")
	promised := 0
	for _, a := range adviceOf(t, table).Advice {
		if a.Kind == "order" && a.Memory == filepath.Join(dir, "a") {
			if a.Before < before || a.Before > before+2 || // of what has no blocks all is taken to have run
				a.Pages != a.Before-a.After {
				t.Errorf("%d pages ran: %+v", before, a)
			}
			promised = a.After
		}
	}
	if promised == 0 || promised > before/2 {
		t.Errorf("%d pages in place of %d", promised, before)
	}
	for linker, flags := range map[string][]string{
		"ld":   {"-Wl,-T,"},
		"gold": {"-fuse-ld=gold", "-Wl,--section-ordering-file,"},
		"lld":  {"-fuse-ld=lld", "-Wl,--symbol-ordering-file,"},
	} {
		order := filepath.Join(dir, "order."+linker)
		if r := run(t, cmd(hotspots, "advise", table, "--order", linker, "-o", order)); r != (result{}) {
			t.Fatalf("%+v", r)
		}
		if r := run(t, cmd(gcc, "-fuse-ld="+linker, "-Wl,--version")); linker != "ld" && r.status != 0 {
			t.Logf("%s is not on this machine", linker)
			continue
		}
		flags[len(flags)-1] += order
		pages, _, again := linked("by-"+linker, flags...)
		if pages < promised-1 || pages > promised+2 || again != says { // it need not begin with a page
			t.Errorf("by %s: %d pages, %d were promised, %d it was; it says %q, not %q", linker, pages, promised, before, again, says)
		}
	}
	for _, wrong := range [][]string{{"--order", "link"}, {"--object", "a"}, {"--order", "ld", "--object", "b"}, {"--dead-after", "0"}, {"--dead-after", "x"}} {
		if r := run(t, cmd(append([]string{hotspots, "advise", table}, wrong...)...)); r.status == 0 || r.stderr == "" || strings.Count(r.stderr, "\n") > 2 {
			t.Errorf("%v: %+v", wrong, r)
		}
	}
}
