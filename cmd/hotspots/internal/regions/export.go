package regions

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dynprof/dynprof/internal/table"
	"github.com/dynprof/dynprof/internal/table/regions"
)

// Formats are those of Export: a line for each access, with all that is known of it; what
// valgrind's lackey writes with --trace-mem=yes; what Dinero IV reads as din.
var Formats = []string{"csv", "lackey", "din"}

// Export writes each access, in the order in which threads came to them.
func Export(w io.Writer, t *table.Table, format string, mangled bool) error {
	f, err := File(t)
	if err != nil {
		return err
	}
	between := marksOf(f)
	csvLine, markLine := csvLines(newPlaces(t, mangled), &between)
	line := map[string]func(w io.Writer, n uint64, a *regions.Access, s *regions.Site){"csv": csvLine, "lackey": lackeyLine, "din": dinLine}[format]
	out := bufio.NewWriterSize(w, 1<<16)
	if format == "csv" {
		fmt.Fprintln(out, "number,region,thread,address,size,kind,atomic,instruction,object,offset,function,name,value,time_ns")
	}
	n := uint64(0)
	err = f.Walk(func(a *regions.Access) {
		n++
		s := f.Sites[a.Site]
		line(out, n, a, &s)
	}, func(e *regions.Event) {
		if m := between.of(e); m != nil && format == "csv" { // others have no place for it
			markLine(out, m)
		}
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// csvLines writes lines with what is known of where an instruction is: its object, its address in that
// object's file, its function; empty if it is in none. Those of marks have a kind of their own, a name
// and a value.
func csvLines(p *places, between *marks) (access func(w io.Writer, n uint64, a *regions.Access, s *regions.Site), mark func(w io.Writer, m *Mark)) {
	where := map[uint64]string{}
	access = func(w io.Writer, n uint64, a *regions.Access, s *regions.Site) {
		at, have := where[s.Address]
		if !have {
			at = behind(p.of(s.Address))
			where[s.Address] = at
		}
		fmt.Fprintf(w, "%d,%d,%d,0x%x,%d,%s,%t,0x%x,%s,,,%s\n", n, a.Region, a.Thread, a.Address, s.Size, kindOf(s), s.Atomic, s.Address, at, nanoseconds(between.now))
	}
	mark = func(w io.Writer, m *Mark) {
		fmt.Fprintf(w, ",,%d,,,%s,,,,,,%s,%d,%s\n", m.Thread, m.Kind, fields(m.Name), m.Value, nanoseconds(m.Time))
	}
	return access, mark
}

// behind are the last columns of a line.
func behind(p place) string {
	if p.object == unknown {
		return ",,"
	}
	if p.function == unknown {
		p.function = ""
	}
	return fields(p.object, fmt.Sprintf("0x%x", p.address), p.function)
}

// nanoseconds is a time; empty if it is not known.
func nanoseconds(at *uint64) string {
	if at == nil {
		return ""
	}
	return strconv.FormatUint(*at, 10)
}

// fields are columns of a line.
func fields(all ...string) string {
	if len(all) == 1 && all[0] == "" {
		return "" // which would be ""
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(all) // to memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func lackeyLine(w io.Writer, _ uint64, a *regions.Access, s *regions.Site) {
	kind := map[string]string{"load": "L", "store": "S", "both": "M"}[kindOf(s)]
	fmt.Fprintf(w, " %s %08x,%d\n", kind, a.Address, s.Size)
}

func dinLine(w io.Writer, _ uint64, a *regions.Access, s *regions.Site) {
	if s.Load {
		fmt.Fprintf(w, "0 %x\n", a.Address)
	}
	if s.Store {
		fmt.Fprintf(w, "1 %x\n", a.Address)
	}
}
