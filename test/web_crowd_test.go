package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/dynprof/dynprof/internal/lane"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/alive"
	tablebuild "github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabletest"
)

// crowd is the table of a large C++ program, which this process plays.
type crowd struct {
	*tabletest.Live
	counts []uint64
}

// crowdSpec is a program of so many functions in four objects, with names in many namespaces,
// some of them as long as those that templates make.
func crowdSpec(functions int) *tablebuild.Spec {
	namespaces := []string{"render", "layout", "network", "storage", "script", "media", "ui", "gpu", "crypto", "base"}
	classes := []string{"Cache", "Node", "Stream", "Buffer", "Parser", "Visitor", "Scheduler", "Handle", "Iterator", "Observer", "Frame", "Queue"}
	methods := []string{"get", "insert", "erase", "advance", "hash", "resize", "reset", "lookup", "flush", "compare", "visit", "run", "size"}
	spec := tabletest.Spec()
	spec.Identity = alive.Identify(os.Getpid())
	spec.Program, spec.NoSpare, spec.MaxRows = "/opt/atlas/bin/atlas", false, 0
	spec.Objects = []layout.Object{
		{Path: "/opt/atlas/bin/atlas", BuildID: "0a1b", Flags: layout.ObjMain | layout.ObjSelected, Code: 9 << 20},
		{Path: "/opt/atlas/lib/libengine.so.7", BuildID: "2c3d", Flags: layout.ObjSelected, Code: 4 << 20, Untold: 4120},
		{Path: "/usr/lib/libvulkan_driver.so", BuildID: "4e5f", Flags: layout.ObjSelected},
		{Path: "/usr/lib/libstdc++.so.6", BuildID: "6a7b", Flags: layout.ObjSelected},
		{Path: "/usr/lib/libc.so.6", BuildID: "8c9d", Reason: ledger.ReasonNotSelected},
	}
	part := func(s string) string { return fmt.Sprint(len(s), s) }
	spec.Functions = make([]layout.Function, functions)
	counter := uint32(0)
	for i := range spec.Functions {
		f := &spec.Functions[i]
		*f = layout.Function{
			Object: uint16(min(3, i*5/functions)), Address: uint64(0x1000 + 48*i), Size: uint32(16 + i*7%900), Counter: counter,
			Source: ledger.SourceSymtab, Tactic: ledger.TacticJump, Threshold: uint32(spec.Threshold),
		}
		ns, class, method := namespaces[i*i/7%len(namespaces)], classes[i/3%len(classes)], fmt.Sprintf("%s%d", methods[i%len(methods)], i/40)
		switch {
		case i%50 == 49: // a template of templates
			f.Name = "_ZN5atlas" + part(ns) + part(class) + "I" + strings.Repeat("St6vectorISt4pairIiSsEE", 12) + "E" + part(method) + "Ev"
		case i%11 == 10:
			f.Name = ""
		default:
			f.Name = "_ZN5atlas" + part(ns) + part(class) + part(method) + "EiPKc"
		}
		switch {
		case i%400 == 399:
			f.Counter, f.Tactic, f.Reason = layout.NoCounter, ledger.TacticNone, ledger.ReasonTooShort
		case i%900 == 899:
			f.Counter, f.Tactic, f.Reason = layout.NoCounter, ledger.TacticNone, ledger.ReasonBranchIntoWindow
		default:
			if i%6 == 5 {
				f.Tactic = ledger.TacticWholeBody
			}
			counter++
		}
	}
	return spec
}

// newCrowd makes its table, counted into by so many threads.
func newCrowd(t *testing.T, path string, functions, threads int) *crowd {
	t.Helper()
	spec := crowdSpec(functions)
	c := &crowd{Live: tabletest.CreateAt(t, path, spec), counts: make([]uint64, spec.Functions[functions-2].Counter+1)}
	for row := range uint32(threads) {
		c.Row(layout.Row{Index: row, State: layout.RowLive, Pid: uint32(os.Getpid()), Tid: uint32(os.Getpid()) + row})
	}
	for i := range c.counts {
		c.counts[i] = uint64(i%97+1) * uint64(i%13+1)
	}
	for row := range threads {
		c.Set(uint32(row), c.counts...)
	}
	return c
}

// work is a second of it: a few functions are called very often, the others seldom, in
// thread 0; all are called.
func (c *crowd) work(second int) {
	for i := range c.counts {
		k := uint64(i*7919) % uint64(len(c.counts))
		c.counts[i] += 1 + (40_000_000+uint64(second%9)*6_000_000)/(1+k*k/64+k)
	}
	c.Set(0, c.counts...)
}

// scrolling scrolls a list of so many pixels at each frame, and says what that took, in ms:
// the frames, of which there are 60 a second where the machine lets them, and drawing.
const scrolling = `new Promise((done) => {
	const { list } = hotspots.views.functions, frames = [], drawn = [], draw = list.draw;
	list.draw = function (...all) { const began = performance.now(); draw.apply(this, all); drawn.push(performance.now() - began); };
	let last = 0;
	const step = (now) => {
		if (last > 0) frames.push(now - last);
		last = now;
		list.el.scrollTop += 3000;
		if (frames.length < %d) return requestAnimationFrame(step);
		list.draw = draw;
		const of = (times) => { times.sort((a, b) => a - b); return { median: times[times.length >> 1], p95: times[Math.floor(times.length * 0.95)], most: times[times.length - 1] }; };
		done({ frames: of(frames), drawn: of(drawn), at: list.el.scrollTop });
	};
	requestAnimationFrame(step);
})`

