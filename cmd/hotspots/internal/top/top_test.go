package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/table/layout"
)

var start = time.Date(2026, 11, 25, 12, 0, 0, 0, time.Local)

// book is a program of four functions in two objects, and more nameless ones.
func book(more int) *Book {
	b := &Book{
		Program: "/opt/demo", Pid: 42, Started: start,
		Objects: []layout.Object{{Path: "/opt/demo", BuildID: "0a"}, {Path: "/usr/lib/lib\x1b[2Jevil.so.6"}},
		Functions: []layout.Function{
			{Address: 0x1000, Size: 10, Name: "main", Tactic: ledger.TacticJump},
			{Address: 0x1010, Size: 20, Name: "_ZN4demo3addEii", Aliases: []string{"plus"}, Tactic: ledger.TacticJump, Counter: 1},
			{Address: 0x1020, Size: 30, Tactic: ledger.TacticJump, Counter: 2},
			{Address: 0x1030, Size: 40, Name: "bad\x1b]0;name\x07", Object: 1, Tactic: ledger.TacticHop, Counter: 3},
		},
	}
	for i := range more {
		b.Functions = append(b.Functions, layout.Function{Address: uint64(0x2000 + 16*i), Name: fmt.Sprintf("function_%05d", i), Counter: uint32(4 + i), Tactic: ledger.TacticJump})
	}
	return b
}

// frame is a reading so many seconds after the start.
func frame(b *Book, second float64, calls ...uint64) *Frame {
	f := &Frame{Book: b, Time: start.Add(time.Duration(second * float64(time.Second))), Calls: make([]uint64, len(b.Functions)), State: "running", Running: true, Counting: 2}
	copy(f.Calls, calls)
	for _, n := range calls {
		f.Total += n
	}
	f.Threads = []Thread{{ThreadID{42, 42, 1}, f.Total / 4}, {ThreadID{42, 43, 1}, f.Total - f.Total/4}}
	return f
}

func view(width, height int) *Model {
	m := New(Options{Interval: time.Second, Sort: "rate", By: "function"})
	m.Resize(width, height)
	return m
}

// keys presses keys: letters, or what is in angle brackets.
func press(m *Model, text string) (action Action) {
	names := map[string]cells.Key{"Enter": cells.Enter, "Esc": cells.Escape, "Up": cells.Up, "Down": cells.Down, "End": cells.End, "Home": cells.Home, "Tab": cells.Tab, "BackTab": cells.BackTab, "BS": cells.Backspace, "PgDn": cells.PageDown, "PgUp": cells.PageUp, "WheelDown": cells.WheelDown, "WheelUp": cells.WheelUp}
	for text != "" {
		e := cells.Event{Key: cells.Rune, Rune: rune(text[0])}
		rest := text[1:]
		if name, after, ok := strings.Cut(text[1:], ">"); text[0] == '<' && ok {
			e, rest = cells.Event{Key: names[name]}, after
		}
		action, text = m.Key(e), rest
		m.View()
	}
	return action
}

// names are the last words of the list's lines.
func names(m *Model) (list []string) {
	lines := strings.Split(m.View().Text(), "\n")
	for _, l := range lines[m.listTop : m.listTop+min(m.page, len(m.lines))] {
		if words := strings.Fields(l); len(words) > 0 {
			list = append(list, words[len(words)-1])
		}
	}
	return list
}

func expect(t *testing.T, m *Model, want ...string) {
	t.Helper()
	text := m.View().Text()
	for _, w := range want {
		if without, ok := strings.CutPrefix(w, "!"); ok == strings.Contains(text, strings.TrimPrefix(without, "!")) {
			t.Errorf("%q in\n%s", w, text)
		}
	}
}

