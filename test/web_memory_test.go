package test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// webMemory: pages are seen while they are touched, with what they are; of a program whose pages
// are not noted it is said how they would be.
func webMemory(t *testing.T, b *browser) {
	p := startPhases(t)
	p.see(t, 0)
	s := serveWeb(t, "--interval", "100ms", p.table)
	b.open(s.url)
	b.sees(`document.querySelector("main").innerText.includes("touch")`)
	b.keys("7")
	const rows = `hotspots.views.memory.cells.addresses.filter((a) => a >= 0x200000000000 && a < 0x200000080000).length`
	b.sees(rows + ` === 6`)
	b.sees(`hotspots.views.memory.el.innerText.includes("; live, ")`)
	p.goOn(t)
	p.see(t, 1)
	b.sees(rows + ` === 11`)

	// What is pointed at.
	point := pointAt("0x20000000a000")
	b.sees(point + `.startsWith("0x20000000a000")`)
	b.sees(point + `.includes("last written in slice ")`)

	// What is brushed: a click is the row.
	b.do(chromedp.Steps(chromedp.MouseClickXY(rowPlace(b, "0x20000000a000"))))
	b.sees(`/^1 page touched/.test(document.querySelector(".part").innerText)`)
	if csv := b.saved(`[...document.querySelectorAll(".part button")].find((c) => c.innerText === "CSV").click()`); !strings.Contains(csv, ",0x20000000a000,1,false,true,false,") {
		t.Errorf("%s", csv)
	}
	b.keys("\r")
	b.sees(rows + ` === 1 && hotspots.views.memory.cells.order.length === 1`)
	b.sees(`location.hash.includes("my=20000000a000-20000000b000")`)
	b.keys("\x1b")
	b.sees(rows + ` === 11`)

	// Zoom, all that is mapped, the last instructions, other colours.
	b.keys("+")
	b.sees(`location.hash.includes("mx=") && location.hash.includes("my=") && hotspots.views.memory.cells.head.whole !== undefined`)
	b.keys("0")
	b.sees(`!location.hash.includes("mx=")`)
	b.sees(rows + ` === 11`)
	b.keys("u")
	b.sees(`hotspots.views.memory.cells.head.mapped && hotspots.views.memory.cells.order.length > 500`)
	b.keys("u")
	b.keys("l")
	b.sees(`/mx=l\d/.test(location.hash)`)
	b.sees(`(() => { const v = hotspots.views.memory, [from, to] = v.range(); return to === v.cells.head.instructions && to - from === Number(hotspots.state.mx.slice(1)) })()`)
	b.keys("l")
	b.keys("b")
	b.sees(`[...document.querySelectorAll(".memory .toggle")].find((e) => e.innerText === "other colours").getAttribute("aria-pressed") === "true"`)

	// What is frozen does not change, and goes on; what is pointed at is said anew, as it is another
	// under a pointer that rests.
	x, y := rowPlace(b, "0x20000000a000")
	b.do(chromedp.Steps(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y)))
	const said = `document.querySelector(".memory .says[role=status]").innerText`
	b.sees(said + ` !== ""`)
	b.keys("z")
	before := js[string](b, said)
	b.sees(`hotspots.views.memory.stream === null`)
	p.goOn(t)
	p.see(t, 2)
	b.keys("z")
	b.sees(rows + ` === 16`)
	b.sees(said + ` !== ` + strconv.Quote(before))

	// The same, asked for without a browser.
	status, text := s.ask("tables/" + js[string](b, "hotspots.model.id") + fmt.Sprintf("/memory/part?from=%d&to=%d", heatBase, heatBase+heatPages*4096))
	var part struct {
		Touched, Read, Written int
		Parts                  []struct{ Address string }
	}
	if err := json.Unmarshal([]byte(text), &part); err != nil || status != 200 || part.Touched != 16 || part.Read != 1 || part.Written != 15 || part.Parts[0].Address != "0x200000000000" {
		t.Errorf("%d, %v: %s", status, err, text)
	}
	if _, text := s.ask("tables/" + js[string](b, "hotspots.model.id") + "/memory/part"); !strings.Contains(text, `"total"`) || !strings.Contains(text, `"_start"`) {
		t.Errorf("neither its variable nor its function is told: %s", text)
	}
	p.to.Close()
	b.sees(`document.querySelector("#top .status").innerText.startsWith("exited")`)
	b.sees(`!hotspots.views.memory.el.innerText.includes("; live, ") && hotspots.views.memory.curves.head.settled`)
	b.faultless()

	if pictures := setting("PICTURES"); pictures != "" {
		memoryPicture(t, b, filepath.Join(pictures, "web-memory.png"))
	}
	_, table := countedAt(t, cmd("true"))
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`document.querySelector(".memory").innerText.includes("hotspots run --heat=pages")`)
}

