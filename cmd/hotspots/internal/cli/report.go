package cli

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/callgraph"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/table"
)

type reportFlags struct {
	showFlags
	by               string
	run, lines       bool
	loads            bool
	callers, callees string
}

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [TABLE|PID]...",
		Short: "Show the functions called most",
		Long: "Show the functions of a program with their calls, from its count table, while it runs and after.\n" +
			"Without argument: the newest table. Several tables are merged; of copies of one table, see hotspots diff.\n\n" +
			"Text shows the functions or threads with most calls, JSON and CSV all functions; the total is always that of all. " +
			"names are those of functions that were called, a line each, as --only, --skip and --blocks of hotspots run read them: @FILE.",
		Example: "  hotspots report\n  hotspots report 4711 --top 20\n  hotspots report app.dynprof --format json\n" +
			"  hotspots report --filter '^std::' --sort name\n  hotspots report --lines           with source lines\n  hotspots report --loads           with loads and stores, of a run with --blocks\n  hotspots report --by object\n  hotspots report --by thread      the calls of each thread\n  hotspots report --run            all programs of the newest run\n  hotspots report --run --by program\n" +
			"  hotspots report app.dynprof --top 100 --format names >hot && hotspots run --blocks=@hot -- ./app\n" +
			"  hotspots report --callers malloc app.dynprof    of a run with --edges, or --blocks",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.settle(cmd, f.by == "object" || f.by == "program")
			return a.report(f, args)
		},
	}
	f.add(cmd, report.Orders, "names")
	choiceFlag(cmd, &f.by, "by", []string{"function", "object", "thread", "process", "program"}, "`what` a line is")
	cmd.Flags().StringVar(&f.callers, "callers", "", "show who called the function with this `NAME` or address: see hotspots calls")
	cmd.Flags().StringVar(&f.callees, "callees", "", "show whom the function with this `NAME` or address called")
	cmd.MarkFlagsMutuallyExclusive("callers", "callees", "by")
	cmd.MarkFlagsMutuallyExclusive("callers", "callees", "filter")
	cmd.Flags().BoolVar(&f.lines, "lines", false, "with source lines of functions, and what was inlined into them, where debug information tells")
	cmd.MarkFlagsMutuallyExclusive("lines", "by")
	cmd.Flags().BoolVar(&f.loads, "loads", false, "with loads and stores, and their bytes, of a run with --blocks; as --sort loads and stores")
	cmd.MarkFlagsMutuallyExclusive("loads", "by")
	cmd.MarkFlagsMutuallyExclusive("loads", "callers", "callees")
	cmd.Flags().BoolVar(&f.run, "run", false, "merge all tables of the run that the table belongs to")
	return cmd
}

func (a *app) report(f reportFlags, args []string) error {
	if f.format == "names" && (f.by != "function" || f.callers != "" || f.callees != "") {
		return usage("--format names goes with --by function")
	}
	if f.callers != "" || f.callees != "" {
		return a.reportCalls(f, args)
	}
	filter, err := f.check()
	if err != nil {
		return err
	}
	threads := f.by == "thread" || f.by == "process" || f.by == "program"
	if threads && f.filter != "" {
		return usage("--filter goes with --by function and --by object: what a thread counted is known as a sum")
	}
	f.loads = f.loads || f.sort == "loads" || f.sort == "stores"
	r, done, err := a.readFunctions(args, f.run, report.Options{Most: f.most(), Loads: f.loads})
	if err != nil {
		return err
	}
	defer done()
	if !f.sorted {
		f.sort = r.DefaultOrder()
	}
	if !threads {
		a.tellWorkers(r, args)
	}
	if f.filter != "" {
		r.Keep(report.Matching(filter))
	}
	if f.by == "object" {
		return a.reportObjects(r, f)
	}
	if threads {
		if f.sort == "time" {
			if f.sorted {
				return usage("--sort time goes with --by function and --by object: the CPU time of threads is not told apart")
			}
			f.sort = report.Orders[0]
		}
		return a.reportThreads(r, f)
	}
	r.Sort(f.sort)
	r.Top(f.top)
	if f.format == "names" {
		return r.Names(a.stdout)
	}
	if f.lines {
		r.AddLines(a.naming.Find, report.Options{Mangled: a.noDemangle}, func(err error) { a.say("no source lines: %v", err) })
	}
	return a.show(f.format, r)
}

