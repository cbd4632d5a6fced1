package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/patcher/target"
)

// defaultLinger is how long an endpoint waits for the last scrape.
const defaultLinger = 15 * time.Second

// childLook is how often a twin that has made an endpoint looks for its parent.
const childLook = 500 * time.Millisecond

// endpoint is what the twin becomes when it is told to listen: the command
// hotspots, executed with a socket that the twin has opened. So the library links
// no HTTP and no metrics, and the program starts as fast as without.
type endpoint struct {
	address listen.Address
	socket  int // -1: somebody else listens there, the command waits for it
	command string
	linger  time.Duration
}

// serving is the endpoint of this process, the twin.
var serving *endpoint

// openEndpoint opens the socket. remark is what the user should know, also if
// there is an endpoint; it is no reason not to count.
func openEndpoint(choice *config, pid int, objects []target.Loaded, program string) (e *endpoint, remark string) {
	if choice.listen == "" {
		return nil, ""
	}
	e = &endpoint{socket: -1, linger: choice.linger}
	err := e.locate(choice, pid, objects, program)
	if err == nil {
		e.socket, e.address, err = e.address.Open()
	}
	switch {
	case errors.Is(err, listen.ErrInUse):
		return e, err.Error() + ": metrics are served when it is free"
	case err != nil:
		return nil, "metrics are not served: " + err.Error()
	}
	return e, ""
}

// locate finds the address and the command.
func (e *endpoint) locate(choice *config, pid int, objects []target.Loaded, program string) (err error) {
	address := choice.listen
	if strings.HasPrefix(address, "unix:") {
		host, _ := os.Hostname() // only for %h
		address, err = tabledir.Expand(address, tabledir.Names{Program: program, Pid: pid, Host: host, Time: time.Now()})
	}
	if err == nil {
		e.address, err = listen.Parse(address)
	}
	if err != nil {
		return fmt.Errorf("DYNPROF_LISTEN: %w", err)
	}
	e.command, err = findCommand(choice.hotspots, objects)
	return err
}

// findCommand finds hotspots: named, beside the library, in the bin beside its
// directory, or where commands are installed.
func findCommand(named string, objects []target.Loaded) (string, error) {
	if named != "" {
		return named, executable(named)
	}
	var places []string
	for _, o := range objects {
		if o.Self {
			dir := filepath.Dir(o.Name)
			places = append(places, dir, filepath.Join(dir, "../bin"), filepath.Join(dir, "../../bin"))
		}
	}
	for _, dir := range append(places, "/usr/local/bin", "/usr/bin") {
		path, err := filepath.Abs(filepath.Join(dir, "hotspots"))
		if err == nil && executable(path) == nil {
			return path, nil
		}
	}
	return "", errors.New("no hotspots beside the library or in /usr/bin; DYNPROF_HOTSPOTS names it")
}

func executable(path string) error {
	const xOK = 1
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = syscall.EACCES
	}
	if err == nil {
		err = syscall.Access(path, xOK)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// listens is what the table says.
func (e *endpoint) listens() string {
	if e == nil {
		return ""
	}
	return e.address.String()
}

// forget takes back what a plan that failed has left.
func (e *endpoint) forget() {
	if e != nil && e.socket >= 0 && e.address.Path != "" {
		os.Remove(e.address.Path)
	}
}

// arguments are those of the command (cmd/hotspots/internal/serve, Program).
func (e *endpoint) arguments(table string, nonce [16]byte, socket int) []string {
	return []string{"dynprof-agent", "agent", "--table", table, "--nonce", hex.EncodeToString(nonce[:]), "--address", e.address.String(),
		"--socket", strconv.Itoa(socket), "--linger", e.linger.String()}
}

// become replaces this process by the command. It returns if that fails.
func (e *endpoint) become(table string, nonce [16]byte) {
	if e.socket >= 0 {
		syscall.Syscall(syscall.SYS_FCNTL, uintptr(e.socket), syscall.F_SETFD, 0)
	}
	syscall.Exec(e.command, e.arguments(table, nonce, e.socket), []string{})
	e.forget()
}

// serveAs becomes the endpoint, or makes one and stays as long as program lives:
// where that is our parent (session.c, adopts), exec would make us a child like
// others, which the program's wait would see.
func (e *endpoint) serveAs(table string, nonce [16]byte, program int) {
	if os.Getppid() != program {
		e.become(table, nonce)
		return
	}
	e.start(table, nonce)
	debug.FreeOSMemory()
	for os.Getppid() == program {
		time.Sleep(childLook)
		syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	}
}

// start runs the command beside this process, which is the agent for control.
func (e *endpoint) start(table string, nonce [16]byte) {
	const first = 3
	files, socket := []uintptr{0, 1, 2}, -1
	if e.socket >= 0 {
		files, socket = append(files, uintptr(e.socket)), first
	}
	attr := &syscall.ProcAttr{Env: []string{}, Files: files}
	if _, err := syscall.ForkExec(e.command, e.arguments(table, nonce, socket), attr); err != nil {
		e.forget()
	}
	if e.socket >= 0 {
		syscall.Close(e.socket)
	}
}
