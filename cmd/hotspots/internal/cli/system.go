package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/system"
)

// systemCoverage plans all files below dirs.
func (a *app) systemCoverage(dirs []string, want system.Options, format, list string) error {
	if words := system.Reasons(); list != "" && !slices.Contains(words, list) {
		return usage("--list %s: it is one of %s", list, strings.Join(words, ", "))
	}
	if len(dirs) == 0 {
		return usage("name directories: hotspots coverage --system /usr/bin /usr/lib/x86_64-linux-gnu")
	}
	begin := time.Now()
	files, err := system.Find(dirs)
	if err != nil {
		return err
	}
	bar := a.bar(files)
	plans, errs := system.PlanAll(files, want, func(f system.Found) { bar.Add64(f.Size) })
	bar.Finish()
	s := system.Summarize(plans, errs)
	for _, err := range s.Broken {
		a.say("%v", err)
	}
	switch format {
	case "json":
		return s.JSON(a.stdout)
	case "csv":
		return s.CSV(a.stdout)
	}
	return s.Text(a.stdout, time.Since(begin), list)
}

// bar shows progress through the files' bytes, on a terminal only.
func (a *app) bar(files []system.Found) *progressbar.ProgressBar {
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	return a.bytesBar(total, fmt.Sprintf("planning %d files", len(files)))
}
