package cli

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/heat"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/heatmap"
	"github.com/dynprof/dynprof/internal/table"
	granule "github.com/dynprof/dynprof/internal/table/heat"
)

func (a *app) heatCommand() *cobra.Command {
	var format, from, to string
	var show heat.Show
	var by [3]bool
	var objects bool
	units := [len(by)]granule.Granule{granule.Page, granule.Line, granule.Word}
	cmd := &cobra.Command{
		Use:   "heat [TABLE]",
		Short: "Show which pages of memory were read, written and executed",
		Long: "Show how many pages of memory a program has touched, by file and kind of memory, and how many of these were\n" +
			"read, written and executed, against those that were resident at its end, and the slices of time in which any was touched first and last;\n" +
			"with --pages which ones, and what functions and variables lie in them; with --curve what was touched in each slice, and the working set;\n" +
			"with --objects what was done with each variable, and, where it was run with --allocs, with blocks of malloc, by who has asked for them.\n" +
			"The program has to be run with hotspots run --heat=pages, or, to know also how many of the 64 lines of each page\n" +
			"it has touched, --heat=lines, or --heat=bytes; --lines and --bytes show all by these. With --heat=threads it is shown, too,\n" +
			"which threads have read and which have written each page, with --heat=who which function, line and instruction has\n" +
			"read it last, and which has written it. Without TABLE: the newest table.\n\n" +
			"A page is touched where an instruction of a function that runs as a copy has read or written a byte of it.\n" +
			"With --control memory is noted while counting is on: hotspots pause, hotspots resume.\n" +
			"What is not seen is said: other functions, libraries that are not counted, code that was made at run time, the kernel, and\n" +
			"how much that has read and stored by read, write, recv, send and their like. Forked children touch\n" +
			"the same pages. A program that is executed in the place of another, as by a wrapper, has a table and pages of its own.",
		Example: "  hotspots run --heat=pages -o app.dynprof -- ./app\n  hotspots heat app.dynprof\n  hotspots run --heat=who -o app.dynprof -- ./app && hotspots heat app.dynprof --pages\n  hotspots heat app.dynprof --objects\n  hotspots heat app.dynprof --from 300M --to 400M\n  hotspots heat app.dynprof --curve --window 1000000\n  hotspots heat app.dynprof --format json",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.onTable(func(t *table.Table) error {
			for i, is := range by {
				if is {
					show.Ranges, show.By = true, units[i]
				}
			}
			if err := partOf(from, to, &show); err != nil {
				return err
			}
			show.Kinds, show.Mangled = format != "text", a.noDemangle
			show.Find, show.Say = a.naming.Find, func(err error) { a.say("no source lines: %v", err) }
			if objects {
				o, err := heat.ObjectsOf(t, show)
				if err != nil {
					return err
				}
				return a.show(format, o)
			}
			m, err := heat.Of(t, show)
			if err != nil {
				return err
			}
			return a.show(format, m)
		}),
	}
	formatFlag(cmd, &format)
	cmd.Flags().BoolVar(&by[0], "pages", false, "show each range of pages with its first and last slice of time, as text; JSON and CSV always do")
	cmd.Flags().BoolVar(&by[1], "lines", false, "the same by lines of 64 bytes, in place of pages; with --curve the curve is of these, too")
	cmd.Flags().BoolVar(&by[2], "bytes", false, "the same by granules of 8 bytes")
	cmd.Flags().BoolVar(&objects, "objects", false, "show data objects in place of pages: of each variable how much of it was read and written, and in which slices first and last, and of a program run with --allocs who has asked for blocks of malloc, and how much of these was touched; JSON and CSV have variables that were not, too")
	cmd.MarkFlagsMutuallyExclusive("pages", "lines", "bytes", "objects")
	cmd.Flags().BoolVar(&show.Curve, "curve", false, "show each slice of time: what was touched in it, the working set, pages used so far, resident ones, page faults, threads, and whether counting was on")
	cmd.Flags().Uint64Var(&show.Window, "window", 0, "the working set is what the last `N` instructions have touched (default: a twentieth of all)")
	cmd.MarkFlagsMutuallyExclusive("objects", "curve")
	cmd.MarkFlagsMutuallyExclusive("objects", "window")
	cmd.Flags().StringVar(&from, "from", "", "show what was touched when `N` instructions had run, as 300M (times 1,048,576); slices that are in the time in part count as a whole")
	cmd.Flags().StringVar(&to, "to", "", "and before more than `N` had")
	cmd.AddCommand(a.heatPictureCommand(), a.heatImportCommand())
	return cmd
}