// webLog: what is made of a log of lackey is shown as what hotspots run has noted.
func webLog(t *testing.T, b *browser) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(tinyLog), 0o600); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "tiny.dynprof")
	if r := run(t, cmd(build(t, "hotspots"), "heat", "import", log, "-o", table, "--slice", "2", "--granule", "pages")); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	b.open(serveWeb(t, table).url)
	b.sees(`document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.el.innerText.includes("5 pages touched: 1 read, 3 written, 2 executed")`)
	b.sees(`hotspots.views.memory.cells.addresses.filter((a) => [0x401000, 0x402000, 0x500000, 0x1ffeff000, 0x1fff00000].includes(a)).length === 5`)
	point := pointAt("0x500000")
	b.sees(point + `.includes("[0x401000]")`)
	b.sees(point + `.includes("last written in slice 2, up to 4 instructions")`)
	b.faultless()
}

// webGranules: of lines and of 8 bytes that were noted rows are such ones, as far as there are not
// too many, and what is pointed at and brushed is of these; what lies there has its name at its row.
func webGranules(t *testing.T, b *browser) {
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-falign-functions=32"}, "heat_lines.c")
	for _, of := range []struct {
		heat, noun string
		bytes      int
	}{{"lines", "line", 64}, {"bytes", "granule", 8}} {
		r, table := countedAt(t, cmd(program), "--heat="+of.heat)
		want := saidIn(r.stdout, of.bytes)
		b.open(serveWeb(t, table).url)
		b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
		b.keys("7")
		b.sees(`hotspots.views.memory.cells.head?.instructions > 0 && hotspots.views.memory.curves.head?.settled`)
		b.sees(fmt.Sprintf(`hotspots.views.memory.head.innerText.includes("%ss of %d bytes")`, of.noun, of.bytes))
		js[bool](b, fmt.Sprintf(`hotspots.views.memory.setAddresses(%d, %d) ?? true`, linesBase, linesBase+linesBytes))
		b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.from === %d && hotspots.views.memory.cells.head.row === %d`, linesBase, of.bytes))
		got := map[int]string{}
		for _, cell := range js[[][]float64](b, `(() => {
			const { cells } = hotspots.views.memory, { first, end } = cells.head;
			return [...cells.order.keys()].map((row) => {
				let what = 0;
				for (let c = first; c < end; c++) what |= cells.at(c, row);
				return [cells.address(row), what];
			});
		})()`) {
			what := []byte("--")
			for bit := range what {
				if int(cell[1])>>bit&1 != 0 {
					what[bit] = "rw"[bit]
				}
			}
			got[int(cell[0]-linesBase)/of.bytes] = string(what)
		}
		if told := touchedIn(t, table, of.bytes); !maps.Equal(told, want) {
			t.Errorf("--heat=%s: hotspots heat has %v, not %v", of.heat, told, want)
		}
		for _, row := range slices.Sorted(maps.Keys(want)) {
			if got[row] != want[row] {
				t.Errorf("--heat=%s: row %d is %q, not %q", of.heat, row, got[row], want[row])
			}
		}
		if len(got) != len(want) || len(want) == 0 {
			t.Errorf("--heat=%s: %d rows, not %d", of.heat, len(got), len(want))
		}
		row := slices.Min(slices.Collect(maps.Keys(want)))
		address := fmt.Sprintf("0x%x", linesBase+row*of.bytes)
		b.do(chromedp.Steps(chromedp.MouseClickXY(rowPlace(b, address))))
		b.sees(`/^1 ` + of.noun + ` touched/.test(document.querySelector(".part").innerText)`)
		b.sees(pointAt(address) + `.startsWith("` + address + `")`)
		if csv := b.saved(`[...document.querySelectorAll(".part button")].find((c) => c.innerText === "CSV").click()`); !strings.Contains(csv, address+",1,") || !strings.Contains(csv, of.noun+"s") {
			t.Errorf("%s", csv)
		}
		b.keys("\x1b")

		// All in one cell: it says how much of it was touched, and is as bright.
		js[bool](b, fmt.Sprintf(`(() => { const v = hotspots.views.memory, { view } = v; v.wide = () => { v.view = view; }; v.view = () => ({ ...view.call(v), columns: 1, rows: 1 }); v.setAddresses(%d, %d); return true; })()`, linesBase, linesBase+linesBytes))
		b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.columns === 1 && hotspots.views.memory.cells.head.row === %d`, linesBytes))
		b.sees(pointAt(fmt.Sprint(linesBase)) + fmt.Sprintf(`.replaceAll(",", "").includes("touched: %d of %d %ss")`, len(want), linesBytes/of.bytes, of.noun))
		if fault := js[string](b, fmt.Sprintf(asBright, linesBase, linesBase+linesBytes, linesBytes/of.bytes, len(want))); fault != "" {
			t.Errorf("--heat=%s: %s", of.heat, fault)
		}
		b.keys("i")
		b.sees(`location.hash.includes("mi=0")`)
		b.sees(drawnPoint + `[0] === Math.max(...` + drawnPoint + `)`)
		b.keys("i")
		js[bool](b, `hotspots.views.memory.wide() ?? true`)

		// The variable page: it is touched, and its row is of it.
		at := js[string](b, `(async () => {
			const { json } = await import(document.querySelector("script[type=module]").src.replace("main.js", "api.js"));
			const { parts } = await json("tables/" + hotspots.model.id + "/memory/part"), p = parts.find((p) => p.symbols.includes("page"));
			return p ? p.address : "";
		})()`)
		js[bool](b, `hotspots.views.memory.setAddresses(Number("`+at+`"), Number("`+at+`") + 16 * `+fmt.Sprint(of.bytes)+`) ?? true`)
		b.sees(`[...hotspots.views.memory.names.known.values()].some((text) => /\bpage\b/.test(text))`)
		b.keys("y")
		b.sees(`location.hash.includes("mn=0")`)
		b.faultless()
	}
}

