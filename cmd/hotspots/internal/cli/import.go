package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/lackey"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/heat"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/internal/textfile"
)

// granules are what a log's accesses may be told of.
var granules = []string{"lines", "pages", "bytes"}

func (a *app) heatImportCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import LOG",
		Short: "Make a table of a log of memory accesses by valgrind's lackey",
		Long: "Make a table of a log of valgrind --tool=lackey --trace-mem=yes, which has a line for each instruction that a program\n" +
			"executes, and for each access to memory: hotspots heat, heat picture, advise and web show it as what hotspots run --heat\n" +
			"has noted, in slices of as many instructions as --slice says. LOG may be a pipe, or - for the standard input: then no log is kept.\n\n" +
			"The table counts nothing. A log has no names of memory: where files are mapped is what /proc says while the program runs, if LOG\n" +
			"is a pipe, or a copy of its /proc/PID/maps; what else lies near each other is called by where it begins. Lines of others, as\n" +
			"what the program itself has written, are left out, and counted.",
		Example: "  valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls\n" +
			"  hotspots heat import ls.lackey -o ls.dynprof --slice 512\n" +
			"  hotspots heat picture ls.dynprof --rows 64 --cols 512 --executed=false -o ls.png\n" +
			"  mkfifo pipe && valgrind --tool=lackey --trace-mem=yes --log-file=pipe ls & hotspots heat import pipe -o ls.dynprof\n" +
			"  zcat ls.lackey.gz | hotspots heat import - -o ls.dynprof --granule bytes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("one log is to be named, or -: hotspots heat import LOG")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.heatImport(&f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write the table to `FILE`; patterns as of hotspots run (default: in $XDG_RUNTIME_DIR/dynprof)")
	flags.StringVar(&f.slice, "slice", "16K", "a slice is `N` instructions (16K is 16,384), and more where there would be too many")
	choiceFlag(cmd, &f.granule, "granule", granules, "what is told apart: `granules` of 64 bytes (lines), 4096 (pages) or 8 (bytes); one of")
	flags.StringVar(&f.maps, "maps", "", "name memory by `FILE`, a copy of the program's /proc/PID/maps")
	return cmd
}

// importFlags are those of hotspots heat import.
type importFlags struct {
	output, slice, granule, maps string
}

func (a *app) heatImport(f *importFlags, path string) error {
	o := lackey.Options{Granule: heat.Names[f.granule]}
	var err error
	if o.Slice, err = size("slice", f.slice); err != nil {
		return err
	}
	if o.Slice == 0 || o.Slice > lackey.MostSlice {
		return usage("--slice %s: it is a number from 1 to %d", f.slice, uint64(lackey.MostSlice))
	}
	if f.maps != "" {
		if o.Maps, err = mapsIn(f.maps); err != nil {
			return err
		}
	}
	o.Output = func(program string, pid int) (string, error) {
		pattern, err := outputPattern(f.output) // an old table of that name goes, now that there is something in its place
		if err != nil {
			return "", err
		}
		return tabledir.OutputPath(pattern, "", tabledir.Names{Program: program, Pid: pid})
	}
	log, length := os.Stdin, int64(-1)
	if path != "-" {
		if log, err = os.Open(path); err != nil {
			return err
		}
		defer log.Close()
	}
	if fi, err := log.Stat(); err == nil && fi.Mode().IsRegular() {
		length = fi.Size()
	}
	o.Running = length < 0
	bar := a.bytesBar(length, "importing")
	read, err := lackey.Import(io.TeeReader(log, bar), o)
	bar.Finish()
	if read != nil {
		a.say("%s", importedText(read))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// mapsIn are the files that a copy of /proc/PID/maps has.
func mapsIn(path string) (*heat.Maps, error) {
	text, err := textfile.Read(path)
	if err != nil {
		return nil, err
	}
	m, err := heat.FilesIn(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// importedText says what was made of a log.
func importedText(l *lackey.Log) string {
	text := fmt.Sprintf("%s: %s and %s", l.Table, figures.Count(l.Instructions, "instruction"), figures.Count(l.Accesses, "access"))
	if l.Program != "" {
		text += " of " + symname.Clean(l.Program)
	}
	text += fmt.Sprintf(", in %s of %s", figures.Count(uint64(l.Slices), "slice"), figures.Count(l.Slice, "instruction"))
	if l.Other > 0 {
		text += fmt.Sprintf("; %s left out that is no access, the first is line %s", figures.Count(l.Other, "line"), figures.Thousands(l.First))
	}
	if l.Several {
		text += "; it is of several processes, which are told as one"
	}
	return text
}

// bytesBar shows progress through bytes, on a terminal only. Of -1 it is not known how many there are.
func (a *app) bytesBar(n int64, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions64(n, progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription(what), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(term.IsTerminal(2)))
}
