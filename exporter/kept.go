package exporter

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kept is a file that says which series there are and which past of a function
// is among the others. Who serves the same tables next goes on with the same
// series, so that no counter jumps or goes back when hotspots serve is started
// again.
//
// A line is one view of one table: its nonce, the key of the query, and counter
// and base of each series. A later line of the same view adds to it; one without
// series ends it.
//
//		dynprof series 1
//		8f0c…31 "50\x00" 17:0 4:0 93:120045
//
//	 1. A line is written before its series are scraped for the first time. No
//	    sync: tables are as old as the boot, and the kernel keeps what is written.
//	 2. A line without its end was being written when the process died. Nobody has
//	    scraped it: it is cut off.
//	 3. A file that has grown is written anew beside its place, with only what
//	    there still is, and renamed.
type Kept struct {
	path     string
	f        *os.File
	size     int64 // of the whole lines
	limit    int64 // written anew when it is longer
	before   map[keptKey][]keptSeries
	lines    bytes.Buffer // not written yet
	complain func(error)
}

type keptKey struct {
	nonce [16]byte
	view  string // query.key
}

type keptSeries struct {
	counter uint32
	base    uint64
}

const (
	keptHead  = "dynprof series 1\n"
	keptLeast = 1 << 20 // bytes below which it is not written anew
)

// ErrKept says that another process keeps its series in the file.
var ErrKept = errors.New("in use by another hotspots serve")

// OpenKept opens the file, or makes it, with mode 0600. complain is told of
// errors later. Close it after the endpoint.
func OpenKept(path string, complain func(error)) (*Kept, error) {
	k := &Kept{path: path, limit: keptLeast, before: map[keptKey][]keptSeries{}, complain: complain}
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	k.f = f
	if err := k.load(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// openLocked opens the file of that name for this process alone.
func openLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = ErrKept
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mine, err := f.Stat()
		if err == nil && !mine.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file", path)
		}
		there, gone := os.Lstat(path)
		if err == nil && gone == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close() // it was written anew between
		if err != nil {
			return nil, err
		}
	}
}

// load reads what the process before has left.
func (k *Kept) load() error {
	b, err := io.ReadAll(k.f)
	if err != nil {
		return err
	}
	if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
		if !bytes.HasPrefix(b, []byte(keptHead)) {
			return errors.New("not a file of hotspots serve")
		}
		for line := range strings.Lines(string(b[len(keptHead):end])) {
			k.parse(line)
		}
		k.size = int64(end)
		return k.f.Truncate(k.size)
	}
	if len(b) > 0 && !strings.HasPrefix(keptHead, string(b)) {
		return errors.New("not a file of hotspots serve")
	}
	k.lines.WriteString(keptHead)
	return k.append()
}

// parse reads a line; one that is damaged is as good as not there.
func (k *Kept) parse(line string) {
	var key keptKey
	nonce, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if n, err := hex.Decode(key.nonce[:], []byte(nonce)); len(nonce) != 2*len(key.nonce) || err != nil || n != len(key.nonce) {
		return
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return
	}
	key.view, _ = strconv.Unquote(quoted)
	var all []keptSeries
	for _, field := range strings.Fields(rest[len(quoted):]) {
		c, b, _ := strings.Cut(field, ":")
		counter, err1 := strconv.ParseUint(c, 10, 32)
		base, err2 := strconv.ParseUint(b, 10, 64)
		if err1 != nil || err2 != nil {
			delete(k.before, key)
			return
		}
		all = append(all, keptSeries{uint32(counter), base})
	}
	if all == nil {
		delete(k.before, key)
		return
	}
	k.before[key] = append(k.before[key], all...)
}

// of returns the series that a view of a table had before, in their order.
func (k *Kept) of(nonce [16]byte, view string) []keptSeries {
	if k == nil {
		return nil
	}
	return k.before[keptKey{nonce, view}]
}

// forget is for a view that has taken its series over.
func (k *Kept) forget(nonce [16]byte, view string) {
	if k != nil {
		delete(k.before, keptKey{nonce, view})
	}
}

// note adds series to a view, at the next save. None: the view has ended.
func (k *Kept) note(nonce [16]byte, view string, all []keptSeries) {
	if k != nil {
		writeKept(&k.lines, keptKey{nonce, view}, all)
	}
}

func writeKept(w io.Writer, key keptKey, all []keptSeries) {
	fmt.Fprintf(w, "%x %s", key.nonce, strconv.QuoteToASCII(key.view))
	for _, s := range all {
		fmt.Fprintf(w, " %d:%d", s.counter, s.base)
	}
	io.WriteString(w, "\n")
}

// save writes what has been noted. programs are those that there are now.
func (k *Kept) save(programs []*program) {
	if k == nil || k.lines.Len() == 0 {
		return
	}
	err := k.append()
	if err == nil && k.size > k.limit {
		err = k.renew(programs)
	}
	if err != nil {
		k.complain(fmt.Errorf("series are not remembered: %w", err))
	}
}

// append writes the lines, or nothing.
func (k *Kept) append() error {
	defer k.lines.Reset()
	n, err := k.f.WriteAt(k.lines.Bytes(), k.size)
	if err != nil {
		return errors.Join(err, k.f.Truncate(k.size))
	}
	k.size += int64(n)
	return nil
}

// renew writes the file anew: the views of programs, and what was kept of their
// tables and not asked for yet.
func (k *Kept) renew(programs []*program) error {
	there := map[[16]byte]bool{}
	f, err := os.CreateTemp(filepath.Dir(k.path), filepath.Base(k.path)+".*")
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	b.WriteString(keptHead)
	for _, p := range programs {
		there[p.meter.Nonce] = true
		for view, v := range p.views {
			writeKept(b, keptKey{p.meter.Nonce, view}, v.kept(0))
		}
	}
	for key, all := range k.before {
		if !there[key.nonce] {
			delete(k.before, key)
			continue
		}
		writeKept(b, key, all)
	}
	err = b.Flush()
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(f.Name(), k.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return errors.Join(err, f.Close())
	}
	k.f.Close()
	k.f = f
	k.size, err = f.Seek(0, io.SeekEnd)
	k.limit = max(keptLeast, 2*k.size)
	return err
}

// Close releases the file.
func (k *Kept) Close() error { return k.f.Close() }
