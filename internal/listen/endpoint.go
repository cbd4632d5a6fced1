package listen

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DefaultLinger is how long an endpoint waits for the last scrape.
const DefaultLinger = 15 * time.Second

// Endpoint is a process that serves the counts of one program: the command hotspots
// (cmd/hotspots/internal/serve, Program), executed with a socket that was opened before.
type Endpoint struct {
	Address Address
	Socket  int // -1: somebody else listens there, the command waits for it
	Command string
	Linger  time.Duration
}

// Locate says where: expand fills in the pattern of a socket's path.
func (e *Endpoint) Locate(address string, expand func(pattern string) (string, error)) (err error) {
	if strings.HasPrefix(address, "unix:") {
		address, err = expand(address)
	}
	if err == nil {
		e.Address, err = Parse(address)
	}
	return err
}

// Open opens the socket. After ErrInUse the endpoint is as good, and waits until the address is
// free.
func (e *Endpoint) Open() (err error) {
	e.Socket, e.Address, err = e.Address.Open()
	return err
}

// Listens is the address, as a table has it.
func (e *Endpoint) Listens() string {
	if e == nil {
		return ""
	}
	return e.Address.String()
}

// Forget takes back what is not wanted after all.
func (e *Endpoint) Forget() {
	if e != nil && e.Socket >= 0 && e.Address.Path != "" {
		os.Remove(e.Address.Path)
	}
}

func (e *Endpoint) arguments(table string, nonce [16]byte, socket int) []string {
	return []string{"dynprof-agent", "agent", "--table", table, "--nonce", hex.EncodeToString(nonce[:]), "--address", e.Address.String(),
		"--socket", strconv.Itoa(socket), "--linger", e.Linger.String()}
}

// Become replaces this process by the command. It returns if that fails.
func (e *Endpoint) Become(table string, nonce [16]byte) {
	if e.Socket >= 0 {
		syscall.Syscall(syscall.SYS_FCNTL, uintptr(e.Socket), syscall.F_SETFD, 0)
	}
	syscall.Exec(e.Command, e.arguments(table, nonce, e.Socket), []string{})
	e.Forget()
}

// Start runs the command beside this process, with these files for the first descriptors, and
// returns its number.
func (e *Endpoint) Start(table string, nonce [16]byte, files [3]uintptr, attr *syscall.SysProcAttr) (pid int, err error) {
	all, socket := files[:], -1
	if e.Socket >= 0 {
		socket = len(all)
		all = append(all, uintptr(e.Socket))
	}
	pid, err = syscall.ForkExec(e.Command, e.arguments(table, nonce, socket), &syscall.ProcAttr{Env: []string{}, Files: all, Sys: attr})
	if err != nil {
		e.Forget()
		err = fmt.Errorf("%s: %w", e.Command, err)
	}
	if e.Socket >= 0 {
		syscall.Close(e.Socket)
	}
	return pid, err
}

// Remark is what a user should know of an error of Open, or of what was needed for it, and whether
// there will be an endpoint all the same.
func Remark(err error) (remark string, comes bool) {
	switch {
	case err == nil:
		return "", true
	case errors.Is(err, ErrInUse):
		return err.Error() + ": metrics are served when it is free", true
	}
	return "metrics are not served: " + err.Error(), false
}
