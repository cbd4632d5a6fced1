package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/dynprof/dynprof/internal/listen"
	"github.com/dynprof/dynprof/internal/table/tabledir"
	"github.com/dynprof/dynprof/patcher/target"
)

// childLook is how often a twin that has made an endpoint looks for its parent.
const childLook = 500 * time.Millisecond

// serving is what the twin becomes when it is told to listen. So the library links no HTTP and no
// metrics, and the program starts as fast as without.
var serving *listen.Endpoint

// openEndpoint opens the socket. remark is what the user should know, also if
// there is an endpoint; it is no reason not to count.
func openEndpoint(choice *config, pid int, objects []target.Loaded, program string) (e *listen.Endpoint, remark string) {
	if choice.listen == "" {
		return nil, ""
	}
	e = &listen.Endpoint{Socket: -1, Linger: choice.linger}
	err := locate(e, choice, pid, objects, program)
	if err == nil {
		err = e.Open()
	}
	remark, comes := listen.Remark(err)
	if !comes {
		return nil, remark
	}
	return e, remark
}

// locate finds the address and the command.
func locate(e *listen.Endpoint, choice *config, pid int, objects []target.Loaded, program string) (err error) {
	err = e.Locate(choice.listen, func(pattern string) (string, error) {
		host, _ := os.Hostname() // only for %h
		return tabledir.Expand(pattern, tabledir.Names{Program: program, Pid: pid, Host: host, Time: time.Now()})
	})
	if err != nil {
		return fmt.Errorf("DYNPROF_LISTEN: %w", err)
	}
	e.Command, err = findCommand(choice.hotspots, objects)
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

// serveAs becomes the endpoint, or makes one and stays as long as program lives:
// where that is our parent (session.c, adopts), exec would make us a child like
// others, which the program's wait would see.
func serveAs(e *listen.Endpoint, table string, nonce [16]byte, program int) {
	if os.Getppid() != program {
		e.Become(table, nonce)
		return
	}
	start(e, table, nonce)
	debug.FreeOSMemory()
	for os.Getppid() == program {
		time.Sleep(childLook)
		syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	}
}

// start runs the command beside this process, which is the agent for control. There is nobody to
// tell of an error.
func start(e *listen.Endpoint, table string, nonce [16]byte) {
	e.Start(table, nonce, [3]uintptr{0, 1, 2}, nil)
}
