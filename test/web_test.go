package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/cputime"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// TestWeb: one browser, and a tab of it for each.
func TestWeb(t *testing.T) {
	lane.Parallel(t)
	b := browse(t)
	type part struct {
		name string
		test func(*testing.T, *browser)
	}
	for _, row := range lane.Some([]part{
		{"page", webPage}, {"refuses", webRefuses}, {"names", webHostileNames}, {"crowd", webCrowd}, {"program", webProgram}, {"memory", webMemory}, {"others", webOthers}, {"cost", webCost}, {"paint", webPaint}, {"granules", webGranules}, {"paused", webPaused}, {"whose", webWhose}, {"last", webLast}, {"objects", webObjects}, {"log", webLog}, {"tls", webTLS},
	}, 0, 1, 2, 4, 5, 12) {
		t.Run(row.name, func(t *testing.T) { row.test(t, b.tab(t)) })
	}
}

// webPage: the page shows what was counted, exactly, and does what its keys are for.
func webPage(t *testing.T, b *browser) {
	a := ask(t, t.TempDir(), "--blocks", "--threshold", "900")
	a.do("a 1000")
	before := filepath.Join(t.TempDir(), "before.dynprof")
	if r := run(t, cmd(build(t, "hotspots"), "snapshot", a.table, "-o", before)); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	a.do("b 50")
	s := serveWeb(t, "--interval", "100ms", a.table, before)
	b.open(s.url)
	b.sees(row("1,000", "step_a"))
	b.sees(row("50", "step_b"))
	b.sees(`!document.querySelector("main").innerText.includes("step_c")`)
	b.sees(`document.querySelector("#top .status").innerText.startsWith("running")`)
	if at := js[string](b, "location.href"); strings.Contains(at, "token") {
		t.Errorf("the token is still in %s", at)
	}

	// Sorted by the next column, and the other way round.
	sorted := func(title string) string { return `document.querySelector(".sorted").innerText === ` + quote(title) }
	b.keys("s")
	b.sees(sorted("▼ Calls"))
	b.sees(firstName + ` === "step_a"`)
	b.keys("S")
	b.sees(sorted("▲ Calls"))
	b.sees(firstName + ` !== "step_a"`)
	js[chromedp.Void](b, `[...document.querySelectorAll(".head button")].find((c) => c.innerText.includes("Function")).click()`)
	b.sees(sorted("▲ Function"))
	js[chromedp.Void](b, `[...document.querySelectorAll(".head button")].find((c) => c.innerText.includes("Calls/s")).click()`)

	// What is typed is looked for, and Enter leads to what is left.
	b.keys("/")
	b.keys("step_b")
	b.sees(`document.querySelector("#foot").innerText.startsWith("1 function")`)
	b.keys("\r")
	b.keys("\r")
	b.sees(`document.querySelector("#detail h2").innerText === "step_b" && !document.querySelector("#detail").hidden`)
	b.sees(`/Calls\s+50 /.test(document.querySelector("#detail").innerText)`)
	b.sees(`/Callers\s+50\s+call\s+main of program/.test(document.querySelector("#detail").innerText)`)
	b.sees(`document.querySelector("#detail pre").innerText.includes("asked.c:")`)
	a.do("b 5")
	b.sees(`/Calls\s+55 /.test(document.querySelector("#detail").innerText)`)

	// A link keeps what is shown: here and in another tab, which has no token in its address.
	link := js[string](b, "location.href")
	b.do(chromedp.Reload())
	same := `document.querySelector("#detail h2").innerText === "step_b" && document.querySelector("#bar input").value === "step_b" && ` + row("55", "step_b")
	b.sees(same)
	tab := b.tab(t)
	tab.open(link)
	tab.sees(same)
	tab.faultless()
	b.keys("\x1b")
	b.sees(`document.querySelector("#detail").hidden`)
	b.keys("\x1b")
	b.sees(row("1,000", "step_a"))

	// What is shown, as a file.
	b.keys("x")
	b.sees(`document.querySelector("#export").matches(":popover-open")`)
	if csv := b.saved(`[...document.querySelectorAll("#export button")].find((c) => c.innerText === "CSV").click()`); !regexp.MustCompile(`(?m)\Aobject,address,name,size,calls,.*\n(.*\n)*/.*/program,0x[0-9a-f]+,step_a,\d+,1000,`).MatchString(csv) {
		t.Errorf("%s", csv)
	}

	// Since a mark, and what is new.
	b.keys("m")
	b.sees(sorted("▼ Since mark"))
	a.do("c 7")
	a.do("a 3")
	b.sees(row("new 7", "step_c"))
	b.sees(row("3", "step_a"))
	b.keys("n")
	b.sees(`document.querySelector("#foot").innerText.startsWith("1 function")`)
	b.keys("M")
	b.sees(row("1,003", "step_a"))

	// What is brushed in the timeline: all of it has all calls since the first reading.
	box := js[[]float64](b, `(() => { const r = document.querySelector(".u-over").getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()`)
	x, y, width := box[0], box[1]+box[3]/2, box[2]
	b.do(chromedp.DragAndDropXY(x+1, y, x+width-2, y, 5))
	b.sees(`document.querySelector(".chips").innerText.includes(" s from ")`)
	b.sees(sorted("▼ In range"))
	b.sees(row("7", "step_c"))
	b.do(chromedp.Reload())
	b.sees(row("7", "step_c"))
	b.keys("\x1b")
	b.sees(`!document.querySelector(".chips").innerText.includes(" s from ")`)

	// Frozen, nothing changes but what the user does.
	b.keys("z")
	b.sees(`document.querySelector("#top .status").innerText.startsWith("frozen")`)
	a.do("t 30")
	b.keys("G")
	b.sees(row("1,003", "step_a"))
	b.keys("z")
	b.sees(row("1,033", "step_a"))

	// Into the map, by the mouse, and by a link.
	b.keys("2")
	cell := func(name string) string {
		return fmt.Sprintf(`hotspots.views.map.cells.find((c) => c.node.name === %s)`, quote(name))
	}
	b.sees(cell("step_a"))
	b.clickCell(cell("program"))
	b.sees(`new URLSearchParams(location.hash.slice(1)).get("z") === "program"`)
	b.do(chromedp.Reload())
	b.sees(cell("step_a"))
	b.sees(`hotspots.views.map.focus.name === "program"`)
	b.clickCell(cell("step_a"))
	b.sees(`document.querySelector("#detail h2").innerText === "step_a"`)
	b.keys("\x1b\x1b")
	b.sees(`hotspots.views.map.focus.parent === null`)

	b.keys("3")
	b.sees(`document.querySelectorAll(".matrix thead .turned").length === 2`)
	b.sees(`[...document.querySelectorAll(".matrix tbody tr")].some((r) => /^step_a\s+1,033\s+1\.00k\s+30$/.test(r.innerText))`)
	b.keys("4")
	b.sees(`/900\s+\d+\s+none\s+step_a/.test(document.querySelector("main").innerText)`)
	b.keys("5")
	b.sees(`/100\.00%\s*\d+ of \d+ functions are counted/.test(document.querySelector("main").innerText)`)
	js[chromedp.Void](b, `[...document.querySelectorAll(".coverage .link")].find((l) => l.innerText === "start").click()`)
	b.sees(`document.querySelector("main").innerText.includes("_start")`)
	b.do(chromedp.NavigateBack())
	b.sees(`document.querySelector(".coverage")`)

	// Against the copy, which has less.
	b.keys("6")
	b.sees(`document.querySelector(".choose .note").innerText.includes("functions differ")`)
	b.sees(row("−55", "step_b")) // as they are on the command line
	js[chromedp.Void](b, `[...document.querySelectorAll(".choose button")].find((c) => c.innerText === "⇄").click()`)
	b.sees(row("+55", "step_b"))
	b.sees(row("+33", "step_a"))
	b.keys("/step_a\r")
	b.sees(`!(` + row("+55", "step_b") + `)`)
	b.keys("/\x1b")

	// The program ends, and all is as it was.
	b.keys("1")
	a.end()
	b.sees(`document.querySelector("#top .status").innerText === "exited with status 3"`)
	b.sees(row("1,033", "step_a"))
	b.do(chromedp.Reload())
	b.sees(row("1,033", "step_a"))
	b.faultless()

	// And so does hotspots web.
	s.end()
	b.sees(`document.querySelector("#top .message:not([hidden])").innerText.includes("does not answer")`)
	b.sees(row("1,033", "step_a"))
	if fi, err := os.Stat(a.table); err != nil || fi.Size() > 1<<20 || readReport(t, a.table).calls(t, "step_a") != 1033 { // it is compact
		t.Errorf("%v, %+v", err, fi)
	}
}