// drawnPoint is the colour of the point in the middle of the picture.
const drawnPoint = `[...(() => {
	const { canvas } = hotspots.views.memory, c = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
	c.drawImage(canvas, -Math.floor(canvas.width / 2), -Math.floor(canvas.height / 2));
	return c.getImageData(0, 0, 1, 1).data;
})()].slice(0, 3)`

// asBright is what differs between the one cell that is shown, of some addresses, which are so many
// granules, of which some were touched, and how bright it should be by what the server says.
const asBright = `(async () => {
	const [low, high, all, touched] = [%d, %d, %d, %d];
	const { json } = await import(document.querySelector("script[type=module]").src.replace("main.js", "api.js"));
	const { granules, slices, times } = (await json("tables/" + hotspots.model.id + "/memory/at?from=" + low + "&to=" + high)).touched;
	if (granules !== touched || times < granules || slices !== hotspots.views.memory.cells.head.slices) return "the server says " + [granules, slices, times];
	const level = Math.max(0, Math.floor(15 + 2 * Math.log2(times / slices / all))), is = ` + drawnPoint + `;
	const want = Math.round(255 * (0.4 + 0.6 * level / 15));
	return Math.max(...is) === want ? "" : times + " of " + slices * all + ": " + is + ", not as bright as " + want;
})()`

// webPaused: where counting was off is seen, how long, and the curves of page faults and threads.
func webPaused(t *testing.T, b *browser) {
	w := startWindows(t, false, "--heat=pages")
	b.open(serveWeb(t, "--interval", "100ms", w.table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0`)
	w.do("iwp")
	b.sees(`hotspots.views.memory.curves.offs?.length === 1`)
	w.do("owrw")
	b.sees(`hotspots.views.memory.curves.offs?.length === 1 && hotspots.views.memory.curves.offs[0].ns > 0`)
	const point = `(() => {
		const v = hotspots.views.memory, box = v.over.getBoundingClientRect(), [from, to] = v.range();
		v.over.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + (v.curves.offs[0].from - from) / (to - from) * box.width, clientY: box.top + 9 }));
		return document.querySelector(".memory [role=status]").innerText;
	})()`
	b.sees(point + `.includes("counting was off here for ")`)
	b.keys("f")
	b.keys("a")
	b.sees(`/page faults so far [1-9]/.test(document.querySelector(".curved").innerText) && /threads [4-6]\b/.test(document.querySelector(".curved").innerText)`)
	want := map[int]string{}
	w.want(want, 0, 2)
	w.end(want)
	b.faultless()
}

// webPaint: both ways of drawing draw what cells say.
func webPaint(t *testing.T, b *browser) {
	_, table := countedAt(t, cmd("true"))
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names`)
	if fault := js[string](b, samePaint); fault != "" {
		t.Error(fault)
	}
}

