// Package launch starts a program under the library: it finds what execvp
// would run, says beforehand where counting cannot work, prepares the
// environment, passes signals on, and waits.
package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Program is what is going to be executed.
type Program struct {
	Path     string   // of the file for execve
	Args     []string // its argv
	Why      string   // why it cannot be counted by the library; empty if it can
	Doubtful bool     // Why is also a reason for the kernel to refuse it
	Outside  bool     // Why is only that the library cannot be loaded into it: it is counted from outside
	Note     string   // what to know about the counts; empty if nothing
	Preload  []string // libraries that must be loaded before ours
}

// Errors of Resolve, in the words of POSIX "env" and the shell.
var (
	ErrNotFound      = errors.New("no such program")
	ErrNotExecutable = errors.New("cannot be executed")
)

const (
	maxScripts  = 5   // interpreters of interpreters, as in the kernel
	scriptBytes = 256 // that the kernel reads of the first line (BINPRM_BUF_SIZE)
	shell       = "/bin/sh"
)

// Resolve finds what executing argv will run and whether it can be counted.
// search is the PATH. The error wraps ErrNotFound or ErrNotExecutable.
func Resolve(argv []string, search string) (*Program, error) {
	path, err := lookPath(argv[0], search)
	if err != nil {
		return nil, err
	}
	p := &Program{Path: path, Args: argv}
	p.Why = p.inspect(path, search, 0)
	return p, nil
}

// lookPath finds the file as execvp(3) does: the first in search that can be
// executed; a name with a slash is a path.
func lookPath(name, search string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	found := fmt.Errorf("%s: %w in PATH", name, ErrNotFound)
	if name == "" {
		return "", found
	}
	for dir := range strings.SplitSeq(search, ":") {
		path := filepath.Join(dir, name)
		if dir == "" {
			path = "./" + name
		}
		switch err := executable(path); {
		case err == nil:
			return path, nil
		case errors.Is(err, errHidden): // passed over, as shells do
		case errors.Is(err, ErrNotExecutable):
			found = err
		}
	}
	return "", found
}

// errHidden is why it cannot be told what is at a path.
var errHidden = fmt.Errorf("%w: a directory may not be searched", syscall.EACCES)

func executable(path string) error {
	const xOK = 1
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w", path, ErrNotFound)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: %w", path, ErrNotExecutable, errHidden)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", path, ErrNotExecutable, errors.Unwrap(err))
	case fi.IsDir():
		return fmt.Errorf("%s: %w: is a directory", path, ErrNotExecutable)
	}
	if err := syscall.Access(path, xOK); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrNotExecutable, err)
	}
	return nil
}

// inspect follows scripts to the program that the kernel will load, and
// returns why that cannot be counted.
func (p *Program) inspect(path, search string, depth int) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // executable, not readable: the library will say
	}
	defer f.Close()
	start := make([]byte, scriptBytes)
	n, err := io.ReadFull(f, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return ""
	}
	start = start[:n]
	switch {
	case bytes.HasPrefix(start, []byte("\x7fELF")):
		return p.inspectELF(f, path)
	case depth >= maxScripts:
		p.Doubtful = true
		return path + " is a script of a script of a script"
	case bytes.HasPrefix(start, []byte("#!")):
		return p.inspectScript(start[2:], path, search, depth)
	}
	return p.inspect(shell, search, depth+1) // execvp(3) hands it to the shell
}

// inspectScript looks at the interpreter. A script of "env NAME" is led past
// env, which would be the counted program otherwise: env would do nothing but
// execute the same.
func (p *Program) inspectScript(line []byte, path, search string, depth int) string {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(bytes.Trim(line, " \t\x00")))
	if len(words) == 0 {
		return ""
	}
	interpreter := words[0]
	if filepath.Base(interpreter) != "env" || len(words) == 1 {
		return p.inspect(interpreter, search, depth+1)
	}
	args := words[1:]
	if args[0] == "-S" {
		args = args[1:]
	} else {
		args = []string{strings.Join(args, " ")} // the kernel passes one argument
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.ContainsAny(strings.Join(args, ""), `= "'\$#`) {
		p.Note = "the script runs through " + interpreter + " with options: only that is counted, unless --follow-exec is given"
		return p.inspect(interpreter, search, depth+1)
	}
	target, err := lookPath(args[0], search)
	if err != nil {
		return p.inspect(interpreter, search, depth+1) // which will say the same
	}
	if depth == 0 {
		rest := p.Args[1:]
		p.Path, p.Args = target, append(append(args, path), rest...)
	}
	return p.inspect(target, search, depth+1)
}
