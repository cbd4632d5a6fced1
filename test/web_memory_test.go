package test

import (
	"strings"
	"testing"
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
	const rows = `hotspots.views.memory.cells?.addresses.filter((a) => a.startsWith("0x2000000")).length`
	b.sees(rows + ` === 6`)
	p.goOn(t)
	p.see(t, 1)
	b.sees(rows + ` === 11`)
	says := js[string](b, `(() => {
		const v = hotspots.views.memory, box = v.canvas.getBoundingClientRect(), row = v.cells.addresses.indexOf("0x20000000a000");
		v.canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + 1, clientY: box.top + (row + 0.5) * box.height / v.cells.rows }));
		return document.querySelector(".memory [role=status]").innerText + (v.done.subarray(row * v.cells.columns, (row + 1) * v.cells.columns).includes(2) ? ", stored" : "");
	})()`)
	if !strings.HasPrefix(says, "0x20000000a000") || !strings.HasSuffix(says, ", stored") {
		t.Errorf("%q", says)
	}
	b.keys("b")
	b.sees(`document.querySelector(".memory .toggle").getAttribute("aria-pressed") === "true"`)
	p.to.Close()
	b.sees(`document.querySelector("#top .status").innerText.startsWith("exited")`)

	_, table := countedAt(t, cmd("true"))
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`document.querySelector(".memory").innerText.includes("hotspots run --heat=pages")`)
}
