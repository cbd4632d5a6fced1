package system

import (
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/figures"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/report"
	"github.com/dynprof/dynprof/internal/ledger"
	"github.com/dynprof/dynprof/internal/symname"
)

// How much of the lists text shows unless all is asked for.
const (
	worstShown      = 10
	exceptionsShown = 25
)

// Text writes the sums, the percentiles, the worst files and the exceptions;
// with list, a reason or "all", every one of those exceptions.
func (s *Summary) Text(w io.Writer, took time.Duration, list string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s files, %s functions, %s counted (%s), planned in %.1f s\n", thousands(len(s.Files)), thousands(s.Functions),
		thousands(s.Counted()), report.Percent(s.Counted(), s.Functions), took.Seconds())
	report.WriteCounts(&b, "counted by", words(s.Tactics))
	report.WriteCounts(&b, "not counted", words(s.Uncounted))
	report.WriteCounts(&b, "excluded", words(s.Excluded))
	fmt.Fprintf(&b, "    coverage of the worst file %.2f%%, 1%% of the files %.2f%% or less, 5%% %.2f%%, 10%% %.2f%%, half %.2f%%\n",
		s.Percentile(0), s.Percentile(1), s.Percentile(5), s.Percentile(10), s.Percentile(50))
	if n := s.UntoldBytes(); n > 0 {
		fmt.Fprintf(&b, "    code in no function: %s of %s bytes (%.2f%%), in %s files\n",
			figures.Thousands(n), figures.Thousands(s.Code), float64(n)*100/float64(s.Code), thousands(len(s.Untold)))
	}
	s.Blocks.text(&b)
	for i, f := range s.Files {
		if i == worstShown || len(f.Exceptions) == 0 {
			break
		}
		if i == 0 {
			b.WriteString("worst files:\n")
		}
		fmt.Fprintf(&b, "    %6.2f%%  %6d of %6d not counted  %s\n", percent(f), len(f.Exceptions), f.Functions, symname.Clean(f.Path))
	}
	for i, f := range s.Untold {
		if i == worstShown {
			break
		}
		if i == 0 {
			b.WriteString("most code in no function:\n")
		}
		fmt.Fprintf(&b, "    %6.2f%%  %13s bytes  %s\n", float64(f.Untold)*100/float64(f.Code), figures.Thousands(f.Untold), symname.Clean(f.Path))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return s.exceptions(w, list)
}

func (s *Summary) exceptions(w io.Writer, list string) error {
	total, shown := 0, 0
	for _, f := range s.Files {
		for _, e := range f.Exceptions {
			if list != "" && list != All && list != e.Reason.String() {
				continue
			}
			if total++; list == "" && total > exceptionsShown {
				continue
			}
			if shown++; shown == 1 {
				fmt.Fprintln(w, "exceptions:")
			}
			_, err := fmt.Fprintf(w, "    %-18s %#10x %6d bytes  %-48s  %s %s\n", e.Reason, e.Addr, e.Size,
				hex.EncodeToString(e.Code[:min(len(e.Code), 24)]), symname.Clean(f.Path), symname.Clean(e.Name))
			if err != nil {
				return err
			}
		}
	}
	if shown < total {
		fmt.Fprintf(w, "    and %s more: --list all, or --format json\n", thousands(total-shown))
	}
	return nil
}

// All lists exceptions of every reason.
const All = "all"

func thousands(n int) string { return figures.Thousands(uint64(n)) }

func words[K interface {
	comparable
	fmt.Stringer
}](m map[K]int) map[string]int {
	out := map[string]int{}
	for k, n := range m {
		out[k.String()] = n
	}
	return out
}

// jsonObject is one file of the JSON form (docs/json.md).
type jsonObject struct {
	Object    string         `json:"object"`
	Functions int            `json:"functions"`
	Counted   int            `json:"counted"`
	Percent   float64        `json:"percent"`
	Tactics   map[string]int `json:"tactics"`
	Uncounted map[string]int `json:"uncounted"`
	Excluded  map[string]int `json:"excluded"`
	Code      uint64         `json:"code_bytes"`
	Untold    uint64         `json:"untold_bytes"`
	Blocks    *jsonBlocks    `json:"blocks,omitempty"`
}

type jsonException struct {
	Object  string `json:"object"`
	Address string `json:"address"`
	Name    string `json:"name"`
	Size    uint64 `json:"size"`
	Reason  string `json:"reason"`
	Bytes   string `json:"bytes"`
}

// JSON writes everything.
func (s *Summary) JSON(w io.Writer) error {
	out := struct {
		Schema      int             `json:"schema"`
		Files       int             `json:"files"`
		Functions   int             `json:"functions"`
		Counted     int             `json:"counted"`
		Percentiles map[string]any  `json:"percentiles"`
		Tactics     map[string]int  `json:"tactics"`
		Uncounted   map[string]int  `json:"uncounted"`
		Excluded    map[string]int  `json:"excluded"`
		Code        uint64          `json:"code_bytes"`
		Untold      uint64          `json:"untold_bytes"`
		Blocks      *jsonBlocks     `json:"blocks,omitempty"`
		Objects     []jsonObject    `json:"objects"`
		Exceptions  []jsonException `json:"exceptions"`
		Broken      []string        `json:"broken"`
	}{
		1, len(s.Files), s.Functions, s.Counted(), map[string]any{},
		words(s.Tactics), words(s.Uncounted), words(s.Excluded), s.Code, s.UntoldBytes(), s.Blocks.json(), []jsonObject{}, []jsonException{}, []string{},
	}
	for _, p := range []int{0, 1, 5, 10, 50} {
		out.Percentiles[strconv.Itoa(p)] = s.Percentile(p)
	}
	for _, f := range s.Files {
		out.Objects = append(out.Objects, jsonObject{f.Path, f.Functions, f.Counted(), percent(f), words(f.Tactics), words(f.Uncounted()), words(f.Excluded), f.Code, f.Untold, f.Blocks.json()})
		for _, e := range f.Exceptions {
			out.Exceptions = append(out.Exceptions, jsonException{f.Path, address(e), e.Name, e.Size, e.Reason.String(), hex.EncodeToString(e.Code)})
		}
	}
	for _, err := range s.Broken {
		out.Broken = append(out.Broken, err.Error())
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}

func address(e Exception) string { return fmt.Sprintf("%#x", e.Addr) }

// CSV writes the exceptions.
func (s *Summary) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write([]string{"object", "address", "name", "size", "reason", "bytes"})
	for _, f := range s.Files {
		for _, e := range f.Exceptions {
			c.Write([]string{f.Path, address(e), e.Name, strconv.FormatUint(e.Size, 10), e.Reason.String(), hex.EncodeToString(e.Code)})
		}
	}
	c.Flush()
	return c.Error()
}

// Reasons are the words that list takes.
func Reasons() []string {
	all := []string{All}
	for _, r := range ledger.Reasons() {
		if !r.Excluded() {
			all = append(all, r.String())
		}
	}
	return all
}
