package attach

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/ptrace"
	"github.com/dynprof/dynprof/internal/table/alive"
	"github.com/dynprof/dynprof/internal/table/build"
	"github.com/dynprof/dynprof/internal/table/edit"
	"github.com/dynprof/dynprof/internal/table/layout"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/version"
)

// makeTable makes the table, which the process opens later by its name, or is sent.
func (p *prepared) makeTable() error {
	host, _ := os.Hostname() // only for %h
	path, err := tabledir.OutputPath(p.Output, os.Getenv("XDG_RUNTIME_DIR"), tabledir.Names{Program: p.plan.Program(), Pid: p.Pid, Host: host, Time: time.Now()})
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	spec := p.plan.Ledger()
	spec.Identity = p.identity()
	spec.Program, spec.Creator, spec.RunID, spec.Listen = p.plan.Program(), version.Creator, p.RunID, p.Listen
	if p.Args {
		spec.Arguments = procfile.CommandLine(p.process.Thread())
	}
	if p.FollowsExec {
		spec.Flags |= layout.FlagFollowExec
	}
	p.table, err = build.Create(path, spec)
	if err != nil || p.Output == "" || p.table.Path() == path || p.started != nil { // that is a program anew
		return err
	}
	switch err := edit.Carry(path, p.table.Path()); {
	case err == nil:
		p.place, p.goesOn = path, true
	case !errors.Is(err, edit.ErrOther):
		p.anew = fmt.Errorf("the counts of %s are not gone on with: %w", path, err)
	case p.Replaces:
		p.place = path
	}
	return nil
}

// tableNow is where the table is when it is counted into. Who is killed before it takes another's
// place leaves both.
func (p *prepared) tableNow() string {
	if p.place != "" && os.Rename(p.table.Path(), p.place) == nil {
		return p.place
	}
	return p.table.Path()
}

// identity has the number that the process sees itself as.
func (p *prepared) identity() layout.Identity {
	id := alive.Identify(p.Pid)
	if s, err := ptrace.ReadStatus(p.Pid, p.Pid); err == nil && len(s.Numbers) > 0 {
		id.Pid = uint32(s.Numbers[len(s.Numbers)-1])
	}
	return id
}
