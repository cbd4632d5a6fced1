package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/objcode"
)

// WriteJSON writes one JSON object: the fields of head, then the list under
// its name, one entry a line. <, > and & stay as they are.
func WriteJSON[T any](w io.Writer, head any, name string, list []T) error {
	fields, err := marshal(head)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s,\"%s\":[", bytes.TrimSuffix(fields, []byte("}")), name)
	for i, entry := range list {
		line, err := marshal(entry)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(line)
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// head is how every JSON of a report begins.
type head struct {
	Schema int `json:"schema"`
	Program
	Programs []Program `json:"programs,omitempty"` // if there are several
}

func (r *Report) head() head {
	h := head{Schema: Schema, Program: r.Program}
	if len(r.Programs) > 1 {
		h.Programs = r.Programs
	}
	return h
}

// JSON writes the functions.
func (r *Report) JSON(w io.Writer) error { return WriteJSON(w, r.head(), "functions", r.Functions) }

// ObjectJSON writes the objects.
func (r *Report) ObjectJSON(w io.Writer, objects []*Object) error {
	return WriteJSON(w, r.head(), "objects", objects)
}

// CoverageJSON writes the coverage.
func (r *Report) CoverageJSON(w io.Writer, all []*Coverage) error {
	return WriteJSON(w, struct {
		head
		Total *Coverage `json:"total"`
	}{r.head(), Sum(all)}, "objects", all)
}

// CSV writes the functions; aliases are separated by semicolons.
func (r *Report) CSV(w io.Writer) error {
	rows := [][]string{{"object", "build_id", "address", "name", "aliases", "size", "calls", "hot", "source", "tactic", "reason"}}
	if r.TotalInstructions != nil {
		rows[0] = append(rows[0], "instructions")
	}
	if r.TotalAccesses != nil {
		rows[0] = append(rows[0], accessFields...)
	}
	if r.Observed > 0 {
		rows[0] = append(rows[0], "observed_calls")
	}
	if r.HasTime() {
		rows[0] = append(rows[0], timeFields...)
	}
	if r.HasLines {
		rows[0] = append(rows[0], "file", "line", "inlined")
	}
	for _, f := range r.Functions {
		row := []string{
			f.Object, f.BuildID, f.Address.String(), f.Name, strings.Join(f.Aliases, ";"), strconv.FormatUint(uint64(f.Size), 10),
			strconv.FormatUint(f.Calls, 10), strconv.FormatBool(f.Hot), f.Source, f.Tactic, f.Reason,
		}
		if n := f.Instructions; n != nil {
			row = append(row, strconv.FormatUint(*n, 10))
		} else if r.TotalInstructions != nil {
			row = append(row, "")
		}
		if r.TotalAccesses != nil {
			row = append(row, accessColumns(f.Accesses)...)
		}
		if r.Program.Observed > 0 {
			row = append(row, f.observedCalls())
		}
		if r.HasTime() {
			row = append(row, f.fields()...)
		}
		if r.HasLines {
			row = append(row, f.File, strconv.Itoa(f.Line), strings.Join(f.Inlined, ";"))
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// observedCalls is empty where instructions are of all calls, or not known.
func (f *Function) observedCalls() string {
	if f.Observed == nil {
		return ""
	}
	return strconv.FormatUint(*f.Observed, 10)
}

// Names writes the names of functions that were called, a line each.
func (r *Report) Names(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, f := range r.Functions {
		if f.Calls > 0 {
			fmt.Fprintln(out, f.Name)
		}
	}
	return out.Flush()
}

// accessFields are the columns of accesses.
var accessFields = []string{"loads", "stores", "modifies", "atomics", "load_bytes", "store_bytes", "untold_accesses"}

func accessColumns(a *objcode.Accesses) (row []string) {
	if a == nil {
		return make([]string, len(accessFields))
	}
	for _, n := range a.Fields() {
		row = append(row, strconv.FormatUint(*n, 10))
	}
	return row
}

// timeFields are the columns of a time.
var timeFields = []string{"self_ns", "self_ns_low", "self_ns_high"}

func (t *SelfTime) fields() []string {
	if t == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatUint(t.Self, 10), strconv.FormatUint(t.Low, 10), strconv.FormatUint(t.High, 10)}
}

// ObjectCSV writes the objects.
func (r *Report) ObjectCSV(w io.Writer, objects []*Object) error {
	rows := [][]string{{"object", "build_id", "functions", "counted", "called", "calls"}}
	if r.HasTime() {
		rows[0] = append(rows[0], timeFields...)
	}
	for _, o := range objects {
		row := []string{o.Object, o.BuildID, fmt.Sprint(o.Functions), fmt.Sprint(o.Counted), fmt.Sprint(o.Called), fmt.Sprint(o.Calls)}
		if r.HasTime() {
			row = append(row, o.fields()...)
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// CoverageCSV writes one line for each object and word: a tactic, a reason,
// an exclusion, or not-selected.
func CoverageCSV(w io.Writer, all []*Coverage) error {
	rows := [][]string{{"object", "build_id", "class", "word", "functions"}}
	for _, c := range all {
		for _, class := range []struct {
			name   string
			counts map[string]int
		}{
			{"counted", c.Tactics}, {"uncounted", c.Uncounted}, {"not-selected", map[string]int{notSelected: c.NotSelected}}, {"excluded", c.Excluded},
		} {
			for _, word := range sortedByCount(class.counts) {
				if n := class.counts[word]; n > 0 {
					rows = append(rows, []string{c.Object, c.BuildID, class.name, word, fmt.Sprint(n)})
				}
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// sortedByCount lists the keys, the largest count first.
func sortedByCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}
