// Command hotspots counts every call of a program's functions and shows the
// counts. See docs/ and hotspots --help.
package main

import (
	"embed"
	"os"

	"github.com/dynprof/dynprof/cmd/hotspots/internal/cli"
)

// embedded holds libdynprof.so if the build has put it there.
//
//go:embed embed
var embedded embed.FS

func main() {
	library, err := embedded.ReadFile("embed/libdynprof.so")
	if err != nil {
		library = nil // run then asks for --library
	}
	os.Exit(cli.Main(os.Args[1:], library))
}
