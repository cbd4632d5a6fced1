// Package table reads count tables. A count table is one file that holds the
// ledger (objects, functions, how each entry was patched), every thread's
// counters and the hot events of one program, from its start on.
//
// The planner makes it (package build), and from then on only the program's own
// threads store into it, through their mapping of it. A reader needs no help
// from the program: Open and Snapshot work while it runs and after it was
// killed, and believe nothing that the file says before checking it.
//
// The packages below: layout (where everything lies), file (a table's file, in
// pieces), build (the planner's end), alive (whether the program still counts),
// control (requests to a running program), edit (what hotspots changes in a
// table), code (executable memory of no object), tabledir (where tables lie),
// find (which are there).
package table
