// Package table writes and reads the count table: one file that holds the
// ledger (objects, functions, how each entry was patched), every thread's
// counters and the hot events of one program, from its start on. The format
// is described in docs/table-format.md; layout.go has its offsets.
//
// The planner calls Create and Publish once. From then on only the program's
// own threads store into the file, through their mapping of it. A reader needs
// no help from the program: Open and Snapshot work while it runs and after it
// was killed, and believe nothing that the file says before checking it.
package table

//go:generate go test -run "^Test(LayoutHeader|FormatDoc)$" -update .
