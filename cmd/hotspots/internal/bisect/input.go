package bisect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// input is the standard input that every run gets from its beginning.
type input struct {
	path   string
	offset int64
	pipe   bool // runs get a pipe, as we did
}

// noInput is the end of file at once.
var noInput = &input{path: os.DevNull}

// newInput looks at what we got. A terminal cannot be read twice: runs get
// noInput. A pipe is read to its end into a file of dir first; waits is called
// if that takes time.
func newInput(ctx context.Context, stdin *os.File, dir string, waits func()) (*input, error) {
	fi, err := stdin.Stat()
	if err != nil {
		return noInput, nil // closed
	}
	switch mode := fi.Mode(); {
	case mode.IsRegular():
		offset, err := stdin.Seek(0, io.SeekCurrent)
		return &input{path: fmt.Sprintf("/proc/self/fd/%d", stdin.Fd()), offset: offset}, err
	case mode&os.ModeCharDevice != 0:
		return noInput, nil
	}
	in := &input{path: filepath.Join(dir, "stdin"), pipe: true}
	f, err := os.Create(in.path)
	if err != nil {
		return nil, err
	}
	notice := time.AfterFunc(time.Second, waits)
	defer notice.Stop()
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, stdin)
		done <- errors.Join(err, f.Close())
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("cannot keep standard input for all runs: %w", err)
		}
		return in, nil
	}
}

// open returns it for one run.
func (in *input) open() (io.Reader, func() error, error) {
	f, err := os.Open(in.path)
	if err != nil {
		return nil, nil, fmt.Errorf("standard input: %w", err)
	}
	if _, err := f.Seek(in.offset, io.SeekStart); in.offset != 0 && err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("standard input: %w", err)
	}
	if in.pipe {
		return struct{ io.Reader }{f}, f.Close, nil // no *os.File, which exec would hand on as it is
	}
	return f, f.Close, nil
}
