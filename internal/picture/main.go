// Command picture runs a command on a terminal of its own, and writes what that shows at
// the end as SVG: pictures in docs/ are of real runs (make pictures).
//
//	picture -o FILE.svg [-size 80x24] [-keys WAIT:KEYS]... SHELL-COMMAND
//
// Each KEYS are typed when so much time has gone by; what is shown before the last ones is
// the picture if there are any.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// Size of a cell in the picture, and what is around all.
const (
	cellWidth, cellHeight = 8, 17
	margin                = 12
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "the picture's `FILE`")
	size := flag.String("size", "80x24", "columns and lines")
	var keys []string
	flag.Func("keys", "`WAIT:KEYS` to be typed", func(s string) error { keys = append(keys, s); return nil })
	flag.Parse()
	var columns, lines int
	if _, err := fmt.Sscanf(*size, "%dx%d", &columns, &lines); err != nil || flag.NArg() != 1 || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	svg, err := shoot(flag.Arg(0), columns, lines, keys)
	if err == nil {
		err = os.WriteFile(*out, []byte(svg), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// shoot runs the command, and draws the terminal.
func shoot(command string, columns, lines int, keys []string) (string, error) {
	cmd := exec.Command("bash", "-c", command)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)})
	if err != nil {
		return "", err
	}
	defer f.Close()
	screen := vt10x.New(vt10x.WithSize(columns, lines))
	done := make(chan struct{})
	go func() {
		defer close(done)
		text := bufio.NewReaderSize(f, 64<<10)
		for { // a character may come in two parts
			c, _, err := text.ReadRune()
			if err != nil {
				return
			}
			screen.Write([]byte(string(c)))
		}
	}()
	picture := ""
	for _, k := range keys {
		wait, text, _ := strings.Cut(k, ":")
		d, err := time.ParseDuration(wait)
		if err != nil {
			return "", err
		}
		time.Sleep(d)
		picture = draw(screen, columns, lines)
		if _, err := f.WriteString(text); err != nil {
			return "", err
		}
	}
	<-done
	cmd.Wait()
	if picture == "" {
		picture = draw(screen, columns, lines)
	}
	return picture, nil
}

// The colors of a terminal, readable on a dark ground.
var palette = [16]string{
	"#2e3440", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9",
	"#7f8a9e", "#ff8791", "#b5e08d", "#ffd98b", "#7cc5ff", "#dd9cf3", "#74d3df", "#ffffff",
}

const foreground, background = "#d8dee9", "#1e222a"

func color(c vt10x.Color, otherwise string) string {
	switch {
	case c < 16:
		return palette[c]
	case c == vt10x.DefaultFG: // also as the ground of what is reversed
		return foreground
	case c == vt10x.DefaultBG:
		return background
	}
	return otherwise
}

// The bits of a glyph's mode in vt10x that are shown. Colors of what is reversed are
// exchanged already.
const (
	underlined = 2
	bold       = 4
)

// draw makes the SVG; empty lines at the end are left out.
func draw(screen vt10x.Terminal, columns, lines int) string {
	screen.Lock()
	defer screen.Unlock()
	for lines > 1 && blank(screen, columns, lines-1) {
		lines--
	}
	var b strings.Builder
	width, height := columns*cellWidth+2*margin, lines*cellHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for y := range lines {
		for x := 0; x < columns; {
			end := x + 1
			g := screen.Cell(x, y)
			for end < columns && same(g, screen.Cell(end, y)) {
				end++
			}
			run(&b, screen, x, end, y)
			x = end
		}
	}
	return b.String() + "</svg>\n"
}

func blank(screen vt10x.Terminal, columns, y int) bool {
	for x := range columns {
		if g := screen.Cell(x, y); g.Char != ' ' && g.Char != 0 {
			return false
		}
	}
	return true
}

func same(a, b vt10x.Glyph) bool {
	return a.FG == b.FG && a.BG == b.BG && (a.Mode^b.Mode)&(underlined|bold) == 0
}

// run draws the cells of a line that look alike. Their text is as wide as they are,
// whatever the font.
func run(b *strings.Builder, screen vt10x.Terminal, from, to, y int) {
	g := screen.Cell(from, y)
	fg, bg := color(g.FG, foreground), color(g.BG, background)
	text := []rune{}
	for x := from; x < to; x++ {
		if c := screen.Cell(x, y).Char; c != 0 {
			text = append(text, c)
		} else {
			text = append(text, ' ')
		}
	}
	x, top := margin+from*cellWidth, margin+y*cellHeight
	if bg != background {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, top, (to-from)*cellWidth, cellHeight, bg)
	}
	shown := strings.TrimRight(string(text), " ")
	if shown == "" {
		return
	}
	style := ""
	if g.Mode&bold != 0 {
		style += ` font-weight="bold"`
	}
	if g.Mode&underlined != 0 {
		style += ` text-decoration="underline"`
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s" textLength="%d" xml:space="preserve"%s>%s</text>`+"\n",
		x, top+13, fg, len([]rune(shown))*cellWidth, style, html.EscapeString(shown))
}
