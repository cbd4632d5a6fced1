package report

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestGlossary: docs/coverage.md explains every word that coverage says, and no other.
func TestGlossary(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	table := ""
	if m := regexp.MustCompile(`(?s)\n## The words\n(.*)$`).FindSubmatch(b); m != nil {
		table = string(m[1])
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1) {
		got = append(got, row[1])
	}
	want := Words()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("explained: %q\nsaid: %q", got, want)
	}
}
