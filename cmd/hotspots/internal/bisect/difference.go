package bisect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Difference is one thing that a run did otherwise than the program without
// the library. Without and With are null where the output had ended.
type Difference struct {
	What    string  `json:"what"`           // stdout, stderr, status, check
	Line    int     `json:"line,omitempty"` // the first that differs, from 1
	Without *string `json:"without"`
	With    *string `json:"with"`
}

// String is one line.
func (d Difference) String() string {
	what := d.What
	if d.Line > 0 {
		what = fmt.Sprintf("%s line %d", d.What, d.Line)
	}
	return fmt.Sprintf("%s: %s without, %s with", what, orEnd(d.Without), orEnd(d.With))
}

func orEnd(s *string) string {
	if s == nil {
		return "(end)"
	}
	return *s
}

// compare lists how the run with did otherwise than the run without.
func compare(without, with *outcome) ([]Difference, error) {
	var all []Difference
	if a, b := without.end(), with.end(); a != b {
		all = append(all, Difference{What: "status", Without: &a, With: &b})
	}
	for _, name := range []string{stdoutName, stderrName} {
		d, err := compareFiles(filepath.Join(without.dir, name), filepath.Join(with.dir, name))
		if err != nil {
			return nil, err
		}
		if d != nil {
			d.What = name
			all = append(all, *d)
		}
	}
	return all, nil
}

func compareFiles(without, with string) (*Difference, error) {
	a, err := os.Open(without)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := os.Open(with)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return firstDifference(a, b)
}

// pieceSize is how much of a line is compared, and kept, at a time.
const pieceSize = 64 << 10

// firstDifference returns the first line in which a and b differ, nil if there
// is none.
func firstDifference(a, b io.Reader) (*Difference, error) {
	ra, rb := bufio.NewReaderSize(a, pieceSize), bufio.NewReaderSize(b, pieceSize)
	for line := 1; ; {
		pa, errA := piece(ra)
		pb, errB := piece(rb)
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		if !bytes.Equal(pa, pb) {
			d := &Difference{Line: line}
			d.Without, d.With = excerpts(pa, pb)
			return d, nil
		}
		if pa == nil {
			return nil, nil
		}
		if pa[len(pa)-1] == '\n' {
			line++
		}
	}
}

// piece reads a line or as much of it as fits; nil is the end.
func piece(r *bufio.Reader) ([]byte, error) {
	p, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	if len(p) == 0 {
		p = nil
	}
	return p, err
}

// excerpts shows two pieces around the first byte that differs.
func excerpts(a, b []byte) (*string, *string) {
	const before, length = 40, 160
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	from := 0
	if same > length/2 {
		from = same - before
	}
	show := func(p []byte) *string {
		if p == nil {
			return nil
		}
		p = p[from:]
		s := visible(p[:min(len(p), length)], from > 0 || len(p) > length)
		return &s
	}
	return show(a), show(b)
}

// visible is a line that can be printed, in Go's notation where it needs it or
// where it is not all of the line.
func visible(p []byte, cut bool) string {
	line := string(bytes.TrimSuffix(p, []byte("\n")))
	plain := !cut && len(line) < len(p) && utf8.ValidString(line)
	for _, r := range line {
		plain = plain && unicode.IsPrint(r)
	}
	if plain {
		return line
	}
	return strconv.Quote(string(p))
}
