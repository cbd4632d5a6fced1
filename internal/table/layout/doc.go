// Package layout says where everything lies in a count table, and how its
// header and its entries are encoded. It believes no number that it decodes
// before it has checked it, and has no effects. docs/table-format.md is the
// description of the format.
package layout

//go:generate go test -run "^Test(LayoutHeader|FormatDoc)$" -update .
