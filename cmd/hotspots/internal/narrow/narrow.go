// Package narrow makes names and texts fit into the columns that a terminal has.
package narrow

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Width is how many columns the terminal has that is open as fd; 0 if it is none.
func Width(fd int) int {
	width, _, err := term.GetSize(fd)
	if err != nil {
		return 0
	}
	return width
}

// least is what names get in any case: a terminal narrower than that has no use.
const least = 20

// Name shortens the name of a function: what is in templates, the innermost first, then
// its parameters, then its end; of a C++ name, whose end tells most, its begin.
func Name(name string, columns int) string {
	columns = max(columns, least)
	if fits(name, columns) {
		return name
	}
	for depth := deepest(name); depth > 0; depth-- {
		if short, ok := withoutTemplates(name, depth-1); ok && fits(short, columns) {
			return short
		}
	}
	if short, ok := withoutTemplates(name, 0); ok {
		name = short
	}
	if open := strings.LastIndexByte(name, '('); open > 0 && strings.HasSuffix(name, ")") && open+2 < len(name) {
		name = name[:open] + "(…)"
	}
	if fits(name, columns) {
		return name
	}
	if strings.Contains(name, "::") {
		runes := []rune(name)
		return "…" + string(runes[max(0, len(runes)-columns+1):])
	}
	return Text(name, columns)
}

// Text cuts a text at its end.
func Text(text string, columns int) string {
	if fits(text, columns) {
		return text
	}
	runes := []rune(text)
	return string(runes[:columns-1]) + "…"
}

func fits(text string, columns int) bool {
	return len(text) <= columns || utf8.RuneCountInString(text) <= columns
}

// brackets calls step for each byte of a name, with how many templates it is in; the
// brackets of one are in it.
func brackets(name string, step func(b byte, depth int)) {
	depth := 0
	for i := 0; i < len(name); i++ {
		if strings.HasPrefix(name[i:], "operator") { // operator<, operator->*
			end := i + len("operator")
			for end < len(name) && strings.IndexByte("<>=-", name[end]) >= 0 {
				end++
			}
			for ; i < end; i++ {
				step(name[i], depth)
			}
			i--
			continue
		}
		switch b := name[i]; {
		case b == '<':
			depth++
			step(b, depth)
		case b == '>' && depth > 0 && name[i-1] != '-':
			step(b, depth)
			depth--
		default:
			step(b, depth)
		}
	}
}

// deepest is how many templates are in one another.
func deepest(name string) (most int) {
	brackets(name, func(_ byte, depth int) { most = max(most, depth) })
	return most
}

// withoutTemplates leaves out what is in more than depth templates; not ok are brackets
// that are none of templates.
func withoutTemplates(name string, depth int) (short string, ok bool) {
	var b strings.Builder
	before := 0
	brackets(name, func(c byte, at int) {
		switch {
		case at <= depth:
			b.WriteByte(c)
		case before <= depth:
			b.WriteString("<…>")
		case at == depth+1 && c == '<': // right behind another
			b.WriteString("<…>")
		}
		before = at
	})
	return b.String(), before == 0
}
