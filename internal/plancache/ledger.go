package plancache

import (
	"bytes"
	"iter"
	"math"

	"github.com/dynprof/dynprof/internal/table/layout"
)

const functionSize = layout.FnEntrySize

// entry is a function whose strings are not looked up.
type entry struct {
	layout.Function
	name, aliases uint32
}

func decodeFunction(b []byte) entry {
	return entry{layout.DecodeFunction(b), le.Uint32(b[layout.FnName:]), le.Uint32(b[layout.FnAliases:])}
}

// Count is the number of functions.
func (l *Ledger) Count() int { return len(l.Functions) / functionSize }

// Add adds a function to the ledger, which is none until End has been called.
func (l *Ledger) Add(f *layout.Function) {
	l.End()
	name, list := l.addString(f.Name), uint32(len(l.Aliases)/4)
	if len(f.Aliases) == 0 {
		list = 0
	}
	for _, a := range f.Aliases {
		if at := l.addString(a); at != 0 {
			l.Aliases = le.AppendUint32(l.Aliases, at)
		}
	}
	if list != 0 {
		l.Aliases = le.AppendUint32(l.Aliases, 0)
	}
	l.Functions = append(l.Functions, make([]byte, functionSize)...)
	f.Encode(l.Functions[len(l.Functions)-functionSize:], name, list)
}

// End gives a ledger without functions what it needs.
func (l *Ledger) End() {
	if len(l.Strings) == 0 {
		l.Aliases, l.Strings = le.AppendUint32(nil, 0), append(l.Strings, 0)
	}
}

func (l *Ledger) addString(s string) uint32 {
	s = s[:min(len(s), layout.MaxString)]
	if i := bytes.IndexByte([]byte(s), 0); i >= 0 {
		s = s[:i]
	}
	at := uint64(len(l.Strings))
	if s == "" || at+uint64(len(s)) >= math.MaxUint32 {
		return 0
	}
	l.Strings = append(append(l.Strings, s...), 0)
	return uint32(at)
}

// Each yields the functions of a ledger that Decode has checked; they are one variable, for
// whoever keeps none. str makes a string of bytes that do not change.
func (l *Ledger) Each(str func([]byte) string) iter.Seq2[int, *layout.Function] {
	return func(yield func(int, *layout.Function) bool) {
		var f layout.Function
		for i, b := 0, l.Functions; len(b) > 0; i, b = i+1, b[functionSize:] {
			e, aliases := decodeFunction(b), f.Aliases[:0]
			f = e.Function
			f.Name = str(l.bytesAt(e.name))
			for at := e.aliases; e.aliases != 0; at++ {
				s := le.Uint32(l.Aliases[4*at:])
				if s == 0 {
					break
				}
				aliases = append(aliases, str(l.bytesAt(s)))
			}
			f.Aliases = aliases
			if !yield(i, &f) {
				return
			}
		}
	}
}

func (l *Ledger) bytesAt(at uint32) []byte {
	rest := l.Strings[at:]
	return rest[:bytes.IndexByte(rest, 0)]
}
