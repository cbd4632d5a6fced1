package cells

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key is a key, or what a mouse does.
type Key uint8

// Keys. Rune is a character.
const (
	None Key = iota
	Rune
	Enter
	Escape
	Tab
	BackTab
	Backspace
	Delete
	Up
	Down
	Left
	Right
	PageUp
	PageDown
	Home
	End
	Interrupt // Ctrl-C
	Suspend   // Ctrl-Z
	Redraw    // Ctrl-L
	EraseLine // Ctrl-U
	EraseWord // Ctrl-W
	WheelUp
	WheelDown
	Click
)

// Event is a key that was pressed.
type Event struct {
	Key  Key
	Rune rune // of Rune
	X, Y int  // of what a mouse did
}

// Parser finds events in the bytes that a terminal sends.
type Parser struct{ rest []byte }

// maxRest is the longest sequence that is waited for: terminals send none that long.
const maxRest = 64

// Feed takes more bytes, and returns the events that are whole.
func (p *Parser) Feed(b []byte) (events []Event) {
	p.rest = append(p.rest, b...)
	for len(p.rest) > 0 {
		e, n := parse(p.rest)
		if n == 0 && len(p.rest) < maxRest {
			break
		}
		p.rest = p.rest[max(n, 1):]
		if e.Key != None {
			events = append(events, e)
		}
	}
	return events
}

// Waits reports whether bytes are left that may be the beginning of a sequence.
func (p *Parser) Waits() bool { return len(p.rest) > 0 }

// Flush returns what the bytes that are left are if no more come: the key Escape, mostly.
func (p *Parser) Flush() (events []Event) {
	if len(p.rest) > 0 && p.rest[0] == esc {
		events = append(events, Event{Key: Escape})
		rest := p.rest[1:]
		p.rest = nil
		return append(events, p.Feed(rest)...)
	}
	p.rest = nil
	return nil
}

const esc = 0x1b

// controlKey is the key of a control character. It is no map: those are made at each start
// of the command, whatever it is to do.
func controlKey(c byte) Key {
	switch c {
	case '\r', '\n':
		return Enter
	case '\t':
		return Tab
	case 0x7f, 0x08:
		return Backspace
	case 0x03:
		return Interrupt
	case 0x1a:
		return Suspend
	case 0x0c:
		return Redraw
	case 0x15:
		return EraseLine
	case 0x17:
		return EraseWord
	}
	return None
}

// parse takes one event off the beginning of b; n is its length, 0 if there is more to come.
func parse(b []byte) (e Event, n int) {
	switch c := b[0]; {
	case c == esc:
		return escape(b)
	case c < ' ' || c == 0x7f:
		return Event{Key: controlKey(c)}, 1
	case !utf8.FullRune(b):
		return Event{}, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return Event{}, n
	}
	return Event{Key: Rune, Rune: r}, n
}

// escape parses what begins with an escape character.
func escape(b []byte) (e Event, n int) {
	if len(b) == 1 {
		return Event{}, 0
	}
	switch b[1] {
	case '[':
		return control(b)
	case 'O':
		if len(b) < 3 {
			return Event{}, 0
		}
		return Event{Key: finalKey(b[2])}, 3
	case esc:
		return Event{Key: Escape}, 1
	}
	return Event{}, 2 // Alt and a key
}

// finalKey is the key whose sequence ends in that.
func finalKey(final byte) Key {
	switch final {
	case 'A':
		return Up
	case 'B':
		return Down
	case 'C':
		return Right
	case 'D':
		return Left
	case 'H':
		return Home
	case 'F':
		return End
	case 'M':
		return Enter
	case 'Z':
		return BackTab
	}
	return None
}

// numberKey is the key whose sequence has that number, and ends in ~.
func numberKey(number string) Key {
	switch number {
	case "1", "7":
		return Home
	case "3":
		return Delete
	case "4", "8":
		return End
	case "5":
		return PageUp
	case "6":
		return PageDown
	}
	return None
}

// control parses a control sequence: ESC [, parameters, a letter or another final byte.
func control(b []byte) (e Event, n int) {
	end := bytes.IndexFunc(b[2:], func(r rune) bool { return r < 0x20 || r >= 0x40 })
	if end < 0 {
		return Event{}, 0
	}
	end += 2
	parameters, final := string(b[2:end]), b[end]
	switch {
	case final == esc:
		return Event{}, end // the next sequence
	case final == 'M' && parameters == "": // a mouse of the old kind: three bytes more
		if len(b) < end+4 {
			return Event{}, 0
		}
		return Event{}, end + 4
	case (final == 'M' || final == 'm') && strings.HasPrefix(parameters, "<"):
		return mouse(parameters[1:], final == 'M'), end + 1
	case final == '~':
		number, _, _ := strings.Cut(parameters, ";")
		return Event{Key: numberKey(number)}, end + 1
	}
	return Event{Key: finalKey(final)}, end + 1
}

// mouse parses BUTTON;COLUMN;LINE.
func mouse(parameters string, pressed bool) Event {
	const shiftMetaControl, wheelUp, wheelDown = 4 | 8 | 16, 64, 65
	var p [3]int
	parts := strings.Split(parameters, ";")
	if len(parts) != len(p) || !pressed {
		return Event{}
	}
	for i := range p {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return Event{}
		}
		p[i] = n
	}
	e := Event{X: p[1] - 1, Y: p[2] - 1}
	switch p[0] &^ shiftMetaControl {
	case 0:
		e.Key = Click
	case wheelUp:
		e.Key = WheelUp
	case wheelDown:
		e.Key = WheelDown
	default:
		return Event{}
	}
	return e
}
