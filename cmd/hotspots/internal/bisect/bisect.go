// Package bisect finds the functions whose patches change what a program does:
// it runs the program again and again with fewer and fewer of them patched.
//
// The search (search.go) and the comparison (difference.go) are pure; steps.go
// has the order of the runs, trial.go and process.go do them; what is found is
// explained from the count table of the last run and the ELF file (explain.go).
package bisect

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/setting"
)

// Config says what to run and how to judge it.
type Config struct {
	Program    *launch.Program
	Command    []string // as the user wrote it
	Library    string   // path of libdynprof.so
	Stdin      *os.File
	Dir        string           // for what runs leave; it exists
	Keep       bool             // leave it there
	Objects    string           // as of hotspots run
	Only, Skip string           // as of hotspots run, file names absolute
	BlocksOf   string           // value of --blocks, likewise; empty if it has none
	On         setting.Switches // as of hotspots run
	Check      string           // shell command; empty compares with a run without the library
	Timeout    time.Duration    // of a run; 0 takes it from the reference
	Repeat     int              // runs of each selection until one is bad

	// Progress is told before each run how many have been, about how many
	// follow, and what is patched. It may not be nil.
	Progress func(done, left int, what string)

	// Say is for a line that the user should read at once.
	Say func(line string)

	id [16]byte // of the runs' tables
}

// Verdicts of a Result.
const (
	Same    = "same"    // no difference
	Found   = "found"   // some functions make the difference
	Library = "library" // the library does, with no function patched
)

// Of Result.ByCall and Others, besides Same.
const (
	differ     = "differ"
	cannotTell = "unclear"
)

// Result is what a bisection found. Errors are what keeps it from telling.
type Result struct {
	Schema      int          `json:"schema"`
	Verdict     string       `json:"verdict"`
	Command     []string     `json:"command"`
	Functions   int          `json:"functions"` // patched, if all were
	Objects     int          `json:"objects"`   // that they are in
	Runs        int          `json:"runs"`
	Seconds     float64      `json:"seconds"`
	Differences []Difference `json:"differences"` // of a run with only the culprits patched
	Unstable    bool         `json:"unstable"`    // that run was the same once, otherwise once
	ByCall      string       `json:"by_call"`     // the culprits patched, and no blocks counted: same, differ, unclear; empty if blocks are not counted
	Others      string       `json:"others"`      // Skip's functions patched: same, differ, unclear; empty if not tried
	Skip        string       `json:"skip"`        // a command that runs the program without them
	Next        string       `json:"next"`        // a command that looks for the others, if they differ

	// The functions that make the difference together. None of them can be left
	// out, but for those that show the same name.
	culprits []*Culprit
}

// Run looks for the functions that make the difference.
func Run(ctx context.Context, c Config) (*Result, error) {
	begin := time.Now()
	s := &session{Config: c, ctx: ctx, path: c.Program.Path, args: c.Program.Args}
	rand.Read(s.id[:]) // it never fails
	r := &Result{Schema: report.Schema, Command: c.Command, Differences: []Difference{}}
	err := s.bisect(r)
	if ctx.Err() != nil {
		return nil, s.interrupted()
	}
	r.Runs, r.Seconds = s.runs, time.Since(begin).Seconds()
	return r, err
}

func (s *session) interrupted() error {
	if s.narrowed == "" {
		return fmt.Errorf("interrupted after %d runs", s.runs)
	}
	return fmt.Errorf("interrupted after %d runs: %s", s.runs, s.narrowed)
}
