package top

import (
	"slices"
	"strings"
)

// filter is what names are looked for. Upper case letters are told from lower case ones if
// there are some in it.
type filter struct {
	text  string
	known []int8 // by function: 1 if it matches, -1 if not, 0 if nobody has asked
}

// set changes what is looked for.
func (f *filter) set(text string) {
	if text != f.text {
		*f = filter{text: text}
	}
}

// forget says that functions are others now.
func (f *filter) forget() { f.known = nil }

func (f *filter) matchesName(name string) bool {
	if f.text == "" || strings.Contains(name, f.text) {
		return true
	}
	return f.text == strings.ToLower(f.text) && strings.Contains(strings.ToLower(name), f.text)
}

// matches asks for a function's name, aliases and object.
func (f *filter) matches(b *Book, i int) bool {
	if f.text == "" {
		return true
	}
	if f.known == nil {
		f.known = make([]int8, len(b.Functions))
	}
	if f.known[i] == 0 {
		f.known[i] = -1
		if f.matchesName(b.Name(i)) || f.matchesName(b.Object(b.ObjectOf(i))) || slices.ContainsFunc(b.Functions[i].Aliases, f.matchesName) {
			f.known[i] = 1
		}
	}
	return f.known[i] > 0
}
