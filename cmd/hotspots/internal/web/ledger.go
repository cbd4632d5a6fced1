package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/show"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/top"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/parallel"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// ledgerCache is what was written of the functions of a book.
type ledgerCache struct {
	sync.Mutex
	of   *top.Book
	text []byte
}

// ledgerText is what does not change of a table's functions: a column for each property,
// since of 100,000 objects a browser would make as many. Names hold no line ends.
type ledgerText struct {
	Schema    int               `json:"schema"`
	Functions int               `json:"functions"`
	Names     string            `json:"names"`     // a line each
	Addresses string            `json:"addresses"` // hex digits, a line each
	Aliases   map[string]string `json:"aliases"`   // by number, a line each, of those that have some
	Object    []uint16          `json:"object"`
	Size      []uint32          `json:"size"`
	Tactic    []int             `json:"tactic"` // numbers in Words
	Reason    []int             `json:"reason"`
	Source    []int             `json:"source"`
	Words     []word            `json:"words"`
	Objects   []object          `json:"objects"`
}

// word is a tactic, a reason or a source.
type word struct {
	Word     string `json:"word"` // empty: counted
	Why      string `json:"why"`
	Excluded bool   `json:"excluded"` // it is no function at all
}

type object struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id"`
	Main    bool   `json:"main"`
}

// text is the functions of a book, written once.
func (c *ledgerCache) textOf(b *top.Book) ([]byte, error) {
	c.Lock()
	defer c.Unlock()
	if c.of == b {
		return c.text, nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // names are full of < and >, and this is no HTML
	err := e.Encode(ledgerOf(b))
	if err == nil {
		c.of, c.text = b, text.Bytes()
	}
	return c.text, err
}

func ledgerOf(b *top.Book) *ledgerText {
	n := len(b.Functions)
	l := &ledgerText{Schema: Schema, Functions: n, Aliases: map[string]string{}, Object: make([]uint16, n), Size: make([]uint32, n), Tactic: make([]int, n), Reason: make([]int, n), Source: make([]int, n)}
	words := map[word]int{}
	number := func(w word) int {
		i, ok := words[w]
		if !ok {
			i = len(words)
			words[w] = i
			l.Words = append(l.Words, w)
		}
		return i
	}
	addresses := make([]byte, 0, 8*n)
	for i := range b.Functions {
		f := &b.Functions[i]
		l.Object[i], l.Size[i] = f.Object, f.Size
		l.Tactic[i], l.Source[i] = number(word{Word: f.Tactic.String()}), number(word{Word: f.Source.String()})
		l.Reason[i] = number(reason(f.Reason))
		addresses = append(strconv.AppendUint(addresses, f.Address, 16), '\n')
		if len(f.Aliases) > 0 {
			l.Aliases[strconv.Itoa(i)] = strings.Join(display(b, f, f.Aliases...), "\n")
		}
	}
	l.Addresses = strings.TrimSuffix(string(addresses), "\n")
	l.Names = strings.Join(names(b), "\n")
	for i := range b.Objects {
		o := &b.Objects[i]
		l.Objects = append(l.Objects, object{symname.Clean(o.Path), symname.Clean(o.BuildID), o.Flags&layout.ObjMain != 0})
	}
	return l
}

func reason(r ledger.Reason) word {
	return word{Word: r.String(), Why: show.Why(r), Excluded: r.Excluded()}
}

// names are those of all functions. To make them takes longest.
func names(b *top.Book) []string {
	all := make([]string, len(b.Functions))
	const grain = 1024
	parallel.Ranges(len(all), grain, 0, func(_, first, end int) {
		for i := first; i < end; i++ {
			all[i] = display(b, &b.Functions[i], b.Functions[i].Name)[0]
		}
	})
	return all
}

// display is how names of a function are shown.
func display(b *top.Book, f *layout.Function, raw ...string) []string {
	shown := make([]string, len(raw))
	for i, name := range raw {
		shown[i] = symname.Display(name, b.Objects[f.Object].Path, f.Address, !b.Mangled)
	}
	return shown
}
