package exporter

import (
	"fmt"
	"io"
	"math"

	"github.com/prometheus/common/expfmt"

	"github.com/dynprof/dynprof/internal/table"
)

// WriteFiles writes what an endpoint of the programs that count into the tables at these
// paths would answer at this moment, in OpenMetrics, but with a series for every function
// that has been called. Programs of one path and number cannot be told apart, which is an
// error.
func WriteFiles(w io.Writer, paths []string, opt Options) error {
	f, all := newFamilies(), &query{top: math.MaxInt32}
	var reading table.Reading
	seen := map[[2]string]string{} // paths by labels
	for _, path := range paths {
		m, err := table.OpenMeter(path)
		if err != nil {
			return err
		}
		label := labelsOf(m)
		if other, ok := seen[label]; ok {
			m.Close()
			return fmt.Errorf("%s and %s are both of process %s of %s, and the labels program and pid would not tell them apart: write each to a file of its own", other, path, label[1], label[0])
		}
		seen[label] = path
		p := newProgram(m, opt, pair("program", label[0]), pair("pid", label[1]))
		_, err = p.read(f, all, &reading, math.MaxInt32)
		p.close()
		if err != nil {
			return err
		}
	}
	return encode(w, f.all(), expfmt.NewFormat(expfmt.TypeOpenMetrics))
}