// webCrowd: 100,000 functions that are all called in each second: they are all there, in
// their order, and are found. What it took is in the log (go test -v), and docs/web.md.
// DYNPROF_PICTURES is where its pictures go.
func webCrowd(t *testing.T, b *browser) {
	const functions = 100_000
	pictures := setting("PICTURES")
	if pictures == "" {
		pictures = t.TempDir()
	}
	c := newCrowd(t, filepath.Join(t.TempDir(), "atlas.dynprof"), functions, 24)
	seconds := 0
	work := func(n int) {
		for range n {
			c.work(seconds)
			seconds++
		}
	}
	work(40)
	began := time.Now()
	s := serveWeb(t, "--interval", "100ms", c.Path)
	t.Logf("its address after %v", time.Since(began))
	b.size(1400, 900, true)
	b.open(s.url)
	b.sees(`performance.getEntriesByName("shown").length && ` + firstName + ` === "atlas::render::Cache::get0(int, char const*)"`)
	t.Logf("the first time it is shown after %.0f ms", js[float64](b, `performance.getEntriesByName("shown")[0].startTime`))
	before := b.rendered()
	b.do(chromedp.Reload())
	b.sees(`performance.getEntriesByName("shown").length`)
	t.Logf("then after %.0f ms, of which the page took the CPU for less than %.0f", js[float64](b, `performance.getEntriesByName("shown")[0].startTime`), (b.rendered()-before)*1000)
	sum := uint64(0)
	for i, n := range c.counts {
		sum += n + 23*uint64(i%97+1)*uint64(i%13+1)
	}
	b.sees(`document.querySelector("#top .figures").innerText.includes(` + quote(thousands(sum)+"\ncalls") + `)`)

	for range 12 { // the timeline
		work(1)
		time.Sleep(150 * time.Millisecond)
	}
	b.sees(`hotspots.model.points.rates.length > 6`)
	b.picture(filepath.Join(pictures, "web-functions.png"))
	t.Logf("%s", js[json.RawMessage](b, fmt.Sprintf(scrolling, lane.Of(60, 300))))
	b.keys("G")
	last := fmt.Sprintf(`document.querySelectorAll(".row:not([hidden])").length > 10 && [...document.querySelectorAll(".row:not([hidden])")].some((r) => r.line === %d)`, len(c.counts)-1)
	b.sees(last)
	b.keys("g/lookup2000\r")
	b.sees(`document.querySelector("#foot").innerText.startsWith("2 functions")`)
	b.keys("/\x1b")
	b.sees(`document.querySelector("#foot").innerText.startsWith(` + quote(thousands(uint64(len(c.counts)))+" functions") + `)`)
	b.keys("jjj\r")
	b.sees(`!document.querySelector("#detail").hidden && document.querySelectorAll("#detail section").length > 2`)
	b.size(1400, 900, false)
	b.keys("\x1b")
	b.keys("2")
	b.sees(`hotspots.views.map.cells.length > 20`)
	b.picture(filepath.Join(pictures, "web-map.png"))
	b.keys("1")
	b.size(640, 800, true) // as narrow as 80 columns
	b.sees(`document.querySelectorAll(".head .cell").length === 4`)
	b.picture(filepath.Join(pictures, "web-narrow.png"))
	if wide := js[bool](b, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("a narrow window has to be scrolled sideways")
	}
	b.faultless()
}

// rendered is how long, in seconds, the pages of the browser have taken the CPU.
func (b *browser) rendered() (seconds float64) {
	b.t.Helper()
	info, err := chromedp.CallBrowser(b.ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range info.ProcessInfo {
		if p.Type == "renderer" {
			seconds += p.CPUTime
		}
	}
	return seconds
}

// took is how long, in seconds, the server has taken the CPU.
func (s *webserver) took() float64 {
	s.t.Helper()
	b := read(s.t, fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	fields := strings.Fields(b[strings.LastIndexByte(b, ')')+1:])
	ticks := 0.0
	for _, f := range fields[11:13] { // fields 14 and 15 of the line
		n, err := strconv.Atoi(f)
		if err != nil {
			s.t.Fatal(err)
		}
		ticks += float64(n)
	}
	return ticks / 100
}

// webCost: what 40,000 functions that 64 threads have called, and that are all called in
// each second, cost who watches; in the log.
func webCost(t *testing.T, b *browser) {
	const seconds = 10
	c := newCrowd(t, filepath.Join(t.TempDir(), "atlas.dynprof"), 40_000, 64)
	s := serveWeb(t, c.Path)
	b.open(s.url)
	for view := range 2 {
		b.keys(fmt.Sprint(view + 1))
		b.sees(`hotspots.model?.state && hotspots.state.v === ` + quote([]string{"functions", "map"}[view]))
		served, rendered := s.took(), b.rendered()
		for i := range seconds {
			c.work(i)
			time.Sleep(time.Second)
		}
		t.Logf("view %d: hotspots took %.1f %% of a CPU, the page %.1f %%", view+1, (s.took()-served)/float64(seconds)*100, (b.rendered()-rendered)/float64(seconds)*100)
	}
	sum := uint64(0)
	for i, n := range c.counts {
		sum += n + 63*uint64(i%97+1)*uint64(i%13+1)
	}
	t.Logf("hotspots had %s of memory at most", regexp.MustCompile(`VmHWM:\s*(.*)`).FindStringSubmatch(read(t, fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)))[1])
	b.sees(`hotspots.model.state.total === ` + quote(fmt.Sprint(sum)))
	b.sees(`hotspots.model.calls.reduce((a, n) => a + n, 0n) === ` + fmt.Sprint(sum) + `n`)
	b.faultless()
}