// tellWorkers says of processes that were named, and that others have made, that the
// figures are of all that count into the same table.
func (a *app) tellWorkers(r *report.Report, args []string) {
	for _, arg := range args {
		pid, err := strconv.ParseUint(arg, 10, 31)
		for i := range r.Programs {
			p := &r.Programs[i]
			if err != nil || uint64(p.Pid) == pid && p.Folded == 0 || !slices.ContainsFunc(p.Owners, func(o table.Owner) bool { return uint64(o.Pid) == pid }) {
				continue
			}
			if p.Folded > 0 {
				a.say("%d is one of %d processes of %s in one table: this is of all; the calls of each: hotspots report %d --by process", pid, p.Folded, p.Program, pid)
			} else {
				a.say("%d is a process that %s (pid %d) has made: this is of all its processes; the calls of each: hotspots report %d --by process", pid, p.Program, p.Pid, p.Pid)
			}
		}
	}
}

// reportCalls shows the callers, or the callees, of a function.
func (a *app) reportCalls(f reportFlags, args []string) error {
	tables, done, err := a.openAll(args, f.run)
	if err != nil {
		return err
	}
	defer done()
	if len(tables) > 1 {
		return usage("--callers and --callees are of one table: there are %d", len(tables))
	}
	calls := callsFlags{format: f.format, function: f.callers, top: f.top, side: callgraph.Callers}
	if f.callees != "" {
		calls.function, calls.side = f.callees, callgraph.Callees
	}
	return a.calls(tables[0], calls)
}

func (a *app) reportObjects(r *report.Report, f reportFlags) error {
	objects := r.ByObject(f.sort)
	if f.top > 0 {
		objects = objects[:min(f.top, len(objects))]
	}
	switch f.format {
	case "json":
		return r.ObjectJSON(a.stdout, objects)
	case "csv":
		return r.ObjectCSV(a.stdout, objects)
	}
	return r.ObjectText(a.stdout, objects, a.style)
}

// reportPrograms shows how many calls there were in runs of each program.
func (a *app) reportPrograms(r *report.Report, f reportFlags) error {
	all := r.ByProgram(f.sort)
	if f.top > 0 {
		all = all[:min(f.top, len(all))]
	}
	switch f.format {
	case "json":
		return r.ProgramJSON(a.stdout, all)
	case "csv":
		return report.ProgramCSV(a.stdout, all)
	}
	return r.ProgramText(a.stdout, all, a.style)
}

func (a *app) reportThreads(r *report.Report, f reportFlags) error {
	if f.by == "program" {
		return a.reportPrograms(r, f)
	}
	processes := f.by == "process"
	list := r.ByThread
	if processes {
		list = r.ByProcess
	}
	all := list(f.sort)
	if f.top > 0 {
		all = all[:min(f.top, len(all))]
	}
	switch f.format {
	case "json":
		return r.ThreadJSON(a.stdout, all, processes)
	case "csv":
		return report.ThreadCSV(a.stdout, all)
	}
	return r.ThreadText(a.stdout, all, processes, a.style)
}

// readFunctions is read, without addresses that are no functions, and with what took CPU time
// and is in no ledger.
func (a *app) readFunctions(args []string, run bool, opt report.Options) (*report.Report, func(), error) {
	r, done, err := a.read(args, run, opt)
	if err == nil {
		r.WithTimes().KeepFunctions()
	}
	return r, done, err
}

// read makes a report of the tables that the arguments mean.
func (a *app) read(args []string, run bool, opt report.Options) (*report.Report, func(), error) {
	tables, done, err := a.openAll(args, run)
	if err != nil {
		return nil, nil, err
	}
	r, err := a.reportOf(tables, opt)
	if err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// reportOf makes a report of tables.
func (a *app) reportOf(tables []*table.Table, opt report.Options) (*report.Report, error) {
	if slices.ContainsFunc(tables, hasTimes) {
		opt.Most = 0
	}
	opt.Mangled = a.noDemangle
	return report.New(tables, opt)
}

// hasTimes reports whether there are times beside a table, or what cannot be read as such.
func hasTimes(t *table.Table) bool {
	times, err := report.TimesOf(t)
	return times != nil || err != nil
}

// most is how many functions are shown, if these are those that were called most; else 0. The
// names of all others need not be made then.
func (f *reportFlags) most() int {
	if f.format != "text" || f.by != "function" || f.filter != "" || f.sorted && f.sort != "calls" {
		return 0
	}
	return f.top
}
