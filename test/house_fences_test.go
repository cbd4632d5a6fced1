package test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

const module = "github.com/dynprof/dynprof/"

// listed is a package as go list -json prints it.
type listed struct {
	ImportPath  string
	Imports     []string
	TestImports []string
	Deps        []string
	GoFiles     []string
	CgoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,Deps,GoFiles,CgoFiles", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// ours are the packages of this module that p needs, directly or not.
func (p *listed) ours() []string {
	var all []string
	for _, d := range p.Deps {
		if rest, ok := strings.CutPrefix(d, module); ok {
			all = append(all, rest)
		}
	}
	return all
}

// TestImportsGoOneWay pins who may use whom (docs/architecture.md, "Packages").
func TestImportsGoOneWay(t *testing.T) {
	lane.Parallel(t)
	may := map[string][]string{
		"internal/ledger":   {},
		"internal/version":  {},
		"internal/lane":     {},
		"internal/parallel": {},
		"internal/x86":      {},
		"internal/mem":      {"internal/procfile"},
		"internal/procfile": {},
		"internal/procmaps": {"internal/procfile"},
		"internal/symname":  {},
		"internal/textfile": {},
		"internal/setting":  {},
		"internal/cheader":  {},
		"internal/listen":   {},
		"internal/handover": {},
		"internal/ptrace":   {"internal/procfile"},
		"internal/seccomp":  {},

		"internal/table/layout":   {"internal/ledger"},
		"internal/table/file":     {"internal/ledger", "internal/table/layout"},
		"internal/table/tabledir": {},
		"internal/table/build":    {"internal/ledger", "internal/table/layout", "internal/table/tabledir"},
		"internal/table":          {"internal/ledger", "internal/spantree", "internal/table/file", "internal/table/layout"},
		"internal/table/alive":    {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/table/file", "internal/table/layout"},
		"internal/table/control":  {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/table/alive", "internal/table/file", "internal/table/layout"},
		"internal/table/beside":   {},
		"internal/table/cputime":  {"internal/table/beside"},
		"internal/table/heat":     {"internal/ledger", "internal/mem", "internal/procfile", "internal/procmaps", "internal/table/beside", "internal/table/layout"},
		"internal/table/regions":  {"internal/ledger", "internal/mem", "internal/procfile", "internal/procmaps", "internal/table/beside", "internal/table/heat", "internal/table/layout"},
		"internal/table/edit":     {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/spantree", "internal/table", "internal/table/alive", "internal/table/file", "internal/table/layout", "internal/table/tabledir"},
		"internal/table/code":     {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/table/file", "internal/table/layout"},
		"internal/table/find":     {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/table/alive", "internal/table/file", "internal/table/layout", "internal/table/tabledir"},

		"internal/plancache":          {"internal/ledger", "internal/table/layout"},
		"internal/plancache/store":    {},
		"internal/plancache/textcopy": {"internal/ledger", "internal/plancache", "internal/plancache/store", "internal/table/layout"},

		"internal/overhead":     {},
		"internal/agent":        {"internal/ledger", "internal/mem", "internal/overhead", "internal/procfile", "internal/procmaps", "internal/table/alive", "internal/table/control", "internal/table/file", "internal/table/layout"},
		"elfscan":               {"internal/ledger"},
		"stubgen":               {"elfscan", "internal/ledger", "internal/x86"},
		"stubgen/emit":          {"elfscan", "internal/ledger", "internal/x86", "stubgen"},
		"stubgen/survey":        {"elfscan", "internal/ledger", "internal/parallel", "internal/x86", "stubgen", "stubgen/emit"},
		"stubgen/keep":          {"elfscan", "internal/ledger", "internal/parallel", "internal/x86", "stubgen", "stubgen/emit", "stubgen/survey"},
		"stubgen/entry":         {"elfscan", "internal/ledger", "internal/parallel", "internal/x86", "stubgen", "stubgen/emit", "stubgen/survey"},
		"patcher/place":         {"internal/procfile", "internal/procmaps"},
		"stubgen/flow":          {"elfscan", "internal/ledger", "internal/parallel", "internal/x86", "stubgen", "stubgen/emit", "stubgen/survey"},
		"stubgen/translate":     {"elfscan", "internal/ledger", "internal/parallel", "internal/spantree", "internal/x86", "stubgen", "stubgen/emit", "stubgen/flow", "stubgen/survey"},
		"patcher/patch":         {"elfscan", "internal/ledger", "internal/parallel", "internal/x86", "stubgen", "stubgen/emit", "stubgen/entry", "stubgen/survey"},
		"patcher/target":        {"internal/procfile", "internal/procmaps", "patcher/place"},
		"patcher/target/files":  {"internal/mem", "internal/procfile", "internal/procmaps", "patcher/place", "patcher/target"},
		"patcher/target/self":   {"internal/mem", "internal/procfile", "internal/procmaps", "patcher/place", "patcher/target", "patcher/target/files"},
		"patcher/target/remote": {"internal/mem", "internal/procfile", "internal/procmaps", "patcher/place", "patcher/target", "patcher/target/files"},
		"patcher": {"elfscan", "internal/ledger", "internal/mem", "internal/parallel", "internal/plancache", "internal/procfile", "internal/procmaps", "internal/setting", "internal/spantree", "internal/symname",
			"internal/table/build", "internal/table/layout", "internal/table/tabledir", "internal/x86", "patcher/patch", "patcher/place", "patcher/target", "stubgen", "stubgen/emit", "stubgen/entry", "stubgen/flow", "stubgen/keep", "stubgen/survey", "stubgen/translate"},
		"exporter": {"internal/ledger", "internal/procfile", "internal/procmaps", "internal/spantree", "internal/symname", "internal/table", "internal/table/alive", "internal/table/file", "internal/table/layout", "internal/table/tabledir"},
		"libdynprof": {"elfscan", "internal/agent", "internal/handover", "internal/ledger", "internal/listen", "internal/mem", "internal/overhead", "internal/parallel", "internal/plancache", "internal/plancache/store", "internal/procfile", "internal/procmaps", "internal/setting", "internal/spantree", "internal/symname",
			"internal/table/alive", "internal/table/build", "internal/table/control", "internal/table/file", "internal/table/layout", "internal/table/tabledir", // of tables no reader
			"internal/textfile", "internal/version", "internal/x86", "patcher", "patcher/patch", "patcher/place", "patcher/target", "patcher/target/files", "patcher/target/self", "stubgen", "stubgen/emit", "stubgen/entry", "stubgen/flow", "stubgen/keep", "stubgen/survey", "stubgen/translate"},
		"cmd/hotspots/internal/figures":  {},
		"cmd/hotspots/internal/cells":    {},
		"cmd/hotspots/internal/sampling": {},
		"cmd/hotspots/internal/perf":     {"cmd/hotspots/internal/sampling", "internal/procfile"},
		"cmd/hotspots/internal/screen":   {"cmd/hotspots/internal/cells"},
		"cmd/hotspots/internal/top":      {"cmd/hotspots/internal/cells", "cmd/hotspots/internal/figures", "internal/ledger", "internal/symname", "internal/table/layout"},
		"cmd/hotspots": {"cmd/hotspots/internal/advise", "cmd/hotspots/internal/annotate", "cmd/hotspots/internal/attach", "cmd/hotspots/internal/audit", "cmd/hotspots/internal/bisect", "cmd/hotspots/internal/bodyhash", "cmd/hotspots/internal/budget", "cmd/hotspots/internal/callgraph", "cmd/hotspots/internal/cells", "cmd/hotspots/internal/cli", "cmd/hotspots/internal/debugfile", "cmd/hotspots/internal/debuginfod", "cmd/hotspots/internal/density", "cmd/hotspots/internal/doctor", "cmd/hotspots/internal/export", "cmd/hotspots/internal/figures", "cmd/hotspots/internal/growth", "cmd/hotspots/internal/harvest", "cmd/hotspots/internal/heat", "cmd/hotspots/internal/heatmap", "cmd/hotspots/internal/heatview", "cmd/hotspots/internal/images", "cmd/hotspots/internal/job", "cmd/hotspots/internal/lackey", "cmd/hotspots/internal/launch", "cmd/hotspots/internal/lines", "cmd/hotspots/internal/live", "cmd/hotspots/internal/loops", "cmd/hotspots/internal/match", "cmd/hotspots/internal/names", "cmd/hotspots/internal/narrow", "cmd/hotspots/internal/objcode", "cmd/hotspots/internal/parquet", "cmd/hotspots/internal/perf", "cmd/hotspots/internal/record", "cmd/hotspots/internal/regions", "cmd/hotspots/internal/report", "cmd/hotspots/internal/resume", "cmd/hotspots/internal/sampling", "cmd/hotspots/internal/screen", "cmd/hotspots/internal/selection", "cmd/hotspots/internal/selftest", "cmd/hotspots/internal/selftime", "cmd/hotspots/internal/serve", "cmd/hotspots/internal/show", "cmd/hotspots/internal/symbols", "cmd/hotspots/internal/system", "cmd/hotspots/internal/top", "cmd/hotspots/internal/trial", "cmd/hotspots/internal/web",
			"elfscan", "exporter", "internal/handover", "internal/ledger", "internal/listen", "internal/mem", "internal/overhead", "internal/parallel", "internal/plancache", "internal/plancache/store", "internal/plancache/textcopy", "internal/procfile", "internal/procmaps", "internal/ptrace", "internal/seccomp", "internal/setting", "internal/spantree", "internal/symname",
			"internal/table", "internal/table/alive", "internal/table/beside", "internal/table/build", "internal/table/code", "internal/table/control", "internal/table/cputime", "internal/table/edit", "internal/table/file", "internal/table/find", "internal/table/heat", "internal/table/regions",
			"internal/table/layout", "internal/table/tabledir", "internal/textfile", "internal/version", "internal/x86", "patcher", "patcher/patch", "patcher/place", "patcher/target", "patcher/target/files", "patcher/target/remote", "stubgen", "stubgen/emit", "stubgen/entry", "stubgen/flow", "stubgen/keep", "stubgen/survey", "stubgen/translate"}, // coverage --system and attach plan, too
	}
	seen := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, ok := may[name]
		if !ok {
			continue
		}
		seen++
		for _, d := range p.ours() {
			if !slices.Contains(allowed, d) {
				t.Errorf("%s needs %s, which it may not", name, d)
			}
		}
	}
	if seen != len(may) {
		t.Errorf("%d of the %d packages named here exist", seen, len(may))
	}
}

// TestFences pins who may import what is dangerous or does not belong.
func TestFences(t *testing.T) {
	lane.Parallel(t)
	only := map[string][]string{
		"golang.org/x/arch/x86/x86asm": {"internal/x86"},
		"golang.org/x/sys/unix":        {"cmd/hotspots/internal/attach", "cmd/hotspots/internal/launch", "cmd/hotspots/internal/perf", "internal/mem", "internal/ptrace", "internal/table/heat", "patcher/target/remote"},
		"unsafe":                       {"cmd/hotspots/internal/perf", "internal/mem", "internal/ptrace", "internal/table/alive", "internal/table/file", "libdynprof"},
	}
	pure := []string{"elfscan", "stubgen", "stubgen/emit", "stubgen/survey", "stubgen/keep", "stubgen/entry", "stubgen/flow", "stubgen/translate", "patcher", "patcher/patch", "patcher/place", "patcher/target", "internal/x86", "internal/ledger", "internal/setting", "internal/symname", "internal/table/layout", "internal/plancache", "internal/handover", "internal/overhead", "internal/spantree", "cmd/hotspots/internal/cells", "cmd/hotspots/internal/figures", "cmd/hotspots/internal/sampling", "cmd/hotspots/internal/top"}
	effects := []string{"os", "syscall", "unsafe", "net", "os/exec", "golang.org/x/sys/unix"}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, i := range p.Imports {
			if allowed, fenced := only[i]; fenced && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s: only %v may", name, i, allowed)
			}
			if slices.Contains(pure, name) && slices.Contains(effects, i) {
				t.Errorf("%s is pure and imports %s", name, i)
			}
		}
		if name != "libdynprof" {
			continue
		}
		for _, d := range p.Deps {
			if d == "net" || d == "net/http" || strings.Contains(d, "prometheus") {
				t.Errorf("the planning twin links %s", d)
			}
		}
	}
}

// TestLanes: the packages that have cases for the long lane only are those that make long runs.
func TestLanes(t *testing.T) {
	lane.Parallel(t)
	var want []string
	for _, p := range packages(t) {
		if slices.Contains(p.TestImports, module+"internal/lane") {
			want = append(want, "./"+strings.TrimPrefix(p.ImportPath, module))
		}
	}
	line := regexp.MustCompile(`(?m)^LANES := (.*)$`).FindStringSubmatch(read(t, "../Makefile"))
	if line == nil {
		t.Fatal("the Makefile has no LANES")
	}
	got := strings.Fields(line[1])
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("make long runs %v, and there are cases for it in %v", got, want)
	}
}

// TestFilesBySubject: every file here is of a subject that CONTRIBUTING.md tells.
func TestFilesBySubject(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	told := regexp.MustCompile(`(?m)^\| ([a-z, ]+) \|`).FindAllStringSubmatch(read(t, "../CONTRIBUTING.md"), -1)
	subjects := map[string]bool{}
	for _, row := range told {
		for _, subject := range strings.Split(row[1], ", ") {
			subjects[subject] = true
		}
	}
	for _, f := range files {
		subject, _, _ := strings.Cut(strings.TrimSuffix(f, "_test.go"), "_")
		if !subjects[subject] {
			t.Errorf("%s: CONTRIBUTING.md has no tests of the subject %q", f, subject)
		}
	}
}