// partOf reads which part of the time is shown.
func partOf(from, to string, show *heat.Show) (err error) {
	if show.After, err = size("from", from); err != nil {
		return err
	}
	if show.Before, err = size("to", to); err != nil {
		return err
	}
	if to != "" && show.Before <= show.After {
		return usage("--from %s --to %s: nothing is in between", from, to)
	}
	return nil
}

// unitOf is the largest granule that rows of so many bytes can have.
func unitOf(row uint64) granule.Granule {
	for _, g := range []granule.Granule{granule.Page, granule.Line} {
		if row == 0 || row >= g.Size() {
			return g
		}
	}
	return granule.Word
}

// palettes are what --colours may be.
const paperColours, blindColours = "paper", "blind"

func (a *app) heatPictureCommand() *cobra.Command {
	var output, legend, rows, columns, colours string
	used, executed, dense := true, true, true
	cmd := &cobra.Command{
		Use:   "picture [TABLE] -o FILE",
		Short: "Draw which pages of memory were touched when",
		Long: "Draw a picture, PNG, of the pages that a program has touched, over the instructions that it has executed: a page\n" +
			"that was read is red, one that was written cyan, one that was both white, one whose instructions ran yellow;\n" +
			"the fainter the less was touched of what a point stands for.\n" +
			"Each page that was ever touched has its row, by address, the highest at the top; below are how many were used\n" +
			"so far, and the working set. Rows and columns stand for as much as fits, if nobody says for how much.",
		Example: "  hotspots heat picture app.dynprof -o app.png\n  hotspots heat picture app.dynprof -o app.png --rows 4096 --cols 16K --colours blind --legend app.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o := heatmap.Options{Mapped: !used, Blind: colours == blindColours, Even: !dense}
			if colours != paperColours && !o.Blind {
				return usage("--colours %s: they are %s or %s", colours, paperColours, blindColours)
			}
			var err error
			if o.Row, err = size("rows", rows); err != nil {
				return err
			}
			if o.Column, err = size("cols", columns); err != nil {
				return err
			}
			if output == "" {
				return usage("no file is named: -o FILE")
			}
			switch ext := filepath.Ext(output); strings.ToLower(ext) {
			case ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp":
				return usage("%s: pictures are PNG: -o %s.png", output, strings.TrimSuffix(output, ext))
			}
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			m, err := heat.Of(tables[0], heat.Show{By: unitOf(o.Row), Data: !executed})
			if err != nil {
				return err
			}
			p, err := heatmap.Draw(m, o)
			if err != nil {
				return err
			}
			if legend != "" {
				if err := a.write(legend, p.Legend); err != nil {
					return err
				}
			}
			return a.write(output, p.PNG)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "write the picture to `FILE`")
	flags.StringVar(&rows, "rows", "", "a row is `N` bytes, a multiple of 4096 (16K is 16,384), or, where lines or bytes were noted, fewer, of 64 or 8")
	flags.StringVar(&columns, "cols", "", "a column is `N` instructions")
	flags.StringVar(&colours, "colours", paperColours, "paper, or blind, which all can tell apart")
	flags.BoolVar(&used, "used", true, "leave pages out that were never touched; =false: all that is mapped")
	flags.BoolVar(&executed, "executed", true, "show what was executed, too; =false: what was read and written only")
	flags.BoolVar(&dense, "density", true, "points are fainter where less of their pages, slice by slice, was touched; =false: all the same")
	flags.StringVar(&legend, "legend", "", "write what colours, rows and columns are to `FILE`, JSON")
	return cmd
}

// size reads a number that may have K, M or G behind it.
func size(flag, text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	digits, shift := text, 0
	for i, unit := range []string{"K", "M", "G"} {
		if rest, is := strings.CutSuffix(text, unit); is {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64-shift)
	if err != nil || n == 0 {
		return 0, usage("--%s %s: it is a number from 1, as 4096 or 16K", flag, text)
	}
	return n << shift, nil
}
