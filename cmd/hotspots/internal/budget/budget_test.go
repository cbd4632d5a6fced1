package budget

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/match"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
)

func TestLimit(t *testing.T) {
	const most = math.MaxUint64
	for _, row := range []struct {
		text         string
		before, want uint64
	}{
		{"10%", 0, 0}, {"10%", 9, 9}, {"10%", 10, 11}, {"10%", 1000, 1100}, {"0.001%", 100_000, 100_001}, {"0.001%", 99_999, 99_999},
		{"+1000", 5, 1005}, {"+0", 5, 5}, {"0%", 5, 5}, {"10%+1000", 1000, 2100}, {"500", 1000, 500}, {"0", 7, 0}, {"any", 1, most},
		{"100%", most, most}, {"1000000000%", most, most}, {"1000000000%", 1 << 40, 1<<40 + 10_000_000<<40}, {"+18446744073709551615", 3, most},
	} {
		l, err := parseLimit(row.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.of(row.before); got != row.want {
			t.Errorf("%s of %d: %d, not %d", row.text, row.before, got, row.want)
		}
	}
	for _, bad := range []string{"", "%", "x", "10%1000", "-1", "+", "10%+", "NaN%", "-5%", "Inf%", "1e10%", "10 %", "+-1", "18446744073709551616"} {
		if l, err := parseLimit(bad); err == nil {
			t.Errorf("%q is %+v", bad, l)
		}
	}
}

// TestJudge: the last rule that matches counts; what is new is judged by @new and limits of
// its own only; a rule of nobody is told.
func TestJudge(t *testing.T) {
	change := func(name string, before, after uint64, by match.By) *report.Change {
		return &report.Change{Name: name, Before: before, After: after, Delta: int64(after - before), Match: by}
	}
	d := &report.Diff{
		Before: report.Program{TotalCalls: 1000}, After: report.Program{TotalCalls: 1200},
		Functions: []*report.Change{
			change("a", 100, 111, match.ByName), change("b", 100, 110, match.ByName), change("operator==(int)", 0, 1, match.ByAddress),
			change("fresh", 0, 50, match.New), change("dropped", 90, 0, match.Gone),
		},
	}
	for _, row := range []struct {
		all, file    string
		over, unused []string
	}{
		{"10%", "", []string{"all calls", "a", "operator==(int)"}, nil},
		{"10%+1", "", []string{"all calls"}, nil},
		{"", "*=10%", []string{"a", "operator==(int)"}, nil},
		{"10%", "# not a\n\n a = any\r\n@total=+200\noperator==*=1\n", nil, nil},
		{"10%", "*=any\n@total=any", nil, nil},
		{"", "@new=49", []string{"fresh"}, nil},
		{"", "fresh=10%", nil, nil},
		{"", "fresh=49", []string{"fresh"}, nil},
		{"", "b=109\na=+10", []string{"a", "b"}, nil},
		{"", "?=5%\nb=any", []string{"a"}, nil},
		{"", "a=any\nnobody=1\nb*=any", nil, []string{"f:2: nobody"}},
	} {
		b := &Budget{}
		if row.all != "" {
			if err := b.All(row.all); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Read("f", strings.NewReader(row.file)); err != nil {
			t.Fatal(err)
		}
		broken, unused := b.Judge(d)
		var over []string
		for _, line := range broken {
			name, _, _ := strings.Cut(line, ": ")
			over = append(over, name)
		}
		if !slices.Equal(over, row.over) || !slices.Equal(unused, row.unused) {
			t.Errorf("%q %q: %q, unused %q", row.all, row.file, broken, unused)
		}
	}
	for _, bad := range []string{"a", "=5", "a=", "a=b", "@old=5", strings.Repeat("x", longest+1)} {
		if err := (&Budget{}).Read("f", strings.NewReader(bad)); err == nil || !strings.HasPrefix(err.Error(), "f") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a=10%\n# b\n@new=0\noperator==(int)=+5")
	f.Fuzz(func(t *testing.T, text string) {
		b := &Budget{}
		if b.Read("f", strings.NewReader(text)) == nil {
			b.Judge(&report.Diff{Functions: []*report.Change{{Name: "a", Before: 1, After: 2}}})
		}
	})
}
