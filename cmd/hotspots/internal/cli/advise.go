package cli

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/advise"
)

func (a *app) adviseCommand() *cobra.Command {
	var format, order, object, output, deadAfter string
	var apply bool
	cmd := &cobra.Command{
		Use:   "advise [TABLE] [--apply -- PROGRAM [ARGUMENT ...]]",
		Short: "Say how a program could do with less memory",
		Long: "Say how a program could do with less memory, by the pages that it has touched (hotspots run --heat=pages) and by\n" +
			"the functions that ran (hotspots run --blocks): how much less, on what evidence, and how that was obtained again.\n" +
			"Without TABLE: the newest table.\n\n" +
			"  order      functions that ran, next to each other, take fewer pages of code\n" +
			"  overlay    memory that is not in use at the same time could be the same\n" +
			"  dead       memory that was written, and is not touched any more early on\n" +
			"  untouched  memory that is there, and that no code that is seen has touched;\n" +
			"             variables, and blocks of malloc (--allocs)\n" +
			"  unread     variables and blocks that were written, and not read\n\n" +
			"With --apply: run the program again, not counted, twice: as it is, to find out where its dead memory is not touched any\n" +
			"more, and with that memory given back there. Output and status are compared, and what is resident at the end.\n\n" +
			"With --order: write the order of an object's functions as a linker reads it, callers and callees that call each\n" +
			"other most next to each other.",
		Example: "  hotspots run --heat=pages -o app.dynprof -- ./app\n  hotspots advise app.dynprof\n" +
			"  hotspots advise app.dynprof --order ld -o order.ld && gcc -O2 -ffunction-sections -Wl,-T,order.ld -o app *.c\n" +
			"  hotspots run --heat --allocs --objects all -o app.dynprof -- ./app && hotspots advise app.dynprof --apply -- ./app\n" +
			"  hotspots advise app.dynprof --order lld --object libapp.so -o order.txt",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); apply && n >= 0 {
				args = args[:n]
			}
			return cobra.MaximumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opt := advise.Options{}
			var program []string
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, program = args[:n], args[n:]
			}
			if apply != (len(program) > 0) {
				return usage("--apply goes with -- and the program's command, as hotspots run had it")
			}
			percent, err := strconv.ParseFloat(strings.TrimSuffix(deadAfter, "%"), 64)
			if opt.Dead = percent / 100; err != nil || !(percent > 0 && percent <= 100) {
				return usage("--dead-after %s: it is a share of the instructions, such as 10%%", deadAfter)
			}
			if order != "" && !slices.Contains(advise.Linkers, order) {
				return usage("--order %s: it is one of %s", order, strings.Join(advise.Linkers, ", "))
			}
			if order == "" && (object != "" || output != "") {
				return usage("--object and --output are for --order")
			}
			tables, done, err := a.openAll(args, false)
			if err != nil {
				return err
			}
			defer done()
			if apply {
				applied, err := advise.Apply(tables[0], opt, program)
				if err != nil {
					return err
				}
				return a.show(format, applied)
			}
			list, err := advise.Of(tables[0], opt)
			if err != nil {
				return err
			}
			if order == "" {
				return a.show(format, list)
			}
			o, err := list.Order(object)
			if err != nil {
				return err
			}
			return a.write(output, func(w io.Writer) error { return o.Write(w, order) })
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().BoolVar(&apply, "apply", false, "run the program again, as it is and with dead memory given back, and compare")
	cmd.Flags().StringVar(&order, "order", "", "write the functions' order for a `LINKER`: "+strings.Join(advise.Linkers, ", "))
	cmd.RegisterFlagCompletionFunc("order", cobra.FixedCompletions(advise.Linkers, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&object, "object", "", "the order of the library with this `NAME` or path (default: the program)")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the order to `FILE`")
	cmd.Flags().StringVar(&deadAfter, "dead-after", "10%", "memory is dead if it is not touched any more when this `SHARE` of the instructions has run")
	return cmd
}
