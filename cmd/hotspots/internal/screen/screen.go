// Package screen is the terminal of the user: it shows grids of cells and tells what
// happens, and leaves the terminal as it was, whatever ends the command.
package screen

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cells"
)

// Usable reports whether standard input and output are a terminal that knows more than
// lines.
func Usable() bool {
	name := os.Getenv("TERM")
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && name != "" && name != "dumb"
}

// Size is the columns and lines of standard output: those of a terminal, or what
// COLUMNS and LINES say, or else these.
func Size(columns, lines int) (int, int) {
	if w, h, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 && n <= 1000 {
			return n
		}
		return otherwise
	}
	return number("COLUMNS", columns), number("LINES", lines)
}

// Message is something that has happened: the size may be another, or what is told here.
type Message struct {
	Keys  []cells.Event
	Again bool           // the process was stopped and goes on: call Again
	End   syscall.Signal // somebody asks it to end; 0 if not
	Err   error          // why the terminal is gone
}

// Screen is a terminal that is taken. Messages come to one goroutine, which calls all that
// is below.
type Screen struct {
	Messages chan Message

	painter cells.Painter
	fd      int                        // standard input
	old     atomic.Pointer[term.State] // how the terminal was; nil while it is not taken
}

// What is sent in front and at the end: the other screen of the terminal, which keeps where
// the cursor was, so that it is asked for once; no cursor, no line that goes on in the next,
// clicks and wheel told in digits.
const (
	enter = "\x1b[?1049h"
	modes = "\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h"
	leave = "\x1b[0m\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Open takes the terminal. Close it in any case.
func Open(noColor bool) (*Screen, error) {
	s := &Screen{Messages: make(chan Message), painter: cells.Painter{NoColor: noColor}, fd: int(os.Stdin.Fd())}
	if err := s.take(); err != nil {
		return nil, fmt.Errorf("the terminal cannot be used: %w; use hotspots report", err)
	}
	s.watch()
	go s.read()
	return s, nil
}

func (s *Screen) take() error {
	old, err := term.MakeRaw(s.fd)
	if err != nil {
		return err
	}
	s.painter.Forget()
	text := modes
	if s.old.CompareAndSwap(nil, old) {
		text = enter + modes
	}
	_, err = os.Stdout.WriteString(text)
	return err
}

// Close gives the terminal back.
func (s *Screen) Close() {
	if old := s.old.Load(); old != nil {
		os.Stdout.WriteString(leave) // it may be gone
		term.Restore(s.fd, old)
		s.old.Store(nil)
	}
}

// Show shows a grid, which must not change any more. What is shown already is not sent.
func (s *Screen) Show(g *cells.Grid) error {
	b := s.painter.Paint(g)
	if len(b) == 0 {
		return nil
	}
	_, err := os.Stdout.Write(b)
	return err
}

// Again takes the terminal once more: the shell has had it while the process was stopped.
func (s *Screen) Again() error { return s.take() }

// read sends the keys.
func (s *Screen) read() {
	chunks := make(chan []byte)
	var failed error
	go func() {
		defer close(chunks)
		for {
			b := make([]byte, 1024)
			n, err := os.Stdin.Read(b)
			if n > 0 {
				chunks <- b[:n]
			}
			if err != nil {
				failed = err
				return
			}
		}
	}()
	// Whether an escape character is a key or the beginning of one, time tells; a slow
	// line may tear a sequence apart.
	const patience = 100 * time.Millisecond
	var p cells.Parser
	for {
		var late <-chan time.Time
		if p.Waits() {
			late = time.After(patience)
		}
		select {
		case b, ok := <-chunks:
			if !ok {
				s.Messages <- Message{Err: failed}
				return
			}
			s.send(p.Feed(b))
		case <-late:
			s.send(p.Flush())
		}
	}
}

func (s *Screen) send(keys []cells.Event) {
	if len(keys) > 0 {
		s.Messages <- Message{Keys: keys}
	}
}
