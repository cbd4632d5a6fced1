package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/internal/procmaps"
)

// step is from one basic block to the next: addresses where they begin.
type step struct{ from, to uint64 }

// trace is how often each step was made, and what was mapped meanwhile.
type trace struct {
	steps map[step]uint64
	maps  []procmaps.Mapping
}

// run runs a program in valgrind, one basic block at a time as they are in the code: it
// follows no branch and unrolls no loop.
func run(args []string) (*trace, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p := exec.Command("valgrind", append([]string{"-q", "--tool=lackey", "--basic-counts=no", "--trace-superblocks=yes",
		"--vex-guest-chase=no", "--vex-iropt-unroll-thresh=0", "--log-fd=3"}, args...)...)
	p.Stdin, p.Stderr, p.ExtraFiles = os.Stdin, os.Stderr, []*os.File{w}
	if err := p.Start(); err != nil {
		return nil, err
	}
	w.Close()
	t := &trace{steps: map[step]uint64{}}
	stop, stopped := make(chan bool), make(chan bool)
	go t.watch(strconv.Itoa(p.Process.Pid), stop, stopped)
	err = t.read(r)
	close(stop)
	<-stopped
	if e := p.Wait(); err == nil {
		err = e
	}
	return t, err
}

// watch notes what is mapped executable, again and again.
func (t *trace) watch(pid string, stop, stopped chan bool) {
	defer close(stopped)
	known := map[procmaps.Mapping]bool{}
	for {
		maps, _ := procmaps.Of(pid)
		for _, m := range maps {
			if m.Prot&procmaps.ProtExec != 0 && m.Inode != 0 && !known[m] {
				known[m] = true
				t.maps = append(t.maps, m)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (t *trace) read(r io.Reader) error {
	lines := bufio.NewScanner(bufio.NewReaderSize(r, 1<<20))
	from := uint64(0)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "SB ")
		if !ok {
			continue
		}
		to, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return err
		}
		t.steps[step{from, to}]++
		from = to
	}
	return lines.Err()
}
