package test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// webProgram: of a program of the distribution the page has what hotspots report has, of
// each function. DYNPROF_PICTURES is where its picture goes.
func webProgram(t *testing.T, b *browser) {
	pictures := setting("PICTURES")
	if pictures == "" {
		pictures = t.TempDir()
	}
	path := filepath.Join(t.TempDir(), "lua.dynprof")
	r := run(t, cmd(build(t, "hotspots"), "run", "--summary", "0", "--blocks", "-o", path, "--", need(t, "lua5.4"), "-e",
		`local t = {} for i = 1, 20000 do t[#t + 1] = (i * 7919) % 1000 end table.sort(t) print(#table.concat(t, " "))`))
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	s := serveWeb(t, path)
	b.size(1400, 900, false)
	b.open(s.url)
	b.sees(`hotspots.model?.state`)
	want := readReport(t, path)
	got := js[[]string](b, `hotspots.model.names.map((name, i) => [hotspots.model.objects[hotspots.model.object[i]].path, "0x" + hotspots.model.addresses[i], name, hotspots.model.calls[i], hotspots.model.isExcluded(i)].join(" "))`)
	seen := map[string]bool{}
	for _, line := range got {
		seen[line] = true
	}
	for _, f := range want.Functions {
		if line := fmt.Sprintf("%s %s %s %d false", f.Object, f.Address, f.Name, f.Calls); !seen[line] {
			t.Errorf("%q is not in the page", line)
		}
	}
	if len(want.Functions) < 100 {
		t.Errorf("%d functions", len(want.Functions))
	}
	b.keys("/lua_next\x1b/lua_rawgeti\x1b/lua_geti\r\r")
	b.sees(`document.querySelector("#detail pre")?.innerText.includes("RUNS") || document.querySelectorAll("#detail pre mark").length > 0`)
	b.sees(`document.querySelector("#detail").innerText.includes("Callees")`)
	b.keys("/\x1b")
	b.picture(filepath.Join(pictures, "web-detail.png"))
	b.faultless()
	shortened(b)
}

// shortened asks the page what it leaves out of long names, and which namespaces they are in.
func shortened(b *browser) {
	b.t.Helper()
	for _, row := range []struct {
		name string
		most int
		want string
	}{
		{"main", 4, "main"},
		{"atlas::render::Cache::get0(int, char const*)", 30, "atlas::render::Cache::get0(…)"},
		{"atlas::render::Cache::get0(int, char const*)", 20, "…::Cache::get0(…)"},
		{"void std::sort<std::vector<int, std::allocator<int> >, bool (*)(int, int)>(a, b)", 40, "void std::sort<…>(a, b)"},
		{"std::ostream& operator<< <char>(std::ostream&, char const*)", 34, "std::ostream& operator<< <…>(…)"},
		{"a::operator->(int, int, int, int)", 20, "a::operator->(…)"},
	} {
		if got := js[string](b, fmt.Sprintf(`import("./format.js").then((m) => m.shorten(%s, %d))`, quote(row.name), row.most)); got != row.want {
			b.t.Errorf("%s in %d letters: %s, not %s", row.name, row.most, got, row.want)
		}
	}
	for name, want := range map[string]string{
		"main":                                                "main",
		"lua5.4+0x8870":                                       "(no name)|lua5.4+0x8870",
		"std::vector<a::b>::push_back(c&&)":                   "std|vector<a::b>|push_back(c&&)",
		"int ns::f<int>(a::b)":                                "ns|f<int>(a::b)",
		"(anonymous namespace)::Foo::bar()":                   "(anonymous namespace)|Foo|bar()",
		"a::B::operator()(int) const":                         "a|B|operator()(int) const",
		"a::operator<<(b::c&)":                                "a|operator<<(b::c&)",
		"ns::{lambda(int)#1}::operator()(int) const":          "ns|{lambda(int)#1}|operator()(int) const",
		"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop": "<alloc::vec::Vec<T> as core::ops::drop::Drop>|drop",
		"runtime.mallocgc":                                    "runtime|mallocgc",
		"github.com/x/y.(*T).Read":                            "github.com/x/y|(*T).Read",
	} {
		if got := js[string](b, fmt.Sprintf(`import("./format.js").then((m) => m.path(%s, true).join("|"))`, quote(name))); got != want {
			b.t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}
