package screen

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// endings are the signals that end the command. A terminal that is closed sends SIGHUP.
var endings = []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT}

// watch sends what signals say. Those that end the command do not wait behind others,
// which wait while the terminal takes nothing.
func (s *Screen) watch() {
	ends, resized, continued := make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1)
	for _, end := range endings {
		if !signal.Ignored(end) { // as under nohup
			signal.Notify(ends, end)
		}
	}
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(continued, syscall.SIGCONT)
	go func() {
		end := (<-ends).(syscall.Signal)
		time.AfterFunc(patience, func() { s.force(end) })
		s.Messages <- Message{End: end}
	}()
	go func() {
		for {
			select {
			case <-resized:
				s.Messages <- Message{}
			case <-continued:
				s.Messages <- Message{Again: true}
			}
		}
	}()
}

// patience is how long a signal that ends the command waits for that: who writes to a
// terminal that takes nothing waits without end.
const patience = 2 * time.Second

// force ends the command.
func (s *Screen) force(end syscall.Signal) {
	if old := s.old.Load(); old != nil {
		term.Restore(s.fd, old)
	}
	os.Exit(128 + int(end))
}

// Suspend gives the terminal back and stops the process with its group, as Ctrl-Z does,
// until they are continued. A handler of SIGTSTP would stay for good once there was one
// (os/signal), so there is none: who sends that signal stops the process as it is.
func (s *Screen) Suspend() error {
	s.Close()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return err
	}
	// The kernel stops nobody whom no shell could continue.
	const unstopped = 200 * time.Millisecond
	select {
	case <-continued:
	case <-time.After(unstopped):
	}
	return s.take()
}
