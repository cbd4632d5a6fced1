// A Go program that waits until its stdin ends.
package main

import (
	"io"
	"os"
)

func main() {
	os.Stdout.WriteString("ready\n")
	io.Copy(io.Discard, os.Stdin)
}