// pointAt is what is said when the row of an address is pointed at, at the end of what is shown.
func pointAt(address string) string {
	return `(() => {
		const v = hotspots.views.memory, box = v.over.getBoundingClientRect(), row = v.cells.rowOf(` + address + `);
		v.over.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right - 1, clientY: box.top + (row + 0.5) * box.height / v.cells.order.length }));
		return document.querySelector(".memory [role=status]").innerText;
	})()`
}

// rowPlace is where the row of an address is, in the middle of the time that is shown.
func rowPlace(b *browser, address string) (x, y float64) {
	at := js[[]float64](b, `(() => {
		const v = hotspots.views.memory, box = v.over.getBoundingClientRect();
		return [box.left + box.width / 2, box.top + (v.cells.rowOf(`+address+`) + 0.5) * box.height / v.cells.order.length];
	})()`)
	return at[0], at[1]
}

// samePaint draws 4,096 x 2,048 cells by WebGL2, and by a plain canvas: all at once, then as
// columns come, and a part. It is what differs, point by point, from what the cells say.
const samePaint = `(async () => {
	const [{ painter }, { levelOf, shares }] = await Promise.all(["paint.js", "density.js"].map((name) => import(document.querySelector("script[type=module]").src.replace("main.js", name))));
	const width = 700, height = 300, columns = 4096, rows = 2048;
	const palette = [...Array(129).keys()].map((i) => [i, 255 - i, i * 7 % 256]);
	for (const k of shares.keys()) if (levelOf(shares[k], 1) !== k || levelOf(shares[k] * 8388608, 8388608) !== k) return "a cell of level " + k + " is drawn as of another";
	let seed = 1;
	const random = (n) => { seed = (seed * 48271) % 2147483647; return seed % n; };
	const what = Uint8Array.from({ length: columns * rows }, () => (random(40) === 0 ? 1 + random(7) + 8 * random(16) : 0));
	const order = Uint16Array.from(Array(rows - 48).keys()).sort(() => random(3) - 1);
	const cells = { what, order, head: { columns, rows, first: 9000, end: 9000 + 3500, column: 1, row: 1 }, changed: "all", fresh: { from: 9000, to: 12500 } };
	const line = (n, from, to) => Uint16Array.from({ length: n + 1 }, (_, i) => Math.max(0, Math.floor(from + (to - from) * i / n) + 1));
	const all = ["webgl", "canvas"].map((kind) => painter(Object.assign(document.createElement("canvas"), { width, height }), kind));
	if (all[0].kind !== "WebGL2") return "there is no WebGL2";
	let views = [[line(width, 0, 3600), line(height, 0, order.length)], [line(width, -300, 900), line(height, 0, order.length)], [line(width, 70, 90), line(height, 0, order.length)]];
	for (const [across, down] of [views[0], views[0], views[1], views[2], views[0]]) {
		const { changed, fresh } = cells;
		const points = all.map((p) => {
			Object.assign(cells, { changed, fresh });
			p.draw(cells, across, down, palette);
			const c = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
			c.drawImage(p.canvas, 0, 0);
			return c.getImageData(0, 0, width, height).data;
		});
		for (let x = 0; x < width; x++) for (let y = 0; y < height; y++) {
			let is = 128;
			const left = across[x] - 1;
			if (left >= 0 && left < 3500) {
				is = 0;
				let sum = 0, all = 0;
				for (let c = left; c < Math.min(3500, Math.max(left + 1, across[x + 1] - 1)); c++)
					for (let r = down[y] - 1; r < Math.min(order.length, Math.max(down[y], down[y + 1] - 1)); r++, all++) {
						const cell = what[(9000 + c) % columns * rows + order[r]];
						if (cell === 0) continue;
						is |= cell & 7;
						sum += shares[cell >> 3];
					}
				if (is > 0) is |= levelOf(sum, all) << 3;
			}
			for (const [k, p] of points.entries()) for (let i = 0; i < 3; i++)
				if (p[4 * (y * width + x) + i] !== palette[is][i]) return all[k].kind + " " + [x, y] + ": " + p.slice(4 * (y * width + x), 4 * (y * width + x) + 3) + ", not " + palette[is];
		}
		for (let c = 11000; c < 11040; c++) for (let r = 0; r < rows; r++) what[c % columns * rows + r] = random(5) === 0 ? 0 : 1 + random(7) + 8 * random(16);
		cells.changed = { from: 11000, to: 11040 };
		cells.fresh = { from: 11000, to: 11040 };
	}
	return "";
})()`

