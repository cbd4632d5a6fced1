package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/doctor"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/procfile"
	"github.com/dynprof/dynprof/internal/symname"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

func (a *app) doctorCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor [PROG]...",
		Short: "Say what limits counting on this machine, and how to mend it",
		Long: "Look at the kernel's settings, at limits and hardening of this shell, at glibc, and\n" +
			"at the files of the programs named, for what keeps hotspots from counting, or from\n" +
			"counting all: what it is, its effect, and how to mend it. Nothing is changed.\n\n" +
			"Exit status: 0 all can be counted, even if something is limited; 1 something is\n" +
			"fatal, so that nothing is counted, or a program named is not; 2 wrong usage.",
		Example: "  hotspots doctor\n  hotspots doctor nginx ./app\n  hotspots doctor --format json",
		RunE: func(_ *cobra.Command, args []string) error {
			all := doctor.Look(a.machine())
			for _, name := range args {
				all = append(all, doctor.Program(name, searchPath())...)
			}
			return a.findings(doctor.Sorted(all), format)
		},
	}
	choiceFlag(cmd, &format, "format", []string{"text", "json"}, "output `format`")
	return cmd
}

// machine is this one.
func (a *app) machine() *doctor.Machine {
	return &doctor.Machine{
		Read:   procfile.Read,
		Exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
		Getenv: os.Getenv,
		Limit: func(resource int) (uint64, bool) {
			var l syscall.Rlimit
			err := syscall.Getrlimit(resource, &l)
			return l.Cur, err == nil
		},
		Prctl: func(option int) int {
			n, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, uintptr(option), 0, 0, 0, 0, 0)
			if errno != 0 {
				return -1
			}
			return int(n)
		},
		GlibC: func() string {
			out, _ := exec.Command("/lib64/ld-linux-x86-64.so.2", "--version").Output()
			return string(out)
		},
		Library: func() (string, error) { return launch.UserLibrary(os.Getenv("DYNPROF_LIBRARY"), a.library) },
		Room: func(dir string) (uint64, error) {
			if err := tabledir.MakePrivate(dir); err != nil {
				return 0, err
			}
			var fs syscall.Statfs_t
			err := syscall.Statfs(dir, &fs)
			return fs.Bavail * uint64(fs.Bsize), err
		},
		Tables: tabledir.Default(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid()),
		Uid:    os.Getuid(),
	}
}

// findings writes what the doctor found.
func (a *app) findings(all []doctor.Finding, format string) error {
	worst := doctor.Worst(all)
	if format == "json" {
		err := report.WriteJSON(a.stdout, struct {
			Schema int             `json:"schema"`
			Worst  doctor.Severity `json:"worst"`
		}{report.Schema, worst}, "findings", all)
		if err != nil {
			return err
		}
	} else {
		for _, f := range all {
			a.finding(&f)
		}
	}
	if worst == doctor.Fatal {
		return &exitError{status: exitFailure}
	}
	return nil
}

func (a *app) finding(f *doctor.Finding) {
	mark := fmt.Sprintf("%-6s", f.Severity)
	if f.Severity == doctor.Fatal {
		mark = a.style.Red(mark)
	}
	lines := []string{symname.Clean(f.What)}
	if f.Effect != "" {
		lines = append(lines, "effect: "+f.Effect)
	}
	if f.Mend != "" {
		lines = append(lines, "mend:   "+f.Mend)
	}
	fmt.Fprintf(a.stdout, "%s %s\n", mark, strings.Join(lines, "\n         "))
}
