package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// writeDocs puts the figures of a run into a document, between markers, the
// charts into img/ beside it, and the figures themselves beside it, too, for
// later runs to be compared with.
func writeDocs(document, out string) error {
	f, err := readFigures(filepath.Join(out, "figures.json"))
	if err != nil {
		return fmt.Errorf("%w: run make bench first", err)
	}
	if f.Quick {
		return fmt.Errorf("the figures in %s are of a quick run", out)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	updated, err := fill(string(text), f)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	if err := os.WriteFile(document, []byte(updated), 0o644); err != nil {
		return err
	}
	if err := f.write(strings.TrimSuffix(document, ".md") + ".json"); err != nil {
		return err
	}
	images := filepath.Join(filepath.Dir(document), "img")
	return drawCharts(f, images)
}

// fill replaces what stands between <!-- figures NAME --> and <!-- end -->.
func fill(text string, f *figures) (string, error) {
	const begin, end = "<!-- figures ", "<!-- end -->"
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, begin)
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, _, ok := strings.Cut(after, " -->\n")
		_, rest, ended := strings.Cut(after, end)
		if !ok || !ended {
			return "", fmt.Errorf("a marker is cut short: %.40q", after)
		}
		found := false
		for _, s := range sections {
			if s.name == name {
				fmt.Fprintf(&b, "%s%s -->\n%s%s", begin, name, s.text(f), end)
				found = true
			}
		}
		if !found {
			return "", fmt.Errorf("no section is called %q", name)
		}
		text = rest
	}
}

// chart is what bench/chart draws: a bar for each series in each group.
type chart struct {
	Title  string   `json:"title"`
	Axis   string   `json:"axis"`
	Log    bool     `json:"log"`
	Groups []string `json:"groups"`
	Series []series `json:"series"`
}

// series has a value for each group, and the interval around it; nil is none.
type series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
	Low    []*float64 `json:"low"`
	High   []*float64 `json:"high"`
}

// drawCharts draws SVG files. The library that draws is in a module of its own.
func drawCharts(f *figures, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, c := range charts(f) {
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		path, err := filepath.Abs(filepath.Join(dir, name+".svg"))
		if err != nil {
			return err
		}
		p := exec.Command("go", "run", "-C", "bench/chart", ".", path)
		p.Stdin, p.Stderr = strings.NewReader(string(b)), os.Stderr
		if err := p.Run(); err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
	}
	return nil
}

func charts(f *figures) map[string]chart {
	var all, limited []string
	for _, w := range f.Works {
		if w.Skipped == "" {
			all = append(all, w.Name)
		}
		if f.best(w.Name) != nil {
			limited = append(limited, w.Name)
		}
	}
	names := []string{dynprof.name, kept.name}
	for _, s := range styles {
		names = append(names, s.name)
	}
	ratio := func(r *result) spread { return r.Ratio }
	added := func(r *result) spread { return r.AddedNS }
	return map[string]chart{
		"bench-ratios":  {"CPU time, times native", "times native", true, all, f.series(all, besides(), ratio)},
		"bench-dynprof": {"CPU time with dynprof", "times native", false, all, f.series(all, []string{dynprof.name, kept.name}, ratio)},
		"bench-limit":   {"Beside stubs by hand", "ns added to a call", false, limited, f.series(limited, names, added)},
	}
}

func (f *figures) series(groups, names []string, value func(*result) spread) []series {
	var all []series
	for _, n := range names {
		s, any := series{Name: n}, false
		for _, g := range groups {
			var v, low, high *float64
			if r := f.result(g, n); r != nil && !r.Short {
				x := value(r)
				v, low, high, any = &x.Median, &x.Low, &x.High, true
			}
			s.Values, s.Low, s.High = append(s.Values, v), append(s.Low, low), append(s.High, high)
		}
		if any {
			all = append(all, s)
		}
	}
	return all
}
