// Package testproc is what tests need whose programs are processes of their own.
package testproc

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// DefaultSignals has this process's children start with the default disposition of
// each signal, whatever the caller ignores (nohup, cmd &): a shell, for one, cannot
// trap a signal that was ignored when it started.
func DefaultSignals() {
	for sig := syscall.Signal(1); sig < 32; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // what is caught becomes the default at exec
		}
	}
}

// OwnDescriptors keeps from this process's children what the caller has left open
// beyond stdin, stdout and stderr: programs with a limit of descriptors need theirs.
func OwnDescriptors() error {
	open, err := os.ReadDir("/proc/self/fd")
	for _, d := range open {
		if n, err := strconv.Atoi(d.Name()); err == nil && n > 2 {
			syscall.CloseOnExec(n)
		}
	}
	return err
}