// memoryPicture makes the picture of docs/web.md: ls of all that is below /usr, as it runs.
func memoryPicture(t *testing.T, b *browser, path string) {
	table := filepath.Join(t.TempDir(), "ls.dynprof")
	c := exec.Command(build(t, "hotspots"), "run", "--heat=pages", "--summary", "0", "-o", table, "--", "ls", "-lR", "/usr")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Signal(syscall.SIGTERM); c.Wait() }()
	until(t, func() bool { _, err := os.Stat(table + ".heat"); return err == nil }, "no pages are noted")
	b.size(1400, 900, false)
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head.instructions > 3e8`)
	box := js[[]float64](b, `(() => { const r = hotspots.views.memory.over.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()`)
	b.do(chromedp.DragAndDropXY(box[0]+box[2]*0.35, box[1]+box[3]*0.66, box[0]+box[2]*0.62, box[1]+box[3]*0.99, 5))
	b.sees(`document.querySelector(".part table")`)
	b.picture(path)
}

// webWhose: who has touched a page is a stripe at its row, and said where that is pointed at; page
// faults are marks at the top. Without --heat=threads it is said how it would be known.
func webWhose(t *testing.T, b *browser) {
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror", "-pthread", "-falign-functions=32"}, "heat_threads.c")
	r, table := countedAt(t, cmd(program), "--heat=threads", "--objects", "main")
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0 && hotspots.views.memory.curves.head?.settled`)
	b.keys("w")
	b.sees(`location.hash.includes("mw=1") && hotspots.views.memory.layers.whose?.noted`)
	js[bool](b, fmt.Sprintf(`hotspots.views.memory.setAddresses(%d, %d) ?? true`, heatBase, heatBase+heatPages*4096))
	b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.from === %d && hotspots.views.memory.cells.head.row === 4096`, heatBase))
	for page, by := range saidByWhom(r.stdout) {
		of := map[string]bool{}
		for _, name := range strings.FieldsFunc(by[0]+";"+by[1], func(c rune) bool { return c == ';' }) {
			of[name] = true
		}
		at := heatBase + page*4096
		got := js[string](b, fmt.Sprintf(`(({ runs, threads }) => { const r = runs.find((r) => r.from <= %d && %d < r.to); return r.threads + (r.threads === 1 ? " " + threads[r.thread] : ""); })(hotspots.views.memory.layers.whose)`, at, at))
		want := strconv.Itoa(len(of))
		for name := range of {
			if len(of) == 1 {
				want += " " + name
			}
		}
		if got != want {
			t.Errorf("page %d: %s, not %s", page, got, want)
		}
	}
	stripe := func(page int) string {
		return fmt.Sprintf(`(() => {
			const v = hotspots.views.memory, n = v.cells.order.length, { over } = v;
			v.drawOver();
			return [...over.getContext("2d").getImageData(over.width - 4, (v.cells.rowOf(%d) + 0.5) / n * over.height, 1, 1).data].join();
		})()`, heatBase+page*4096)
	}
	b.sees(stripe(100) + ` === "255,255,255,255"`)
	b.sees(stripe(8) + ` !== ` + stripe(16) + ` && ` + stripe(8) + ` !== "0,0,0,255"`)
	b.sees(pointAt(fmt.Sprintf("%#x", heatBase+100*4096)) + `.includes("shared by 6 threads, read by ")`)
	b.sees(pointAt(fmt.Sprintf("%#x", heatBase+8*4096)) + `.includes("one thread, read by ` + saidByWhom(r.stdout)[8][0] + `, written by ` + saidByWhom(r.stdout)[8][0] + `")`)
	b.keys("w")
	b.sees(`!location.hash.includes("mw=1") && hotspots.views.memory.layers.el.hidden`)
	b.faultless()

	_, table = countedAt(t, cmd(program), "--heat=pages", "--objects", "main")
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0`)
	b.keys("w")
	b.sees(`document.querySelector(".memory").innerText.includes("hotspots run --heat=threads")`)
	b.faultless()
}
