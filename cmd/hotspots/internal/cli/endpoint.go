package cli

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/table/tabledir"
)

// The endpoint of a program that has no planning twin to become one: of one that was attached to, or
// is static. It is the same process (agentCommand), made here.

// openEndpoint opens the socket for the metrics of a process; nil: none are wanted. One that has to
// wait until somebody else has left the address comes with an error that listen.Remark knows.
func openEndpoint(address string, linger time.Duration, program string, pid int) (*listen.Endpoint, error) {
	if address == "" {
		return nil, nil
	}
	e := &listen.Endpoint{Socket: -1, Linger: linger}
	err := e.Locate(address, func(pattern string) (string, error) {
		host, _ := os.Hostname() // only for %h
		return tabledir.Expand(pattern, tabledir.Names{Program: program, Pid: pid, Host: host, Time: time.Now()})
	})
	if err == nil {
		e.Command, err = os.Executable()
	}
	if err == nil {
		err = e.Open()
	}
	return e, err
}

// startEndpoint lets an endpoint serve a table. It holds nothing of this process's, and goes on
// when that has ended.
func (a *app) startEndpoint(e *listen.Endpoint, table string, nonce [16]byte) (pid int) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close()
		fd := null.Fd()
		pid, err = e.Start(table, nonce, [3]uintptr{fd, fd, fd}, &syscall.SysProcAttr{Setsid: true})
	}
	if err != nil {
		a.say("metrics are not served: %v", err)
	}
	return pid
}

// awaitEndpoint waits until the last counts of a program that is not counted any more have been
// scraped, or are not wanted. Where others count into its table, that goes on without us.
func awaitEndpoint(pid int, linger time.Duration, signals <-chan os.Signal, terminate bool) {
	const more = 3 * time.Second // until it sees that nobody counts
	gone := make(chan struct{})
	go func() {
		for err := syscall.EINTR; err == syscall.EINTR; {
			_, e := syscall.Wait4(pid, nil, 0, nil)
			err, _ = e.(syscall.Errno)
		}
		close(gone)
	}()
	end := time.After(linger + more)
	for {
		if terminate {
			syscall.Kill(pid, syscall.SIGTERM)
		}
		select {
		case <-gone:
			return
		case <-end:
			return
		case <-signals:
			if terminate {
				return
			}
			terminate = true
		}
	}
}

func atAddress(e *listen.Endpoint) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf(", metrics at %s", e.Listens())
}
