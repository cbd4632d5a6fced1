// Package version holds the version of dynprof.
package version

// Version is the release, in semantic versioning.
const Version = "0.1.0"
