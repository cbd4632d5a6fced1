package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/export"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/exporter"
	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/layout"
)

// exportFormats are the words of export's --format.
var exportFormats = []string{"callgrind", "pprof", "folded", "csv", "json", "parquet", "openmetrics"}

// of is a set of export's formats.
type of []string

var (
	ofOneTable = of{"callgrind", "pprof"}
	ofBytes    = of{"pprof", "parquet"} // no text
)

func (o of) has(format string) bool { return slices.Contains(o, format) }

type exportFlags struct {
	format, output, value, host string
	run                         bool
}

func (a *app) exportCommand() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export [TABLE|PID]...",
		Short: "Write count tables as a file of other tools",
		Long: "Write count tables as a file of other tools, with the calls of each function\n" +
			"and, after hotspots run --blocks, the instructions that it has executed, after\n" +
			"hotspots run --time the CPU time that it took itself, sampled:\n" +
			"  callgrind    for callgrind_annotate and KCachegrind: of each instruction\n" +
			"  pprof        for go tool pprof, and what else reads its files (profile.proto\n" +
			"               by gzip): of each instruction; types calls, instructions, cpu\n" +
			"  folded       for flamegraph.pl, speedscope and others: collapsed stacks of\n" +
			"               program, object and function\n" +
			"  csv, json    all functions, as hotspots report has them\n" +
			"  parquet      for DuckDB, pandas, Spark: a row for each function of each table\n" +
			"  openmetrics  for Prometheus and its kin: what hotspots serve would answer,\n" +
			"               with a series for every function that was called\n" +
			"callgrind and pprof are of one table, the others of any number. Who called whom is\n" +
			"in none of them, so pprof's cum is its flat, its graphs have no edges, and a flame\n" +
			"graph shows what is part of what: see hotspots calls --format folded for callers.\n" +
			"Without argument: the newest table.",
		Example: "  hotspots export app.dynprof -o callgrind.out.app && kcachegrind callgrind.out.app\n" +
			"  hotspots export app.dynprof >callgrind.out; callgrind_annotate callgrind.out\n" +
			"  hotspots export app.dynprof --format pprof -o app.pb.gz && go tool pprof -top app.pb.gz\n" +
			"  hotspots export app.dynprof --format folded | flamegraph.pl --countname calls >app.svg\n" +
			"  hotspots export *.dynprof --format parquet -o all.parquet\n" +
			"  duckdb -c \"SELECT function, sum(calls) FROM 'all.parquet' GROUP BY 1 ORDER BY 2 DESC\"",
		RunE: func(_ *cobra.Command, args []string) error { return a.export(f, args) },
	}
	choiceFlag(cmd, &f.format, "format", exportFormats, "of which `tool`")
	choiceFlag(cmd, &f.value, "value", []string{"auto", "calls", "instructions", "time"}, "of folded, `what` the number is; auto is time where the first table has it, else instructions where it has them, else calls")
	cmd.Flags().StringVar(&f.host, "host", "", "of parquet, the `NAME` of the host where the programs ran (default: this one's)")
	cmd.Flags().BoolVar(&f.run, "run", false, "add all tables of the run that the first belongs to")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of stdout")
	return cmd
}

