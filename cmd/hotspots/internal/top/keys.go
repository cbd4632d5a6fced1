package top

import (
	"slices"
	"unicode/utf8"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
)

// wheel is how many lines a notch of a mouse's wheel is.
const wheel = 3

// Key does what a key is for.
func (m *Model) Key(e cells.Event) Action {
	switch {
	case e.Key == cells.Interrupt:
		return Quit
	case e.Key == cells.Suspend:
		return Suspend
	case e.Key == cells.Redraw:
		return Redraw
	case m.typing:
		m.typeKey(e)
	case m.help:
		m.help = false
		if e.Rune == 'q' {
			return Quit
		}
	case m.detail != nil:
		return m.detailKey(e)
	case e.Key == cells.Rune:
		return m.command(e.Rune)
	default:
		return m.move(e)
	}
	return Nothing
}

// typeKey types into the filter.
func (m *Model) typeKey(e cells.Event) {
	text := m.filter.text
	switch e.Key {
	case cells.Rune:
		text += string(e.Rune)
	case cells.Backspace:
		if text == "" {
			m.typing = false
		}
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	case cells.EraseLine, cells.EraseWord:
		text = ""
	case cells.Escape:
		text, m.typing = "", false
	case cells.Enter:
		m.typing = false
	case cells.Click:
		m.typing = false
		m.move(e)
	default:
		m.move(e)
	}
	m.setFilter(text)
}

func (m *Model) setFilter(text string) {
	if text != m.filter.text {
		m.filter.set(text)
		m.rebuild()
	}
}

// rebuild makes the list anew where it may have other lines.
func (m *Model) rebuild() {
	m.listed = nil
	m.arrange()
}

// command is what a letter does.
func (m *Model) command(r rune) Action {
	switch r {
	case 'q':
		return Quit
	case '?', 'h':
		m.help = true
	case '/':
		m.typing = true
	case 's', 'S':
		m.nextColumn(r == 's')
	case 'z':
		m.freeze()
	case 'm':
		m.setMark(m.shown.now)
	case 'M':
		m.setMark(nil)
	case 'n':
		if m.mark != nil {
			m.onlyNew = !m.onlyNew
			m.rebuild()
		}
	case 'f', 'o', 't', 'p':
		m.setGroup(Group(slices.Index([]rune("fotp"), r)))
	case 'e':
		m.eventsOpen = !m.eventsOpen
	case 'j':
		return m.move(cells.Event{Key: cells.Down})
	case 'k':
		return m.move(cells.Event{Key: cells.Up})
	case 'g':
		return m.move(cells.Event{Key: cells.Home})
	case 'G':
		return m.move(cells.Event{Key: cells.End})
	case ' ':
		return m.move(cells.Event{Key: cells.PageDown})
	}
	return Nothing
}

// nextColumn sorts by the next column, or by the same the other way round.
func (m *Model) nextColumn(next bool) {
	list := m.columns()
	if !next {
		m.reversed = !m.reversed
	} else {
		i := slices.Index(list, m.column)
		m.column, m.reversed = list[(i+1)%len(list)], false
	}
	m.arrange()
}

func (m *Model) freeze() {
	m.frozen = !m.frozen
	if !m.frozen && m.live.now != nil {
		m.show()
	}
}

// setMark has calls counted from a reading on; nil takes the mark away.
func (m *Model) setMark(at *Frame) {
	m.mark = at
	switch {
	case at != nil:
		m.column, m.reversed = bySince, false
	case m.column == bySince:
		m.column = byRate
	}
	if at == nil {
		m.onlyNew = false
	}
	m.rebuild()
}

func (m *Model) setGroup(group Group) {
	if group == m.group {
		return
	}
	m.group, m.home = group, true
	if !slices.Contains(m.columns(), m.column) {
		m.column = byRate
	}
	m.lines = nil
	m.filter.set("")
	m.rebuild()
}

// move moves the cursor, or does what is done with the line under it.
func (m *Model) move(e cells.Event) Action {
	m.home = false
	switch e.Key {
	case cells.Up:
		m.moveTo(m.cursor - 1)
	case cells.Down:
		m.moveTo(m.cursor + 1)
	case cells.PageUp:
		m.turn(-max(m.page-1, 1))
	case cells.PageDown:
		m.turn(max(m.page-1, 1))
	case cells.WheelUp:
		m.turn(-wheel)
	case cells.WheelDown:
		m.turn(wheel)
	case cells.Home:
		m.moveTo(0)
		m.home = true
	case cells.End:
		m.moveTo(len(m.lines) - 1)
	case cells.Tab:
		m.setGroup((m.group + 1) % Group(len(groupNames)))
	case cells.BackTab:
		m.setGroup((m.group + Group(len(groupNames)) - 1) % Group(len(groupNames)))
	case cells.Enter:
		return m.enter()
	case cells.Escape:
		m.setFilter("")
	case cells.Click:
		m.click(e.X, e.Y)
	}
	m.home = m.home || m.cursor == 0 && e.Key != cells.Enter
	return Nothing
}

// turn moves what is shown, and the cursor with it.
func (m *Model) turn(lines int) {
	m.first += lines
	m.moveTo(m.cursor + lines)
}

// click selects a line, or sorts by a column, the other way round if it is sorted by it.
func (m *Model) click(x, y int) {
	if i := m.first + y - m.listTop; y >= m.listTop && y < m.listTop+m.page && i < len(m.lines) {
		m.moveTo(i)
		return
	}
	if y != m.listTop-1 {
		return
	}
	for _, h := range m.heads {
		if x >= h.x && x < h.x+h.width && h.sorts {
			m.reversed = h.column == m.column && !m.reversed
			m.column = h.column
			m.arrange()
		}
	}
}

// enter shows more of what is selected.
func (m *Model) enter() Action {
	if len(m.lines) == 0 {
		return Nothing
	}
	switch m.group {
	case Functions:
		m.detail = &detailView{function: m.selected.number}
	case Objects:
		name := m.shown.now.Book.Object(m.selected.number)
		m.setGroup(Functions)
		m.setFilter(name)
	case Programs:
		return Open
	}
	return Nothing
}