func TestRatesAndOrder(t *testing.T) {
	b := book(0)
	m := view(80, 24)
	expect(t, m, "reading ...")
	m.Frame(frame(b, 0, 1, 1000, 20, 3))
	expect(t, m, "demo  pid 42  running", "all  1,024 calls", "97.66%", "!fun")
	if got := names(m); !slices.Equal(got, []string{"demo::add(int,int)", "demo+0x1020", "bad\uFFFD]0;name\uFFFD", "main"}) && !slices.Equal(got, []string{"int)", "demo+0x1020", "bad\uFFFD]0;name\uFFFD", "main"}) {
		t.Errorf("%q", got)
	}
	m.Frame(frame(b, 2, 101, 1010, 20, 3))
	expect(t, m, "55/s  all  1,134 calls", "50  ", "running  0:02  threads 2")
	if got := names(m); got[0] != "main" || got[1] != "int)" {
		t.Errorf("by rate: %q", got)
	}
	press(m, "S")
	if got := names(m); got[len(got)-1] != "main" {
		t.Errorf("the other way round: %q", got)
	}
	press(m, "s")
	if got := names(m); got[0] != "int)" || got[1] != "main" {
		t.Errorf("by calls: %q", got)
	}
	press(m, "ss")
	if got := names(m); got[0] != "bad\uFFFD]0;name\uFFFD" {
		t.Errorf("by name: %q", got)
	}
	press(m, "s")
	if m.column != byRate {
		t.Errorf("column %d", m.column)
	}
	expect(t, m, "!\x1b")
}

func TestGroups(t *testing.T) {
	b := book(0)
	m := view(120, 24)
	m.Frame(frame(b, 0, 1, 1000, 20, 3))
	m.Frame(frame(b, 1, 1, 1000, 20, 103))
	press(m, "<Tab>")
	expect(t, m, "OBJECT", "/opt/demo", "lib\uFFFD[2Jevil.so.6", "1,021")
	press(m, "<Enter>")
	if got := names(m); len(got) != 1 || m.group != Functions {
		t.Errorf("the functions of an object: %q", got)
	}
	press(m, "t")
	expect(t, m, "42 (first)", "43", "281", "843")
	press(m, "p")
	if !m.WantsPrograms() || m.HasPrograms() {
		t.Error("programs")
	}
	f := frame(b, 2, 1, 1000, 20, 103)
	f.Programs = []Program{{Table: "/a", Name: "/opt/demo", Pid: 42, Threads: 2, Calls: f.Total, Running: true}, {Table: "/b", Name: "/opt/other\x07", Pid: 7, Calls: 5000}}
	m.Frame(f)
	expect(t, m, "/opt/demo", "/opt/other\uFFFD (ended)", "5,000")
	press(m, "<Home>")
	if action := press(m, "<Enter>"); action != Open || m.Chosen() != "/b" {
		t.Errorf("%v %q", action, m.Chosen())
	}
	m.Switched()
	expect(t, m, "reading ...")
	if press(m, "p<BackTab>jkgG<Enter><Esc>zzmMn"); m.View() == nil {
		t.Error("keys before the first reading")
	}
}

func TestFilter(t *testing.T) {
	b := book(50)
	calls := make([]uint64, len(b.Functions))
	for i := range calls {
		calls[i] = uint64(1000 - i)
	}
	m := view(80, 24)
	m.Frame(frame(b, 0, calls...))
	press(m, "/FUNCTION_0000")
	expect(t, m, "/FUNCTION_0000", "0 functions", "nothing that was called has that")
	press(m, "<Esc>/function_0000")
	expect(t, m, "10 functions  Enter keeps")
	press(m, "7<Enter>")
	expect(t, m, "/function_00007: 1 function", "q quit")
	if got := names(m); !slices.Equal(got, []string{"function_00007"}) {
		t.Errorf("%q", got)
	}
	calls[11]++ // function 7
	m.Frame(frame(b, 1, calls...))
	expect(t, m, "1/s  ", "/function_00007: 1 function")
	press(m, "/<BS><BS>q")
	expect(t, m, "/function_000q")
	press(m, "<Esc>/plus<Enter>") // an alias
	expect(t, m, "demo::add")
	press(m, "<Esc>/evil<Enter>") // an object
	expect(t, m, "bad\uFFFD")
	press(m, "<Esc>")
	expect(t, m, "!/evil")
}

