package test

import (
	"fmt"
	"strings"
	"testing"
)

// webLast: who has read and who has written a page last is said where it is pointed at, with its source
// line, if that was noted.
func webLast(t *testing.T, b *browser) {
	program, _ := whoProgram(t, "-O1", "-g")
	r, table := countedAt(t, cmd(program), "--heat=who", "--objects", "main")
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0 && hotspots.views.memory.curves.head?.settled`)
	js[bool](b, fmt.Sprintf(`hotspots.views.memory.setAddresses(%d, %d) ?? true`, heatBase, heatBase+heatPages*4096))
	b.sees(fmt.Sprintf(`hotspots.views.memory.cells.head.from === %d && hotspots.views.memory.cells.head.row === 4096`, heatBase))
	want, _ := saidLasts(r.stdout)
	for page := 0; page < 40; page += 7 {
		for i, what := range []string{"read", "written"} {
			name, _, _ := strings.Cut(want[page][i], "@")
			b.sees(fmt.Sprintf(`/last %s by %s(\+0x[0-9a-f]+)? \(heat_who\.c:\d+\)/.test(%s)`, what, name, pointAt(fmt.Sprintf("%#x", heatBase+page*4096))))
		}
	}
	b.faultless()

	_, table = countedAt(t, cmd(program), "--heat=pages", "--objects", "main")
	b.open(serveWeb(t, table).url)
	b.sees(`hotspots.model?.names && document.querySelector("main").firstChild`)
	b.keys("7")
	b.sees(`hotspots.views.memory.cells.head?.instructions > 0`)
	at := pointAt(fmt.Sprintf("%#x", heatBase))
	b.sees(at + `.includes("last written in slice") && !` + at + `.includes("last written by")`)
	b.faultless()
}
