package setting

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the first columns of docs/environment.md")

const environmentDoc = "../../docs/environment.md"

// TestTable: what holds of all rows.
func TestTable(t *testing.T) {
	flags, variables := map[string]bool{}, map[string]bool{}
	for i := range All {
		s := &All[i]
		if s.Variable == "" || variables[s.Variable] || s.Flag != "" && flags[s.Flag] {
			t.Errorf("row %d: %+v", i, s)
		}
		flags[s.Flag], variables[s.Variable] = true, true
		if want := "DYNPROF_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_")); s.Flag != "" && s.Variable != want {
			t.Errorf("--%s stands for %s, not %s", s.Flag, s.Variable, want)
		}
		if (s.Flag == "") != (s.Help == "") || s.Flag == "" && (s.Bisect != "" || s.Short != "" || s.Kind == Switch) {
			t.Errorf("--%s: %+v", s.Flag, s)
		}
		if id, known := OfVariable(s.Variable); !known || id != ID(i) {
			t.Errorf("%s is setting %d, %v; not %d", s.Variable, id, known, i)
		}
		if IsSwitch(s.Flag) != (s.Kind == Switch || ID(i) == Heat) {
			t.Errorf("--%s is a switch: %v", s.Flag, IsSwitch(s.Flag))
		}
	}
	for _, name := range []string{"", "DYNPROF_", "DYNPROF_LOC", "DYNPROF_LOCKS", "dynprof_lock", "XDG_RUNTIME_DIR"} {
		if id, known := OfVariable(name); known {
			t.Errorf("%q is setting %d", name, id)
		}
	}
}

func TestSwitches(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "00": true, "no": true, " ": true} {
		if IsOn(value) != want {
			t.Errorf("%q is on: %v", value, !want)
		}
	}
	var s Switches
	s[KeepCalls], s[FollowExec] = true, true
	if got := s.Flags(); !slices.Equal(got, []string{"--follow-exec", "--keep-calls"}) {
		t.Errorf("flags %q", got)
	}
	values := map[ID]string{Only: "x"}
	s.Values(values, func(s *Setting) bool { return s.Bisect != "" })
	if got, want := fmt.Sprint(values), fmt.Sprint(map[ID]string{Only: "x", FollowExec: "1", AllowTraps: "", KeepCalls: "1", Blocks: "", Edges: "", Trips: ""}); got != want {
		t.Errorf("values %s, want %s", got, want)
	}
}

// TestEnvironmentDoc: docs/environment.md has a row for each setting, in this order, with
// its flag; of a switch it says what 1 means. With -update missing rows are made, of the
// flag's help.
func TestEnvironmentDoc(t *testing.T) {
	b, err := os.ReadFile(environmentDoc)
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile("(?m)(^\\| `DYNPROF_[^\n]*\n)+").FindString(string(b))
	meaning := map[string]string{} // of a variable: the last two columns
	for _, row := range regexp.MustCompile("(?m)^\\| `(DYNPROF_\\w+)` \\|[^|]*(\\|.*)$").FindAllStringSubmatch(table, -1) {
		meaning[row[1]] = row[2]
	}
	want := ""
	for i := range All {
		want += All[i].row(meaning[All[i].Variable])
		left := "| off |"
		if Usual[i] {
			left = "; `hotspots run`: 1 |"
		}
		if m := meaning[All[i].Variable]; All[i].Kind == Switch && m != "" && !(strings.HasPrefix(m, "| 1: ") && strings.HasSuffix(m, left)) {
			t.Errorf("%s: it does not say what 1 means, or what is if nobody says: %s", All[i].Variable, m)
		}
	}
	if *update {
		if err := os.WriteFile(environmentDoc, []byte(strings.Replace(string(b), table, want, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("%s is stale: run go generate ./internal/setting\n%s", environmentDoc, want)
	}
}

func (s *Setting) row(meaning string) string {
	flags := ""
	if s.Short != "" {
		flags = "`-" + s.Short + "`, "
	}
	if s.Flag != "" {
		flags += "`--" + s.Flag + "` "
	}
	switch {
	case meaning != "":
	case s.Kind == Switch:
		meaning = "| 1: " + s.Help + " | off |"
	default:
		meaning = "| " + s.Help + " | none |"
	}
	return fmt.Sprintf("| `%s` | %s%s\n", s.Variable, flags, meaning)
}