// TestCursor: it stays on its function wherever that goes, and on the screen where it is;
// at the top it stays there.
func TestCursor(t *testing.T) {
	b := book(100)
	calls := make([]uint64, len(b.Functions))
	for i := range calls {
		calls[i] = uint64(2000 - i)
	}
	m := view(80, 24)
	m.Frame(frame(b, 0, calls...))
	m.View()
	calls = slices.Clone(calls)
	calls[50] += 500
	m.Frame(frame(b, 1, calls...))
	if m.View(); m.selected.number != 50 || m.cursor != 0 {
		t.Errorf("at the top: function %d, line %d", m.selected.number, m.cursor)
	}
	press(m, "<PgDn><PgDn><Up>")
	was, row := m.selected, m.cursor-m.first
	calls = slices.Clone(calls)
	for i := range 30 {
		calls[70+i] += uint64(100 * (i + 1))
	}
	m.Frame(frame(b, 2, calls...))
	if m.View(); m.selected != was || m.cursor-m.first != row {
		t.Errorf("%+v on line %d, not %+v on line %d", m.selected, m.cursor-m.first, was, row)
	}
	press(m, "<End>")
	if m.cursor != len(m.lines)-1 || m.first != len(m.lines)-m.page {
		t.Errorf("line %d, from %d", m.cursor, m.first)
	}
	m.Resize(80, 10)
	if m.View(); m.cursor < m.first || m.cursor >= m.first+m.page {
		t.Errorf("line %d is not among %d from %d", m.cursor, m.page, m.first)
	}
	press(m, "<WheelUp>")
	if m.cursor != len(m.lines)-1-wheel {
		t.Errorf("line %d", m.cursor)
	}
	for range 200 {
		press(m, "<WheelUp>")
	}
	if m.cursor != 0 || !m.home {
		t.Errorf("line %d", m.cursor)
	}
}

func TestMark(t *testing.T) {
	b := book(0)
	m := view(100, 24)
	m.Frame(frame(b, 0, 5, 1000))
	press(m, "m")
	m.Frame(frame(b, 1, 7, 1000, 0, 1))
	expect(t, m, "SINCE", "new 1", "mark 0:01")
	if got := names(m); got[0] != "main" {
		t.Errorf("%q", got)
	}
	press(m, "n")
	if got := names(m); len(got) != 1 || got[0] != "bad\uFFFD]0;name\uFFFD" {
		t.Errorf("new ones: %q", got)
	}
	m.Frame(frame(b, 2, 7, 1000, 3, 1))
	if got := names(m); len(got) != 2 {
		t.Errorf("new ones: %q", got)
	}
	press(m, "M")
	expect(t, m, "!SINCE", "!mark 0")
	if got := names(m); len(got) != 4 {
		t.Errorf("all: %q", got)
	}
	// A reset takes calls away.
	press(m, "m")
	f := frame(b, 3, 2)
	f.Reset = f.Time
	m.Frame(f)
	expect(t, m, "all  2 calls", "2/s")
	if got := names(m); !slices.Equal(got, []string{"main"}) {
		t.Errorf("after a reset: %q", got)
	}
}

func TestFreeze(t *testing.T) {
	b := book(0)
	m := view(80, 24)
	m.Frame(frame(b, 0, 5, 1000))
	press(m, "z")
	f := frame(b, 1, 6, 2000)
	f.Running, f.State = false, "exited with status 3"
	m.Frame(f)
	expect(t, m, "FROZEN", "1,005 calls", "exited with status 3", "go on")
	press(m, "<Down>s")
	expect(t, m, "FROZEN", "1,005 calls")
	press(m, "z")
	expect(t, m, "!FROZEN", "2,006 calls")
	m.Frame(&Frame{Err: fmt.Errorf("it is\x1b gone")})
	expect(t, m, "it is\uFFFD gone", "2,006 calls")
}

