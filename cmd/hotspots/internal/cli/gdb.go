package cli

import (
	"bufio"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/symbols"
)

func (a *app) symbolsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "symbols -o FILE CORE|PID",
		Short: "Write what a debugger wants to know of a counted program's stubs",
		Long: "Write an ELF file with the name, and the rules for unwinding, of each stub in a core or a process. " +
			"gdb reads it by add-symbol-file FILE; hotspots gdb does both.",
		Example: "  hotspots symbols -o stubs core\n  hotspots symbols -o stubs 4711",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return usage("no file named: -o FILE")
			}
			return writeSymbols(output, args[0])
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`")
	return cmd
}

func writeSymbols(path, of string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	_, err = symbols.Write(w, of)
	return errors.Join(err, w.Flush(), f.Close())
}

// gdbCommand passes everything on to gdb.
func (a *app) gdbCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gdb [GDB-ARG]...",
		Short: "Run gdb on a counted program, or its core, with the names of stubs",
		Long: "Run gdb with these arguments, among them a core, a process (-p PID, or a number), or both a program and one of them. " +
			"Before its commands it learns the name, and the rules for unwinding, of each stub: " +
			"where a thread is in one, the backtrace begins with the function that it stands for.",
		Example:            "  hotspots gdb ./app core\n  hotspots gdb -p 4711\n  hotspots gdb -batch -ex 'thread apply all bt' ./app core",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			return a.gdb(args)
		},
	}
}

func (a *app) gdb(args []string) error {
	of := debugged(args)
	if of == "" {
		return usage("no core and no process named: hotspots gdb PROG CORE, or hotspots gdb -p PID; see hotspots gdb --help")
	}
	dir, err := os.MkdirTemp("", "hotspots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := dir + "/stubs"
	before := []string{"-ex", "with confirm off -- add-symbol-file " + path}
	if err := writeSymbols(path, of); err != nil {
		a.say("%s", err)
		before = nil
	}
	c := exec.Command("gdb", append(before, args...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT) // they are for gdb
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return &exitError{status: exit.ExitCode()}
	}
	return err
}

// debugged is the core or process among gdb's arguments.
func debugged(args []string) string {
	for i, arg := range args {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && (name == "p" || name == "pid" || name == "c" || name == "core") {
			if joined {
				return value
			}
			if i+1 < len(args) {
				return args[i+1]
			}
		}
		if isCore(arg) {
			return arg
		}
	}
	if n := len(args); n > 1 { // gdb PROG PID
		if _, err := strconv.ParseUint(args[n-1], 10, 31); err == nil {
			return args[n-1]
		}
	}
	return ""
}

func isCore(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Type == elf.ET_CORE
}
