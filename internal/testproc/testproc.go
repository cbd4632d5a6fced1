// Package testproc is what tests need whose programs are processes of their own.
package testproc

import (
	"os"
	"os/signal"
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
