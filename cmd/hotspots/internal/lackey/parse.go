package lackey

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/table/heat"
)

// access is what a line of the log tells: some bytes, and what was done with them. Those that were
// executed are one instruction.
type access struct {
	heat.What
	address, bytes uint64
}

// mostBytes is more than an instruction touches at one place: an xsave with tiles some 11 KB.
const mostBytes = 1 << 16

// space is the addresses that a program can have.
const space = heat.Pages * heat.PageSize

// parse reads a line, without its end: kind, address, hex digits, and bytes, as `I  0401ab70,3`.
func parse(line []byte) (a access, ok bool) {
	if len(line) < 3 {
		return a, false
	}
	switch string(line[:3]) {
	case "I  ":
		a.What = heat.WasExecuted
	case " L ":
		a.What = heat.WasRead
	case " S ":
		a.What = heat.WasWritten
	case " M ":
		a.What = heat.WasRead | heat.WasWritten
	default:
		return a, false
	}
	n := 3
	for ; n < len(line); n++ {
		digit := hex[line[n]]
		if digit == none {
			break
		}
		if a.address = a.address<<4 | uint64(digit); a.address >= space {
			return a, false
		}
	}
	if n == 3 || n+1 >= len(line) || line[n] != ',' {
		return a, false
	}
	for _, c := range line[n+1:] {
		if c < '0' || c > '9' {
			return a, false
		}
		if a.bytes = a.bytes*10 + uint64(c-'0'); a.bytes > mostBytes {
			return a, false
		}
	}
	return a, a.bytes > 0 && a.address+a.bytes <= space
}

const none = 0xff

// hex are the values of digits, and none of what is no digit.
var hex = func() (of [256]byte) {
	for i := range of {
		of[i] = none
	}
	for i, c := range "0123456789abcdef" {
		of[c] = byte(i)
	}
	return of
}()

// note reads one of the lines that valgrind itself writes, `==PID== text`, or with dashes or stars;
// they may have anything as text.
func note(line []byte) (pid int, text string, ok bool) {
	for _, mark := range []string{"==", "--", "**"} {
		rest, is := bytes.CutPrefix(line, []byte(mark))
		if !is {
			continue
		}
		number, rest, is := bytes.Cut(rest, []byte(mark))
		pid, err := strconv.ParseUint(string(number), 10, 31)
		return int(pid), strings.TrimSpace(string(rest)), is && err == nil
	}
	return 0, "", false
}
