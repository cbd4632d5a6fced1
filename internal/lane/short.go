//go:build !long

package lane

// Long tells that this is the long lane.
const Long = false
