package test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/lane"
)

// TestUntold: coverage says how much code lies in no function, of labels that
// assembly leaves without a type, and of libcrypto's; of what gcc makes none does.
func TestUntold(t *testing.T) {
	lane.Parallel(t)
	labels := compile(t, need(t, "gcc"), []string{"-g0"}, "untyped.S")
	stripped := compile(t, need(t, "gcc"), []string{"-s"}, "untyped.S")
	told := compile(t, need(t, "gcc"), []string{"-s"}, "leaves.c")
	openssl := []string{need(t, "openssl"), "version"}
	for _, row := range []struct {
		args        []string
		object      string
		least, most uint64
	}{
		{[]string{labels}, labels, 30, 30},
		{[]string{stripped}, stripped, 30, 30},
		{[]string{told}, told, 0, 0},
		{openssl, "libcrypto.so", 1000, 1 << 20},
	} {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			without := run(t, cmd(row.args...))
			for _, flags := range lane.Some(variants, 0, 3) {
				with, table := countedAt(t, cmd(row.args...), flags...)
				same(t, without, with)
				if n := untold(t, table, row.object); n < row.least || n > row.most {
					t.Errorf("%v: %d bytes of %s in no function, not %d to %d", flags, n, row.object, row.least, row.most)
				}
				text := run(t, cmd(build(t, "hotspots"), "coverage", table)).stdout
				_, line, _ := strings.Cut(text, row.object)
				line, _, _ = strings.Cut(line, "\n")
				_, total, _ := strings.Cut(text, "\ntotal: ")
				const note = "bytes of code in no function"
				if says := row.least > 0; strings.Contains(line, note) != says || says && !strings.Contains(total, note) {
					t.Errorf("%v: %s", flags, text)
				}
			}
		})
	}
	out := run(t, cmd(build(t, "hotspots"), "coverage", "--system", labels))
	if !strings.Contains(out.stdout, "code in no function: 30 of ") {
		t.Errorf("--system: %s%s", out.stdout, out.stderr)
	}
}

// untold is what coverage says of an object.
func untold(t *testing.T, table, object string) uint64 {
	t.Helper()
	out := run(t, cmd(build(t, "hotspots"), "coverage", "--format", "json", table))
	var c struct {
		Objects []struct {
			Object string
			Code   uint64 `json:"code_bytes"`
			Untold uint64 `json:"untold_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &c); err != nil {
		t.Fatal(err, out.stderr)
	}
	for _, o := range c.Objects {
		if strings.Contains(o.Object, object) && o.Code > o.Untold {
			return o.Untold
		}
	}
	t.Fatalf("no %s: %s", object, out.stdout)
	return 0
}