// clickCell clicks on a cell of the map.
func (b *browser) clickCell(cell string) {
	b.t.Helper()
	b.sees("!hotspots.views.map.between && " + cell)
	at := js[[]float64](b, `((c) => { const r = document.querySelector(".map canvas").getBoundingClientRect(); return [r.x + c.x + Math.min(c.width, 40) / 2, r.y + c.y + c.height / 2] })(`+cell+`)`)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// webOthers: a program that comes later is in the list, and is shown from there.
func webOthers(t *testing.T, b *browser) {
	dir := t.TempDir()
	home := filepath.Join(dir, "dynprof")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	a := ask(t, t.TempDir())
	a.do("a 1000")
	s := serveWebIn(t, []string{"XDG_RUNTIME_DIR=" + dir}, "--interval", "100ms", a.table)
	b.open(s.url)
	b.sees(row("1,000", "step_a"))
	a.end()
	b.sees(`document.querySelector("#top .status").innerText.startsWith("exited")`)
	again := ask(t, home)
	again.do("a 77")
	// Others on this machine count, too.
	const later = `[...document.querySelectorAll("#choice optgroup:nth-of-type(2) option")].find((o) => o.innerText.includes(": asked, running"))`
	b.sees(later)
	js[chromedp.Void](b, `(() => { const c = document.querySelector("#choice"); c.value = (`+later+`).value; c.dispatchEvent(new Event("change")) })()`)
	b.sees(row("77", "step_a"))
	again.do("a 3")
	b.sees(row("80", "step_a"))
	b.do(chromedp.Reload())
	b.sees(row("80", "step_a"))
	b.faultless()
}

// webRefuses: without the token, or by another name, or from another page there is
// nothing to be seen.
func webRefuses(t *testing.T, b *browser) {
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	s := serveWeb(t, live.Path)
	port := regexp.MustCompile(`\d+$`).FindString(s.base)
	if status, body := s.ask("tables"); status != 200 || !strings.Contains(body, "/opt/demo/demo") {
		t.Errorf("%d: %s", status, body)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>elsewhere</title><iframe src="%s"></iframe>`, s.url)
	}))
	defer elsewhere.Close()
	for name, row := range map[string]struct{ url, says string }{
		"a wrong token":      {s.base + "/#token=" + strings.Repeat("x", 32), "wrong or no token"},
		"no token":           {s.base, "wrong or no token"},
		"another name":       {"http://evil.example:" + port + "/#token=" + s.token, "answers for 127.0.0.1"},
		"the API, by a link": {s.base + "/api/v1/tables", "wrong or no token"},
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.tab(t)
			tab.open(row.url)
			tab.sees(`document.body.innerText.includes(` + quote(row.says) + `)`)
			tab.sees(`!document.documentElement.innerText.includes("demo")`)
		})
	}
	b.open(elsewhere.URL)
	asked := js[string](b, fmt.Sprintf(`fetch(%s, { headers: { Authorization: %s } }).then((a) => "answered " + a.status, (e) => "refused")`, quote(s.base+"/api/v1/tables"), quote("Bearer "+s.token)))
	blind := js[string](b, fmt.Sprintf(`fetch(%s, { mode: "no-cors" }).then((a) => "answered " + a.type, (e) => "refused")`, quote(s.base+"/main.js")))
	if asked != "refused" || blind != "refused" {
		t.Errorf("a page of another origin: %s, %s", asked, blind)
	}
	if framed := js[bool](b, `frames.length > 0 && (() => { try { return frames[0].document.title === "hotspots" } catch { return false } })()`); framed {
		t.Error("it is shown in a frame")
	}
	// As it is meant, in the same browser.
	b.open(s.url)
	b.sees(row("1,500", "demo::add(int, int)"))
}

// webHostileNames: a name is text, whatever it is, in every view.
func webHostileNames(t *testing.T, b *browser) {
	hostile := []string{
		`<script>document.title = "run"</script>`, `<img src=x onerror="document.title = 'run'">`, `"><svg onload=alert(1)>`, "${document.title = 'run'}",
		"__proto__", "constructor", "a\x01b::c", strings.Repeat("long::", 220) + "er", `C:\"quoted", comma`,
	}
	spec := tabletest.Synthetic(len(hostile) + 1)
	for i, name := range hostile {
		spec.Functions[i].Name = name
	}
	spec.Objects[0].Path = `/opt/<b onclick=alert(1)>bold`
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), spec)
	for i := range spec.Functions {
		live.Set(0, make([]uint64, i)...)
	}
	live.Set(0, 900, 800, 700, 600, 500, 400, 300, 200, 100, 1<<62+1)
	other := tabletest.Demo(t, filepath.Join(t.TempDir(), "b.dynprof"), spec)
	sampled := cputime.File{Period: 1_000_000, Functions: []cputime.Function{{Number: 1, Object: symname.Clean(spec.Objects[0].Path), Address: spec.Functions[1].Address, Samples: 13}}}
	if err := sampled.Write(live.Path, live.Nonce); err != nil {
		t.Fatal(err)
	}
	s := serveWeb(t, live.Path, other.Path)
	b.open(s.url)
	b.sees(row("900", hostile[0]))
	b.sees(row("4,611,686,018,427,387,905", "_ZN7program9namespaceL16function_00000009EiPKc"))
	b.sees(row("10 µs", hostile[1])) // 13 ms, 1,300 calls
	b.keys("/" + hostile[1] + "\r")
	b.sees(`[...document.querySelectorAll(".row:not([hidden])")].every((r) => r.innerText.includes("100.00%"))`)
	b.keys("/\x1b")
	if csv := b.saved(`hotspots.export("csv")`); !strings.Contains(csv, `,"C:\""quoted"", comma",32,100,`) || !strings.Contains(csv, "_00000009EiPKc,32,4611686018427387905,") {
		t.Errorf("%s", csv)
	}
	type line struct {
		Name  string
		Calls uint64
	}
	var saved struct{ Rows []line }
	if err := json.Unmarshal([]byte(b.saved(`hotspots.export("json")`)), &saved); err != nil || len(saved.Rows) != 10 || saved.Rows[0].Calls != 1<<62+1 || !slices.Contains(saved.Rows, line{hostile[0], 900}) {
		t.Errorf("%v, %+v", err, saved)
	}
	for view := range 6 {
		b.keys(fmt.Sprint(view + 1))
		b.sees([]string{
			row("1,300", hostile[1]),
			`hotspots.views.map.cells.some((c) => c.node.name.startsWith("_ZN7"))`,
			`document.querySelector(".matrix tbody").innerText.includes("<script>")`,
			`document.querySelector("main .list")`,
			`document.querySelector(".coverage").innerText.includes("<b onclick")`,
			`document.querySelector(".choose .note").innerText.includes("differ")`,
		}[view])
		if n := js[int](b, `document.querySelectorAll("main script, main img, main svg, main b[onclick], #top script").length`); n != 0 {
			t.Errorf("view %d: %d elements of names", view+1, n)
		}
	}
	for _, hash := range lane.Thin([]string{"v=nosuch", "v=functions&s=constructor", "q=%2F(%2F", "f=99999999999&d=1", "f=-5&d=1", "r=1-2", "r=x", "z=a%01b", "t=%3Cscript%3E", "a=x&b=y&v=compare", "w=__proto__", "span=abc", "m=zzz&v=map", "cs=zzz&v=compare", "q=" + strings.Repeat("x", 5000)}, 4) {
		b.do(chromedp.Navigate("about:blank"))
		b.open(s.base + "/#" + hash)
		b.sees(`document.querySelector("#top .figures").innerText.includes("4,611,686,018,427") && document.querySelector("main").firstChild`)
		b.faultless()
	}
	if title := js[string](b, "document.title"); !strings.HasSuffix(title, "hotspots") {
		t.Errorf("%q", title)
	}
}

