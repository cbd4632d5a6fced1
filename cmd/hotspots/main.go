// The Makefile names a version of the FIPS module, which would turn the mode on. Limits
// of cgroups for CPUs take longer to find out at a start than they matter here.
//
//go:debug fips140=off
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command hotspots counts every call of a program's functions and shows the
// counts. See docs/ and hotspots --help.
package main

import (
	"embed"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cli"
	"github.com/dynprof/dynprof/cmd/hotspots/internal/launch"
	_ "github.com/dynprof/dynprof/cmd/hotspots/internal/resume"
)

// embedded holds libdynprof.so, its resident part by itself, and the program of hotspots
// selftest, if the build has put them there.
//
//go:embed embed
var embedded embed.FS

// The first thread is that of whoever traces a program, and of whoever waits for it: it has as its
// children those that the kernel gives to this process, too, and no other thread has.
func init() { runtime.LockOSThread() }

func main() {
	known, _ := embedded.ReadFile("embed/known") // none in a build without make
	resident, _ := embedded.ReadFile("embed/resident.so")
	os.Exit(cli.Main(os.Args[1:], library(), known, resident))
}

// library is the one that this binary carries, or nil: run then asks for --library.
// It is read where it lies: a copy of its 4 MB would have every command collect garbage.
func library() *launch.Carried {
	f, err := embedded.Open("embed/libdynprof.so")
	if err != nil {
		return nil
	}
	info, err := f.Stat()
	content, ok := f.(io.ReaderAt)
	sum, noSum := embedded.ReadFile("embed/libdynprof.so.sha256")
	if err != nil || !ok || noSum != nil {
		return nil
	}
	return &launch.Carried{SectionReader: io.NewSectionReader(content, 0, info.Size()), Sum: strings.TrimSpace(string(sum))}
}
