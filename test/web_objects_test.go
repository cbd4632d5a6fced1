package test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// webObjects: data objects lie at the right of the picture, each in its place to a byte, and are said where
// they are pointed at.
func webObjects(t *testing.T, b *browser) {
	program := compile(t, need(t, "gcc"), []string{"-O1", "-Wall", "-Werror"}, "heat_objects.c")
	_, table := countedAt(t, cmd(program), "--heat=bytes", "--objects", "main")
	all := objectsOf(t, table).Variables
	at := func(name string) (from, to uint64) {
		v := all[slices.IndexFunc(all, func(v variableRow) bool { return v.Name == name })]
		return v.from(t), v.from(t) + v.Bytes
	}
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0 && hotspots.views.memory.curves.head?.settled`)
	b.sees(`hotspots.views.memory.objects.el.hidden`)
	b.keys("v")
	b.sees(`location.hash.includes("mo=1") && hotspots.views.memory.objects.list.some((o) => o.name === "written_only")`)
	from, to := at("written_only")
	js[bool](b, fmt.Sprintf(`hotspots.views.memory.setAddresses(%d, %d) ?? true`, from, to))
	b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.from === %d && hotspots.views.memory.cells.order.length === %d && hotspots.views.memory.objects.list.length === 1`, from, (to-from)/8))
	b.sees(pointAt(fmt.Sprintf("%#x", from)) + fmt.Sprintf(`.includes("in written_only: 512 bytes from %#x on")`, from))
	const band = `(() => {
		const v = hotspots.views.memory, { over } = v;
		v.drawOver();
		return [...over.getContext("2d").getImageData(over.width - 4, over.height / 2, 1, 1).data].join();
	})()`
	b.sees(band + ` !== "0,0,0,255" && ` + band + ` !== "0,0,0,0"`)
	if pictures := setting("PICTURES"); pictures != "" {
		js[bool](b, `hotspots.views.memory.reset() ?? true`)
		b.sees(`hotspots.views.memory.cells.head.from === 0`)
		b.picture(filepath.Join(pictures, "web-objects.png"))
	}
	b.keys("v")
	b.sees(`!location.hash.includes("mo=1") && hotspots.views.memory.objects.el.hidden`)
	b.faultless()

	program = compile(t, need(t, "gcc"), []string{"-O1", "-g", "-Wall", "-Werror"}, "heat_allocs.c")
	r, table := countedAt(t, cmd(program), "--heat", "--allocs", "--objects", "main")
	places := map[string]uint64{}
	for line := range strings.Lines(r.stdout) {
		var name string
		var at, size uint64
		if n, _ := fmt.Sscanf(line, "block %s %v %d", &name, &at, &size); n == 3 {
			places[fmt.Sprintf("%s %d", name, size)] = at
		}
	}
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0 && hotspots.views.memory.curves.head?.settled`)
	for _, row := range []struct{ of, said string }{
		{"plain 5000", `in a block of 5,000 bytes allocated by plain (heat_allocs.c:`},
		{"later 30000", `in a block of 30,000 bytes allocated by later (heat_allocs.c:`}, // this stays in view
	} {
		of, said := row.of, row.said
		from := places[of] + 1024
		js[bool](b, fmt.Sprintf(`hotspots.views.memory.setAddresses(%d, %d) ?? true`, from, from+64))
		b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.from === %d`, from))
		text := pointAt(fmt.Sprintf("%#x", from))
		b.sees(text + `.includes(` + strconv.Quote(said) + `)`)
		b.sees(text + fmt.Sprintf(`.includes(", freed by ") === %v`, of == "later 30000"))
	}
	b.keys("v")
	b.sees(`hotspots.views.memory.objects.list.some((o) => o.block && o.name.startsWith("later ("))`)
	b.sees(`hotspots.views.memory.objects.el.innerText.includes("blocks allocated by")`)
	b.faultless()
}