// TestWebCommand: what is wrong is told in a line.
func TestWebCommand(t *testing.T) {
	lane.Parallel(t)
	live := tabletest.Demo(t, filepath.Join(t.TempDir(), "a.dynprof"), tabletest.Spec())
	s := serveWeb(t, live.Path)
	for _, row := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--addr", "0.0.0.0:80", live.Path}, 2, "ssh -L"},
		{[]string{"--addr", "nowhere", live.Path}, 2, "write 127.0.0.1:PORT"},
		{[]string{"--addr", strings.TrimPrefix(s.base, "http://"), live.Path}, 1, "taken by another program: choose another port"},
		{[]string{"--interval", "1ms", live.Path}, 2, "100ms or more"},
		{[]string{"--tls-cert", "host.pem", live.Path}, 2, "a certificate and its key"},
		{[]string{"--tls-key", "host.key", live.Path}, 2, "a certificate and its key"},
		{[]string{"--tls-cert", "/nowhere/host.pem", "--tls-key", "/nowhere/host.key", live.Path}, 1, "/nowhere/host.pem"},
		{[]string{"/nowhere/x.dynprof"}, 1, "no such file"},
		{[]string{"2147483647"}, 1, "hotspots ls"},
		{[]string{""}, 1, "leave it out"},
	} {
		r := run(t, cmd(append([]string{build(t, "hotspots"), "web"}, row.args...)...))
		if r.status != row.status || r.stdout != "" {
			t.Errorf("%q: %+v", row.args, r)
		}
		oneLine(t, r.stderr, row.says, "")
	}
}