func (a *app) export(f exportFlags, args []string) error {
	if f.output == "" && ofBytes.has(f.format) && term.IsTerminal(int(os.Stdout.Fd())) {
		return usage("--format %s is no text for a terminal: name a file with -o FILE", f.format)
	}
	// openmetrics opens tables itself, and writes nothing until it has read all: where one was
	// folded into another meanwhile, it looks again.
	const most = 20
	for look := 1; ; look++ {
		err := a.exportNow(f, args)
		if !f.run || look == most || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

func (a *app) exportNow(f exportFlags, args []string) error {
	asReport := f.format == "csv" || f.format == "json"
	from, done, err := a.source(args, f.run, f.run || asReport)
	if err != nil {
		return err
	}
	defer done()
	if len(from.paths) > 1 && ofOneTable.has(f.format) {
		return usage("--format %s is of one table, and there are %d: export each to a file of its own, or choose another format", f.format, len(from.paths))
	}
	if err := notOver(f.output, from.paths); err != nil {
		return err
	}
	if asReport {
		return a.exportReport(f, from.tables)
	}
	err = a.write(f.output, func(w io.Writer) error { return a.exportTables(w, f, from) })
	if err != nil || f.format == "openmetrics" {
		return err
	}
	for _, path := range from.partly {
		a.say("%s has the instructions of some calls only, of functions that became hot: hotspots report says of how many", path)
	}
	return nil
}

// source is the tables that are exported.
type source struct {
	paths  []string
	partly []string       // paths of those that have blocks of hot functions only
	tables []*table.Table // if they are kept open
}

// source finds the tables that the arguments mean. Before anything is written each has been
// opened, or a file of that name is another. Those of a run have to be kept open: while it
// goes on some are folded into others, and their names are gone.
func (a *app) source(args []string, run, keep bool) (from *source, done func(), err error) {
	from, done = &source{}, func() {}
	look := func(t *table.Table) error {
		if t.Flags&layout.FlagHot != 0 || t.Overhead > 0 {
			from.partly = append(from.partly, t.Path())
		}
		return nil
	}
	if !keep {
		if from.paths, err = tablePaths(args); err == nil {
			err = eachTable(table.Open, from.paths, look)
		}
		return from, done, err
	}
	if from.tables, done, err = a.openAll(args, run); err != nil {
		return nil, nil, err
	}
	for _, t := range from.tables {
		from.paths = append(from.paths, t.Path())
		look(t)
	}
	return from, done, nil
}

// each calls use with each table of a source, one open at a time unless they are all.
func (a *app) each(from *source, use func(*table.Table) error) error {
	if from.tables == nil {
		return eachTable(a.openTable, from.paths, use)
	}
	for _, t := range from.tables {
		if err := use(t); err != nil {
			return err
		}
	}
	return nil
}

// exportReport writes what report would show of all functions.
func (a *app) exportReport(f exportFlags, tables []*table.Table) error {
	r, err := a.reportOf(tables, report.Options{})
	if err != nil {
		return err
	}
	r.WithTimes().KeepFunctions()
	r.Sort(r.DefaultOrder())
	if f.format == "csv" {
		return a.write(f.output, r.CSV)
	}
	return a.write(f.output, r.JSON)
}

// exportTables writes what is made of one table after the other.
func (a *app) exportTables(w io.Writer, f exportFlags, from *source) error {
	single := func(to func(io.Writer, *table.Table, bool) error) error {
		return a.each(from, func(t *table.Table) error { return to(w, t, a.noDemangle) })
	}
	var to interface {
		Add(t *table.Table) error
		Close() error
	}
	switch f.format {
	case "callgrind":
		return single(export.Callgrind)
	case "pprof":
		return single(export.Pprof)
	case "openmetrics":
		return exporter.WriteFiles(w, from.paths, exporter.Options{Mangled: a.noDemangle})
	case "folded":
		value, err := f.valueOf(from)
		if err != nil {
			return err
		}
		to = export.NewFolded(w, value, a.noDemangle)
	case "parquet":
		host, err := f.hostName()
		if err != nil {
			return err
		}
		to = export.NewParquet(w, host, a.noDemangle)
	}
	if err := a.each(from, to.Add); err != nil {
		return err
	}
	return to.Close()
}

// valueOf is what folded has: of the first table.
func (f *exportFlags) valueOf(from *source) (value export.Value, err error) {
	if f.value != "auto" {
		return export.Value(f.value), nil
	}
	value = export.Calls
	look := func(t *table.Table) error {
		if t.HasBlocks() {
			value = export.Instructions
		}
		times, err := report.TimesOf(t)
		if times != nil {
			value = export.Time
		}
		return err
	}
	if from.tables != nil {
		err = look(from.tables[0])
	} else {
		err = eachTable(table.Open, from.paths[:1], look)
	}
	return value, err
}

func (f *exportFlags) hostName() (string, error) {
	if f.host != "" {
		return f.host, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("%w: name the host with --host", err)
	}
	return host, nil
}

// notOver refuses to write over a table that is being read.
func notOver(output string, tables []string) error {
	if output != "" && slices.ContainsFunc(tables, func(path string) bool { return sameFile(output, path) }) {
		return usage("-o %s would write over the table: choose another name", output)
	}
	return nil
}

// tablePaths are those of the tables that the arguments mean.
func tablePaths(args []string) (paths []string, err error) {
	if len(args) == 0 {
		args = []string{""}
		if args[0], err = newest(); err != nil {
			return nil, err
		}
	}
	for _, arg := range args {
		path, err := locate(arg)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// eachTable calls use with each table, one open at a time. Two copies of one program's are
// an error: what is made of them would have its calls twice.
func eachTable(open func(path string) (*table.Table, error), paths []string, use func(*table.Table) error) error {
	seen := map[[16]byte]string{}
	for _, path := range paths {
		t, err := open(path)
		if err != nil {
			return err
		}
		nonces, err := t.Nonces()
		for _, n := range nonces {
			if have, ok := seen[n]; ok && err == nil {
				err = sameProgram(have, path)
			}
			seen[n] = path
		}
		if err == nil {
			err = use(t)
		}
		t.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// write calls to with the file named, or stdout if that is empty. A file that could not be
// written is removed; a device is not.
func (a *app) write(name string, to func(io.Writer) error) (err error) {
	if name == "" {
		return to(a.stdout)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = to(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		if info != nil && info.Mode().IsRegular() {
			os.Remove(name)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
