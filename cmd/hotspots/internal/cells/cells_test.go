package cells

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestPut(t *testing.T) {
	for _, row := range []struct {
		text  string
		width int
		ascii bool
		want  string
		end   int
	}{
		{"plain", 10, false, "plain", 5},
		{"too long for it", 6, false, "too lo", 6},
		{"\x1b[31mred\x07\n", 10, false, "\uFFFD[31mred\uFFFD\uFFFD", 10},
		{"\u202eback", 10, false, "\uFFFDback", 5}, // it would turn the line round
		{"bad \xff\xfe", 10, false, "bad \uFFFD\uFFFD", 6},
		{"日本語", 5, false, "日本", 4},
		{"e\u0301a", 10, false, "e\u0301a", 2}, // two characters are one column
		{"日é▁", 10, true, "???", 3},
		{"", 10, false, "", 0},
	} {
		g := New(20, 1)
		g.ASCII = row.ascii
		end := g.Put(0, 0, row.width, Style{}, row.text)
		if got := strings.TrimSuffix(g.Text(), "\n"); got != row.want || end != row.end {
			t.Errorf("%q in %d: %q up to %d, not %q up to %d", row.text, row.width, got, end, row.want, row.end)
		}
	}
	g := New(3, 2)
	g.Put(-1, 0, 3, Style{}, "abc")
	g.Put(2, 1, 9, Style{}, "xyz")
	g.Put(0, 7, 9, Style{}, "out")
	g.Fill(-5, 1, 99, Style{Bold: true})
	if got := g.Text(); got != "bc\n  x\n" {
		t.Errorf("%q", got)
	}
}

// play is what a terminal shows that is sent these bytes.
func play(t *testing.T, g *Grid, b []byte) {
	t.Helper()
	x, y := 0, 0
	var style Style
	for text := string(b); text != ""; {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(rest, unicode.IsLetter)
			parameters, final := rest[:end], rest[end]
			text = rest[end+1:]
			switch final {
			case 'H':
				if _, err := fmt.Sscanf(parameters, "%d;%d", &y, &x); err != nil {
					t.Fatalf("%q", parameters)
				}
				x, y = x-1, y-1
			case 'J':
				*g = *New(g.Width, g.Height)
			case 'm':
				style = Style{}
				for _, p := range strings.Split(parameters, ";") {
					var n Color
					fmt.Sscan(p, &n)
					switch {
					case n == 1:
						style.Bold = true
					case n == 2:
						style.Dim = true
					case n == 4:
						style.Underlined = true
					case n == 7:
						style.Reverse = true
					case n >= 90:
						style.Color = n - 90 + Bright + Black
					case n >= 30:
						style.Color = n - 30 + Black
					}
				}
			case 'h', 'l':
			default:
				t.Fatalf("%q", final)
			}
			continue
		}
		part, rest, columns := next(text, false)
		g.Put(x, y, columns, style, part)
		x, text = x+columns, rest
	}
}

// TestPaint: whatever was shown, what is painted is what is to be shown.
func TestPaint(t *testing.T) {
	var p Painter
	shown := New(12, 3)
	for i, lines := range [][]string{
		{"first", "日本 second", ""}, {"first", "second", "third"}, {"日本", "日語 second", "third"}, {"日本", "日語 second", "third"}, {"a日本", "", "x"}, {"", "", ""},
	} {
		g := New(12, 3)
		for y, line := range lines {
			g.Put(0, y, 12, Style{Bold: y == i%3, Reverse: y == 1, Color: Color(i+y) % 16}, line)
		}
		b := p.Paint(g)
		play(t, shown, b)
		for y := range 3 {
			for x := range 12 {
				if *shown.At(x, y) != *g.At(x, y) {
					t.Errorf("%d: column %d of line %d: %+v, not %+v", i, x, y, *shown.At(x, y), *g.At(x, y))
				}
			}
		}
		if same := p.Paint(g); same != nil {
			t.Errorf("%d: %q for nothing", i, same)
		}
	}
	p.NoColor = true
	p.Forget()
	g := New(3, 1)
	g.Put(0, 0, 3, Style{Color: Red, Bold: true}, "red")
	if b := string(p.Paint(g)); strings.Contains(b, "31") || !strings.Contains(b, "\x1b[0;1mred") {
		t.Errorf("%q", b)
	}
}

func TestParse(t *testing.T) {
	key := func(k Key) Event { return Event{Key: k} }
	letter := func(r rune) Event { return Event{Key: Rune, Rune: r} }
	for _, row := range []struct {
		in   string
		want []Event
	}{
		{"qé日", []Event{letter('q'), letter('é'), letter('日')}},
		{"\x1b[A\x1bOB\x1b[5~\x1b[6;5~\x1b[1;2H\x1b[Z", []Event{key(Up), key(Down), key(PageUp), key(PageDown), key(Home), key(BackTab)}},
		{"\r\t\x7f\x03\x1a\x0c\x01", []Event{key(Enter), key(Tab), key(Backspace), key(Interrupt), key(Suspend), key(Redraw)}},
		{"\x1b[<0;12;3M\x1b[<0;12;3m\x1b[<64;1;1M\x1b[<65;1;1M\x1b[<35;4;4M", []Event{{Click, 0, 11, 2}, {WheelUp, 0, 0, 0}, {WheelDown, 0, 0, 0}}},
		{"\x1b[M abq", []Event{letter('q')}}, // a mouse of the old kind
		{"\x1bx\x1b\x1b[A", []Event{key(Escape), key(Up)}},
		{"\x1b[<0;99999999999999999999;1M\x1b[<1;2M\x1b[200~\x1b[?1;2cz", []Event{letter('z')}},
		{"\xff\x80a", []Event{letter('a')}},
	} {
		for _, size := range []int{1, 2, 100} { // as torn apart as may be
			var p Parser
			var got []Event
			for chunk := range slices.Chunk([]byte(row.in), size) {
				got = append(got, p.Feed(chunk)...)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%q, %d bytes at once: %v, not %v", row.in, size, got, row.want)
			}
		}
	}
	var p Parser
	if got := append(p.Feed([]byte("\x1b")), p.Flush()...); !slices.Equal(got, []Event{key(Escape)}) || p.Waits() {
		t.Errorf("a lone escape: %v", got)
	}
	if got := append(p.Feed([]byte("\x1b[1")), p.Flush()...); !slices.Equal(got, []Event{key(Escape), letter('['), letter('1')}) {
		t.Errorf("a torn sequence: %v", got)
	}
}

// FuzzParse: whatever comes, it ends, and little is kept.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"q", "\x1b[<0;1;2M", "\x1b[", "\x1bO", "\xe6\x97", "\x1b[999999999999999999999999999999999999999999999999999999999999999999999999999"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Parser
		for chunk := range slices.Chunk(b, 7) {
			p.Feed(chunk)
			if len(p.rest) >= maxRest {
				t.Fatalf("%d bytes are kept", len(p.rest))
			}
		}
		p.Flush()
		if len(p.rest) >= maxRest {
			t.Fatalf("%d bytes are kept", len(p.rest))
		}
	})
}
