package cli

import (
	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/regions"
	"github.com/dynprof/dynprof/internal/table"
)

func (a *app) regionsCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "regions [TABLE]",
		Short: "Show which accesses to chosen memory there were",
		Long: "Show how often memory was read and written that was chosen by memtr.h, dynprof.h or --region, by which functions,\n" +
			"instructions and threads. The program has to be run with hotspots run --regions, or --region WHAT.\n" +
			"Without TABLE: the newest table.\n\n" +
			"Recorded are accesses of functions that run as copies. What is not seen is said: other functions, libraries that\n" +
			"are not counted, the kernel, accesses by FS and GS, with rep and with masks. With hotspots run --audit it is said\n" +
			"how many there were, by instruction. A program that is executed in the place of another, as by a wrapper, has a table and\n" +
			"regions of its own. See docs/regions.md.",
		Example: "  hotspots run --regions -o app.dynprof -- ./app         a program that calls memtr_regist (memtr.h)\n" +
			"  hotspots run --region table -o app.dynprof -- ./app    a variable of the program\n" +
			"  hotspots run --region table --audit -- ./app           and see what is missed\n" +
			"  hotspots run --region 'heads=./libx.so:heads' --region 0x404000+4096 -- ./app\n" +
			"  hotspots run --region '@init_done:table' -- ./app      from when that function is called first\n" +
			"  hotspots run --region stack --region main:.bss -- ./app   the first thread's stack, and a section\n" +
			"  hotspots run --region file:app.db --kinds store -- ./app  what writes to what is mapped of a file\n" +
			"  hotspots regions app.dynprof\n  hotspots regions app.dynprof --format json",
		Args: cobra.MaximumNArgs(1),
		RunE: a.onTable(func(t *table.Table) error {
			l, err := regions.Of(t, a.noDemangle)
			if err != nil {
				return err
			}
			return a.show(format, l)
		}),
	}
	formatFlag(cmd, &format)
	cmd.AddCommand(a.regionsExportCommand())
	return cmd
}

func (a *app) regionsExportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export [TABLE]",
		Short: "Write each access to chosen memory, in order",
		Long: "Write each access that hotspots run --regions has recorded, a line each, in the order\n" +
			"in which threads came to them. csv has number, region, thread, address, size, kind,\n" +
			"whether it was atomic, the instruction, and of that its object's path, its address in that file\n" +
			"and its function, as far as they are known; lackey is as valgrind's lackey with\n" +
			"--trace-mem=yes, without instructions; din as Dinero IV reads it, where an access that\n" +
			"reads and writes is two.",
		Example: "  hotspots regions export app.dynprof\n  hotspots regions export app.dynprof --format din | dineroIV -informat d -l1-dsize 32k -l1-dbsize 64",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.onTable(func(t *table.Table) error {
			return regions.Export(a.stdout, t, format, a.noDemangle)
		}),
	}
	choiceFlag(cmd, &format, "format", regions.Formats, "output `format`")
	return cmd
}