func TestDetail(t *testing.T) {
	b := book(0)
	m := view(80, 30)
	m.Frame(frame(b, 0, 5, 1000))
	m.Frame(frame(b, 1, 5, 2000))
	m.View()
	press(m, "<Enter>")
	if i, ok := m.WantsDetail(); i != 1 || !ok {
		t.Fatalf("%d, %v", i, ok)
	}
	expect(t, m, "demo::add(int, int)", "0x1010, 20 bytes", "counted by jump", "_ZN4demo3addEii", "aliases   plus", "2,000, 99.75% of all", "reading the file")
	d := &Detail{Function: 1, Threads: []Thread{{ThreadID{42, 43, 0}, 1500}}, Callers: []Edge{{"main of demo", "call", 2000}}, Code: []Text{{"  RUNS", false}}}
	for i := range 100 {
		d.Code = append(d.Code, Text{fmt.Sprintf("%d nop\x1b[31m", i), i == 0})
	}
	m.Detail(&Detail{Function: 7, NoCode: "of another function"})
	m.Detail(d)
	expect(t, m, "1,500  43 of 42", "2,000  call       main of demo", "0 nop\uFFFD[31m", "more lines", "!another")
	press(m, "<End>")
	expect(t, m, "99 nop", "!more lines", "!aliases")
	press(m, "<Esc>")
	if _, ok := m.WantsDetail(); ok {
		t.Error("it stays")
	}
	expect(t, m, "FUNCTION")
	if press(m, "<Enter>q") != Quit {
		t.Error("q")
	}
}

// TestLongName: a name that is longer than a line is shown as a whole.
func TestLongName(t *testing.T) {
	b := book(0)
	b.Functions[0].Name = strings.Repeat("long", 50) + "end"
	m := view(80, 24)
	m.Frame(frame(b, 0, 5))
	expect(t, m, "!end")
	press(m, "<Enter>")
	expect(t, m, strings.Repeat("long", 20)+"\n"+strings.Repeat("long", 20)+"\n"+strings.Repeat("long", 10)+"end\n")
	if got := chunks("日本語x", 4); !slices.Equal(got, []string{"日本", "語x"}) {
		t.Errorf("%q", got)
	}
}

func TestEventsAndNotes(t *testing.T) {
	b := book(0)
	m := view(80, 24)
	f := frame(b, 0, 5, 1000)
	f.Threshold, f.Hot = 100, func(i int) bool { return i == 1 }
	f.Events = []Event{{start, 1, 100, 42, "none"}, {start, -1, 100, 42, "none"}}
	f.Remarks = []string{"one", "two"}
	m.Frame(f)
	expect(t, m, "2 functions became hot", "12:00:00.000  100 calls  thread 42  none  demo::add", "a function that came later", "one (and 1 more: see hotspots report)", " hot")
}

func TestClick(t *testing.T) {
	b := book(20)
	m := view(80, 24)
	m.Frame(frame(b, 0, 5, 1000, 3))
	m.View()
	click := func(x, y int) {
		m.Key(cells.Event{Key: cells.Click, X: x, Y: y})
		m.View()
	}
	click(30, m.listTop+2)
	if m.cursor != 2 {
		t.Errorf("line %d", m.cursor)
	}
	at := m.heads[len(m.heads)-1].x
	click(at, m.listTop-1)
	if m.column != byName || m.reversed {
		t.Errorf("column %d", m.column)
	}
	click(at, m.listTop-1)
	if !m.reversed {
		t.Error("the other way round")
	}
	click(0, 0)
	click(79, 23)
	click(500, 500)
	click(30, m.listTop+15) // below the last
	if m.cursor != 0 && m.cursor != 2 {
		t.Errorf("line %d", m.cursor)
	}
}

// TestSizes: nothing is shown where there is no room, and nothing fails.
func TestSizes(t *testing.T) {
	b := book(50)
	for _, ascii := range []bool{false, true} {
		m := New(Options{Interval: time.Second, Sort: "rate", By: "function", ASCII: ascii})
		calls := make([]uint64, len(b.Functions))
		for i := range 70 {
			calls[i%len(calls)] += 1 << (i % 60)
			f := frame(b, float64(i), calls...)
			f.Threshold, f.Events = 5, []Event{{start, 1, 100, 42, "none"}}
			m.Frame(f)
			calls = slices.Clone(calls)
		}
		for _, keys := range []string{"", "m", "o", "t", "p", "f<Enter>", "?", "q", "<Esc>e"} {
			press(m, keys)
			for w := range 130 {
				for _, h := range []int{0, 1, 2, 5, 6, 7, 12, 24, 50} {
					m.Resize(w, h)
					if text := m.View().Text(); ascii && strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
						t.Fatalf("not ASCII:\n%s", text)
					}
				}
			}
			m.Resize(80, 24)
			m.View()
		}
	}
}

