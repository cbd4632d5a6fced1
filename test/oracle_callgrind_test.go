package test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What callgrind calls a call (callgrind/bbcc.c, setup_bbcc of Valgrind 3.19)
// and how that corresponds to ours:
//
//   - A call instruction. The same; also to an address between entries (call
//     .+5), which is no arrival at an entry: the target's address tells.
//   - A jump to the first instruction of a symbol, and a return that matches no
//     call and leads there. The same, but for jumps from the function's own
//     body or cold part, which are loops: the place of the jump tells.
//   - A return that matches no call and leads elsewhere (longjmp, unwinding) is
//     a call of the function returned to: the target's address tells.
//   - It cannot see that control falls from one function into the next, and
//     signal handlers come out of nowhere: the caller names those.
//
//   - Valgrind knows no symbols without a size, so that it cannot see a jump to
//     one: register_tm_clones of the C runtime.
//
// So the counts are by target address, of `calls=` lines written with
// --dump-instr=yes. Addresses are link-time addresses.

// callgrindSees is the comparison for a program. unseen calls are made by
// signals and by falling into a function.
func callgrindSees(unseen map[string]uint64, uncounted map[string]string) comparison {
	all := map[string]uint64{"register_tm_clones": 1}
	maps.Copy(all, unseen)
	return comparison{
		exempt:    map[string]string{"resolve": "an IFUNC resolver runs before our constructor"},
		unseen:    all,
		uncounted: uncounted,
	}
}

// callgrindCall is a line calls= with what it refers to.
type callgrindCall struct {
	object       string // of the callee
	caller       string // object of the site
	function     string // of the callee, with 'N for the Nth level of recursion
	site, target uint64
	calls        uint64
}

// underCallgrind runs c and returns the calls of an object's functions.
func underCallgrind(t *testing.T, c command, object string, symbols *symbolTable) (result, truth) {
	t.Helper()
	valgrind := need(t, "valgrind")
	path := filepath.Join(t.TempDir(), "callgrind")
	c.args = append([]string{valgrind, "-q", "--tool=callgrind", "--callgrind-out-file=" + path,
		"--dump-instr=yes", "--compress-strings=no", "--compress-pos=no", "--separate-callers=0"}, c.args...)
	got := run(t, c)
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("callgrind: %v\n%s", err, got.stderr)
	}
	defer f.Close()
	calls, err := parseCallgrind(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	return got, callgrindTruth(calls, object, symbols)
}

// callgrindTruth sums up the arrivals at the object's entries.
func callgrindTruth(calls []callgrindCall, object string, symbols *symbolTable) truth {
	counts := truth{}
	for _, c := range calls {
		if c.object != object || symbols.functions[c.target] == nil {
			continue
		}
		if c.caller == object && symbols.body(c.site, c.target) && !symbols.isCall(c.site) {
			continue
		}
		counts[c.target] += c.calls
	}
	return counts
}

// parseCallgrind reads the calls of a profile with uncompressed names and
// positions `instr line` (Valgrind manual, "Callgrind Format Specification"):
//
//	ob=OBJECT          of the following lines
//	cob=OBJECT         of the callee, if it is another
//	cfn=FUNCTION
//	calls=COUNT TARGET LINE
//	SITE LINE COST
//
// and with --collect-jumps=yes, where control went but for calls:
//
//	job=OBJECT         of the target, if it is another
//	jump=COUNT TARGET LINE
//	jcnd=COUNT/RUNS TARGET LINE
//	SITE LINE
func parseCallgrind(r *bufio.Reader) ([]callgrindCall, error) {
	var calls []callgrindCall
	var object, callee, function string
	positions, site := false, false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		key, value, _ := strings.Cut(line, "=")
		var err error
		switch {
		case site:
			site = false
			_, err = fmt.Sscanf(line, "0x%x", &calls[len(calls)-1].site)
		case line == "positions: instr line":
			positions = true
		case key == "ob":
			object = value
		case key == "cob", key == "job":
			callee = value
		case key == "cfn":
			function = value
		case key == "calls", key == "jump", key == "jcnd":
			c := callgrindCall{object: callee, caller: object, function: function}
			if callee == "" {
				c.object = object
			}
			count, target, _ := strings.Cut(value, " ")
			count, _, _ = strings.Cut(count, "/")
			_, err = fmt.Sscanf(count+" "+target, "%d 0x%x", &c.calls, &c.target)
			calls = append(calls, c)
			callee, site = "", true
		}
		if err != nil {
			return nil, fmt.Errorf("callgrind: line %d: %q: %w", n, line, err)
		}
	}
	if !positions || len(calls) == 0 {
		return nil, fmt.Errorf("callgrind: %d calls, with instruction addresses: %t", len(calls), positions)
	}
	return calls, lines.Err()
}
