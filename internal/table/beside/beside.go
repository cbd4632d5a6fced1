// Package beside reads and writes files that lie beside a count table and tell more of its run.
package beside

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read reads the file at a path that tells of the table with a nonce: parse does, and of is the
// nonce, hex digits, that it has. If there is no such file, or it is of another table, the error
// is none.
func Read[F any](path string, nonce [16]byte, none error, parse func([]byte) (*F, error), of func(*F) string) (*F, error) {
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	f, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if of(f) != Nonce(nonce) {
		return nil, none
	}
	return f, nil
}

// Nonce is that of a table as such files have it.
func Nonce(nonce [16]byte) string { return hex.EncodeToString(nonce[:]) }

func read(path string) ([]byte, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return io.ReadAll(r)
}

// isOurs reports whether what is at a path, if anything, may be written over.
func isOurs(path, head string) bool {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	r, err := os.Open(path)
	if err != nil {
		return false
	}
	defer r.Close()
	b := make([]byte, len(head))
	_, err = io.ReadFull(r, b)
	return err == nil && string(b) == head
}

// Remove removes such a file, unless it is none that begins with head.
func Remove(path, head string) {
	if isOurs(path, head) {
		os.Remove(path)
	}
}

// Write writes such a file, which is of what kind: at once, in place of an older one, which
// begins with head. A file of that name that does not stays, and is an error.
func Write(path, head, kind, text string) error {
	if !isOurs(path, head) {
		return fmt.Errorf("%s is there, and is no file of %s: move it away, or name another table with -o", path, kind)
	}
	to, err := os.CreateTemp(filepath.Dir(path), ".dynprof-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = to.WriteString(text)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(to.Name(), path)
	}
	if err != nil {
		os.Remove(to.Name())
	}
	return err
}
