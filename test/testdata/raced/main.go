// Raced adds up in goroutines, for a build with -race.
package main

import (
	"os"
	"strconv"
)

func main() {
	sums := make(chan int)
	for i := range 8 {
		go func() {
			sum := 0
			for j := range 1000 {
				sum += i * j
			}
			sums <- sum
		}()
	}
	total := 0
	for range 8 {
		total += <-sums
	}
	os.Stdout.WriteString(strconv.Itoa(total) + "\n")
}
