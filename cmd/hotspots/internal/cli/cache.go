package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/job"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/plancache"
	"github.com/dynprof/dynprof/internal/plancache/store"
	"github.com/dynprof/dynprof/internal/plancache/textcopy"
	"github.com/dynprof/dynprof/internal/symname"
)

// cachedPlan is a line of cache ls.
type cachedPlan struct {
	Object    string    `json:"object"`
	State     string    `json:"state"`
	Functions int       `json:"functions"`
	Bytes     int64     `json:"bytes"`
	Copy      int64     `json:"copy"` // bytes on disk of a copy of the object that has its changes
	Used      time.Time `json:"used"` // or written, by the day
	File      string    `json:"file"`
	err       error
}

// States of a plan.
const (
	planGood    = "good"
	planStale   = "stale"   // the object is another by now, or gone
	planDamaged = "damaged" // nobody will use it
)

func (a *app) cacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cache",
		Short:   "Look after the plans that runs have kept",
		Example: "  hotspots run -- ./app            the first time it is planned and kept\n  hotspots cache warm ./app        plan and keep it now\n  hotspots cache ls                what is kept\n  hotspots cache clear --stale     remove what nobody can use any more\n  hotspots cache --system warm /usr/bin    as root, for all users",
		Long:    "hotspots run keeps what it finds out about a program and its libraries, in dynprof/plans of $XDG_CACHE_HOME or ~/.cache, and later runs start with that, by the preloaded library as well. With --text-copies it keeps copies of large objects with their text changed, too, which are mapped in place of the text.\n\nThe plans in " + store.System + " are used by all users: say --system.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage("cache: say warm, ls, verify or clear; see %s --help", cmd.CommandPath())
		},
	}
	cmd.PersistentFlags().BoolVar(&a.systemPlans, "system", false, "the plans for all users, in "+store.System+", which only root keeps")
	cmd.AddCommand(a.cacheWarmCommand(), a.cacheLsCommand(), a.cacheVerifyCommand(), a.cacheClearCommand())
	return cmd
}

func (a *app) cacheLsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the plans, those used last at the end",
		Example: "  hotspots cache ls --format csv",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.plans()
			if err != nil {
				return err
			}
			return a.cacheLs(all, format)
		},
	}
	formatFlag(cmd, &format)
	return cmd
}

func (a *app) cacheVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "verify",
		Short:   "Check all plans, and compare them with their objects' files",
		Example: "  hotspots cache verify && echo all are good",
		Long:    "Check the format of all plans, and compare what they take for the bytes of their objects with the files. What is damaged is an error; what is stale, since its object has been changed, is only told.",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.plans()
			if err != nil {
				return err
			}
			var bad error
			for _, p := range all {
				if p.State != planGood {
					a.say("%s (%s): %s: %v", p.File, p.Object, p.State, p.err)
				}
				if p.State == planDamaged {
					bad = &exitError{exitFailure, nil}
				}
			}
			return bad
		},
	}
}

func (a *app) cacheClearCommand() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:     "clear",
		Short:   "Remove the plans",
		Example: "  hotspots cache clear\n  hotspots cache clear --stale     only what nobody can use any more",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := a.plans()
			if err != nil {
				return err
			}
			return a.cacheClear(all, stale)
		},
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "only those that are damaged, or whose objects have been changed")
	return cmd
}

// plansDir is where the plans are that the command is about.
func (a *app) plansDir() string {
	if a.systemPlans {
		return store.System
	}
	dir, _ := job.PlansDir()
	return dir
}

// openPlans opens the plans; nil: there are none.
func (a *app) openPlans() (*store.Store, error) {
	dir := a.plansDir()
	if dir == "" {
		return nil, errors.New("neither XDG_CACHE_HOME nor HOME says where plans are kept")
	}
	s, err := store.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

func (a *app) plans() ([]cachedPlan, error) {
	s, err := a.openPlans()
	if s == nil || err != nil {
		return nil, err
	}
	defer s.Close()
	files, _, err := s.List()
	if err != nil {
		return nil, err
	}
	bar := a.countBar(len(files), "reading plans") // thousands take seconds
	defer bar.Finish()
	var all []cachedPlan
	for _, f := range files {
		p := cachedPlan{File: f.Name, Bytes: f.Size, Copy: f.Copy, Used: f.Time.UTC(), State: planDamaged, Object: "?"}
		p.look(s)
		all = append(all, p)
		bar.Add(1)
	}
	return all, nil
}

// look reads the plan, and looks at its object.
func (p *cachedPlan) look(s *store.Store) {
	var b []byte
	var plan *plancache.Plan
	if b, p.err = s.Read(p.File); p.err != nil {
		return
	}
	if plan, p.err = plancache.Decode(b); p.err != nil {
		return
	}
	p.Object, p.Functions, p.State = symname.Clean(string(plan.Path)), plan.Count(), planStale
	f, err := textcopy.Open(plan)
	if p.err = err; err != nil {
		return
	}
	defer f.Close()
	p.State, p.err = planGood, plan.CheckFile(f)
	if p.err == nil && p.Copy > 0 {
		p.err = checkCopy(s, p.File, plan, f)
	}
	if p.err != nil {
		p.State = planDamaged
	}
}

// checkCopy compares the copy of a plan's object with what it has to be.
func checkCopy(s *store.Store, name string, plan *plancache.Plan, object *os.File) error {
	f, err := s.OpenCopy(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return textcopy.Check(f, plan, object)
}

func (a *app) cacheLs(all []cachedPlan, format string) error {
	switch format {
	case "json":
		return report.WriteJSON(a.stdout, struct {
			Schema int `json:"schema"`
		}{report.Schema}, "plans", all)
	case "csv":
		rows := [][]string{{"object", "state", "functions", "bytes", "copy", "used", "file"}}
		for _, p := range all {
			rows = append(rows, []string{p.Object, p.State, fmt.Sprint(p.Functions), fmt.Sprint(p.Bytes), fmt.Sprint(p.Copy), p.Used.Format(time.RFC3339), p.File})
		}
		return csv.NewWriter(a.stdout).WriteAll(rows)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "USED\tSTATE\tFUNCTIONS\tKIB\tCOPY\tOBJECT")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", p.Used.Local().Format(time.DateTime), p.State, p.Functions, p.Bytes/1024, p.Copy/1024, p.Object)
	}
	return w.Flush()
}

func (a *app) cacheClear(all []cachedPlan, stale bool) error {
	s, err := a.openPlans()
	if err != nil {
		return err
	}
	n, bytes := 0, int64(0)
	if s != nil {
		defer s.Close()
		if err := s.Trim(1 << 62); err != nil { // what writers have left
			return err
		}
	}
	for _, p := range all {
		if stale && p.State == planGood {
			continue
		}
		if err := s.Remove(p.File); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		n, bytes = n+1, bytes+p.Bytes+p.Copy
	}
	a.say("removed %d plans, %d KiB", n, bytes/1024)
	return nil
}
