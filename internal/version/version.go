// Package version holds the version of dynprof.
package version

// Version is the release, in semantic versioning.
const Version = "0.1.0"

// Creator is what a table and a cached plan say of who made them.
const Creator = "dynprof " + Version