// TestLargeNumbers: they are never cut, not even where their sum is smaller than they are.
func TestLargeNumbers(t *testing.T) {
	b := book(0)
	m := view(120, 24)
	f := frame(b, 0, 1<<63+5, 1<<63+7)
	f.Programs = []Program{{Table: "/a", Name: "/a", Calls: 12}, {Table: "/b", Name: "/b", Calls: 1<<64 - 1}}
	m.Frame(f)
	expect(t, m, "all  12 calls", " 9,223,372,036,854,775,813 ", " 9,223,372,036,854,775,815 ")
	press(m, "p")
	expect(t, m, " 18,446,744,073,709,551,615 ")
}

// TestSparkline: samples are put together, and stay where they are when one comes.
func TestSparkline(t *testing.T) {
	b := book(0)
	m := view(200, 24)
	var calls uint64
	for i := range 100 {
		calls += uint64(i)
		m.Frame(frame(b, float64(i), calls))
	}
	if n := len(m.shown.samples); n != 60 {
		t.Errorf("%d samples", n)
	}
	count := func(s *sample) float64 { return s.of(lineID{number: 0}, Functions, b) }
	all := buckets(m.shown.samples, time.Second, 60, count)
	if len(all) != 60 || all[59] != 99 || all[0] != 40 {
		t.Errorf("%v", all)
	}
	half := buckets(m.shown.samples, time.Second, 30, count)
	if len(half) != 30 || half[10] != (half[9]+half[11])/2 {
		t.Errorf("%v", half)
	}
	if wide := buckets(m.shown.samples, 10*time.Second, 60, count); len(wide) != 60 || wide[59] != wide[50] || wide[59] == wide[49] {
		t.Errorf("%v", wide)
	}
	expect(t, m, "█ peak 99")
}

// TestTimes: where CPU time is sampled there are columns of it, of functions and objects.
func TestTimes(t *testing.T) {
	b := book(0)
	timed := func(second float64) *Frame {
		f := frame(b, second, 1, 1000, 20)
		f.Times, f.TotalTime = make([]uint64, len(b.Functions)), 10_000_000
		f.Times[0], f.Times[1], f.Times[3] = 5_000_000, 2_000_000, 1_000_000 // the last was not called
		return f
	}
	m := view(120, 30)
	m.Frame(frame(b, 0, 1, 1000, 20))
	expect(t, m, "!TIME%", "!A CALL")
	m.Frame(timed(1))
	expect(t, m, "TIME%", "A CALL", "50.00%", "5.00 ms", "20.00%", "2.00 us", "10.00%")
	press(m, "ss")
	if got := names(m); len(got) != 4 || got[0] != "main" || got[1] != "int)" {
		t.Errorf("by time: %q", got)
	}
	press(m, "<Enter>")
	expect(t, m, "CPU time", "5.00 ms, 50.00% of all")
	press(m, "<Esc>o")
	expect(t, m, "TIME%", "70.00%", "10.00%")
	press(m, "t")
	expect(t, m, "!TIME%")
	m.Resize(80, 24)
	press(m, "f")
	expect(t, m, "TIME%", "!A CALL")
	m = New(Options{Interval: time.Second, Sort: "time", By: "function"})
	m.Resize(100, 24)
	m.Frame(timed(0))
	if got := names(m); got[0] != "main" {
		t.Errorf("by time: %q", got)
	}
	reset := timed(2)
	reset.Reset = start
	m.Frame(reset)
	expect(t, m, "TIME%", "!5.00 ms")
}
