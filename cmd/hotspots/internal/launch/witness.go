package launch

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A signal that a process sent comes to this process alone, or to the whole process group,
// and then the program has it already. The kernel tells nobody which. So there is a witness,
// a process that does nothing but take the signals that come to it (witness_amd64.s): what
// it got as well went to the group.
//
//  1. A signal waits (relay.waiting) until all that the pipe has is read.
//  2. The witness is asked, and says at last that it has told all (allTold). The kernel
//     signals one member of a group after the other, and the witness waits until it has
//     done so with all before it looks, and again behind.
//  3. So for each signal that waited before 2 and went to the group there are the words of
//     the witness by then; and for each of these words there is the signal in the pipe, unless
//     the kernel made one of two that waited in this process. Of these words none is kept that
//     is of a signal as those that waited, or a later one to this process alone would be taken for
//     one to the group. Others may be of signals that a thread has, and not yet told of.
//
// A program that ends at once has no witness: it takes longer to make than other parts of a start.
// A signal to the group that comes before is passed on as well.

const (
	fromWitness = 0x77697401 // behind a siginfo_t, where the kernel stores zeros
	allTold     = 0x77697402
	question    = signals // a real-time one, so that one that somebody sends is not taken for it
	notYet      = -1
	mostWords   = 1024 // more than a pipe holds

	// brief is how long a program runs that has no witness.
	brief = 20 * time.Millisecond

	// patience is how long the witness is waited for. One that is not there by then has been
	// stopped or traced by somebody: from then on all is passed on.
	patience = time.Second
)

// witnessName is that of the process, at most 15 bytes and a zero.
//
//lint:ignore U1000 read by witness_amd64.s
var witnessName = [...]byte{'d', 'y', 'n', 'p', 'r', 'o', 'f', '-', 'w', 'i', 't', 'n', 'e', 's', 's', 0}

// stackAtStart is where the kernel has put the number of arguments, and they follow; stored
// by entry_amd64.s.
var stackAtStart uintptr

// bear makes a witness that writes to that descriptor. The number is that of an error if it is
// negative.
func bear(to int) (pid int)

// haveWitness makes it, and has the threads that there are but this one block signals: those
// that come to hotspots are then in the pipe as soon as this thread looks. Threads to come block
// them when they get one (hotspots_caught).
func (r *relay) haveWitness() {
	if r.witness = bear(int(caught.to)); r.witness < 0 {
		return
	}
	caught.thread = int32(syscall.Gettid())
	if Started() != nil { // they do
		return
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil && tid != syscall.Gettid() {
			syscall.Tgkill(os.Getpid(), tid, toOthers)
		}
	}
}

// word is what of a signal is the same for all of a group.
type word struct {
	signal syscall.Signal
	code   int
	sender int
}

func wordOf(info *[infoSize]byte) word {
	field := func(at int) int { return int(int32(binary.LittleEndian.Uint32(info[at:]))) }
	return word{syscall.Signal(field(0)), field(8), field(16)}
}

// tagOf is who wrote that to the pipe: 0 for the handler of this process.
func tagOf(info *[infoSize]byte) int { return int(binary.LittleEndian.Uint64(info[infoSize-8:])) }

// take takes what was read from the pipe.
func (r *relay) take(info *[infoSize]byte) {
	switch w := wordOf(info); {
	case tagOf(info) == allTold:
		r.told = len(r.words)
	case tagOf(info) == fromWitness:
		if len(r.waiting) == 0 && len(r.words) >= mostWords { // of what the program sends its group
			r.words = nil
		}
		r.words, r.lastWord = append(r.words, w), time.Now()
	case w.signal == 0: // it is to look again: see Hold
	case w == word{toOthers, byThread, os.Getpid()}:
	case w.code <= byUser && w.code != byThread && !r.isOurs(w.sender) && r.witness > 0:
		r.waiting = append(r.waiting, *info)
		if w.signal == syscall.SIGCONT { // it may have been stopped with this process
			syscall.Kill(r.witness, syscall.SIGCONT)
		}
	default:
		r.pass(info)
	}
}

// read reads what the pipe has, if that does not grow without end.
func (r *relay) read() {
	const most = 1024
	var info [infoSize]byte
	for range most {
		n, err := syscall.Read(r.from, info[:])
		switch {
		case n == infoSize: // writes of that size are whole
			r.take(&info)
		case err != syscall.EINTR:
			return
		}
	}
}

// decide passes on what waits, but for what went to the group. What has come meanwhile, and is
// not known to have, goes on waiting.
func (r *relay) decide() {
	before := len(r.waiting)
	if before == 0 {
		return
	}
	if time.Since(r.lastWord) > patience { // of a signal for which the pipe had no room
		r.words = nil
	}
	if !r.together() || !r.ask() {
		r.words, r.told, before = nil, 0, len(r.waiting)
	}
	words, later := r.words[:r.told], slices.Clone(r.words[r.told:])
	left, decided := [][infoSize]byte(nil), []word(nil)
	for i, info := range r.waiting {
		w := wordOf(&info)
		switch at := slices.Index(words, w); {
		case at >= 0:
			words = slices.Delete(words, at, at+1)
			r.heed(w.signal)
		case i < before:
			r.pass(&info)
		default:
			left = append(left, info)
			continue
		}
		decided = append(decided, w)
	}
	words = slices.DeleteFunc(words, func(w word) bool { return slices.Contains(decided, w) })
	r.waiting, r.words = left, append(words, later...)
}

// together reports whether the program gets what the group does, and the witness, too. Where
// it has left, as it can since it is not the first of the group, it is passed all that comes.
func (r *relay) together() bool {
	if r.witness <= 0 {
		return false
	}
	group := syscall.Getpgrp()
	for _, pid := range []int{r.pid, r.witness} {
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			return false
		}
	}
	return true
}

// ask has the witness tell all, and reads it. It reports whether it has.
func (r *relay) ask() bool {
	const pause = 20 * time.Millisecond
	r.told = notYet
	for end, first := time.Now().Add(patience), true; r.told == notYet; r.read() {
		if gone, err := syscall.Wait4(r.witness, nil, unix.WALL|unix.WNOHANG, nil); gone != 0 || err != nil {
			r.witness = -1
			return false
		}
		if first {
			syscall.Kill(r.witness, syscall.Signal(question))
			first = false
		}
		if time.Now().After(end) {
			r.dismiss()
			return false
		}
		await(r.from, pause)
	}
	r.read() // what the kernel sent until then is here
	return true
}

// dismiss ends the witness; there will be no other.
func (r *relay) dismiss() {
	if r.witness > 0 {
		syscall.Kill(r.witness, syscall.SIGKILL)
		syscall.Wait4(r.witness, nil, unix.WALL, nil)
	}
	r.witness = -1
}
