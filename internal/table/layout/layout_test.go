package layout

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dynprof/dynprof/internal/cheader"
)

var update = flag.Bool("update", false, "write generated and golden files")

const formatDoc = "../../../docs/table-format.md"

// TestFormatDoc keeps the tables of docs/table-format.md, which lie between
// two marks, in step with layout.go and its comments.
func TestFormatDoc(t *testing.T) {
	const begin, end = "<!-- from layout.go -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(formatDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no marks", formatDoc)
	}
	want := before + begin + generateTables(t) + end + after
	if *update {
		if err := os.WriteFile(formatDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(b) != want {
		t.Errorf("%s is stale: run go generate ./internal/table/layout", formatDoc)
	}
}

// TestFormatDocSizes: the picture of the file says the sizes of entries.
func TestFormatDocSizes(t *testing.T) {
	doc, err := os.ReadFile(formatDoc)
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{
		"formers": FmEntrySize, "events": EvEntrySize, "missed": MsEntrySize, "objects": ObjEntrySize, "functions": FnEntrySize,
	} {
		if line := fmt.Sprintf("           %-12s entries of %d bytes", name, size); !strings.Contains(string(doc), line) {
			t.Errorf("%s does not say %q", formatDoc, line)
		}
	}
}

// generateTables makes one table of the fields of each kind of entry, from the
// first group of constants, and one of each later group.
func generateTables(t *testing.T) string {
	t.Helper()
	source := parseLayout(t)
	var out strings.Builder
	kind := ""
	heading := func(title, column string) {
		fmt.Fprintf(&out, "\n%s\n\n| %s | name | |\n|---|---|---|\n", title, column)
	}
	for i, decl := range source.File.Decls {
		d := decl.(*ast.GenDecl)
		if i > 0 {
			heading(strings.TrimSpace(d.Doc.Text()), "value")
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			name := v.Names[0].Name
			prefix := regexp.MustCompile(`^[A-Z][a-z]*`).FindString(name)
			if i == 0 && entryTitles[prefix] == "" {
				continue // the text has it
			}
			if i == 0 && prefix != kind {
				kind = prefix
				heading(entryTitles[prefix], "offset")
			}
			fmt.Fprintf(&out, "| %s | %s | %s |\n", cheader.Literal(source.Value(name)), name, strings.TrimSpace(v.Comment.Text()))
		}
	}
	return out.String() + "\n"
}

var entryTitles = map[string]string{
	"Hdr": "Header.", "Sec": "Section, in the header.", "Obj": "Object entry.", "Fn": "Function entry.",
	"Ev": "Event entry.", "Fm": "Former owner entry.", "Bl": "Baseline entry.", "Row": "Row header.", "St": "Site entry.", "Fd": "Folded entry.",
}

// parseLayout reads layout.go.
func parseLayout(t *testing.T) *cheader.Source {
	t.Helper()
	s, err := cheader.Read("layout.go")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLayoutOffsets pins the offsets that are on disk already.
func TestLayoutOffsets(t *testing.T) {
	for _, row := range []struct {
		name      string
		got, want uint64
	}{
		{"magic", HdrMagic, 0}, {"version", HdrVersion, 8}, {"state", HdrState, 0x28},
		{"objects", HdrObjects, 0x88}, {"rows", HdrRows, HdrFired + SectionSize},
		{"counters", HdrCounters, HdrRows + SectionSize}, {"rows used", HdrRowsUsed, 0x200},
		{"ended", HdrEnded, 0x240}, {"object", ObjEntrySize, 80}, {"function", FnEntrySize, 40},
		{"event", EvEntrySize, 48}, {"row", RowCounters, 128}, {"fired bit", CounterFired, 1 << 63},
	} {
		if row.got != row.want {
			t.Errorf("%s: %#x, want %#x", row.name, row.got, row.want)
		}
	}
}

// TestLayoutOverlap: no field of the header or of an entry lies in another.
func TestLayoutOverlap(t *testing.T) {
	type field struct{ at, size int }
	for name, fields := range map[string][]field{
		"header": {
			{HdrMagic, 8}, {HdrVersion, 4}, {HdrHeaderSize, 4}, {HdrFileSize, 8}, {HdrNonce, 16}, {HdrState, 4},
			{HdrFlags, 4}, {HdrPid, 4}, {HdrUID, 4}, {HdrStartTicks, 8}, {HdrBootID, 16}, {HdrPidNS, 8},
			{HdrRealtime, 8}, {HdrMonotonic, 8}, {HdrRunID, 16}, {HdrThreshold, 8}, {HdrProgram, 4}, {HdrCreator, 4},
			{HdrObjects, SectionSize}, {HdrFunctions, SectionSize}, {HdrAliases, SectionSize}, {HdrStrings, SectionSize},
			{HdrEvents, SectionSize}, {HdrFired, SectionSize}, {HdrRows, SectionSize}, {HdrCounters, 4},
			{HdrCountersCap, 4}, {HdrRowsReserved, 4}, {HdrFormers, SectionSize}, {HdrBaselines, SectionSize}, {HdrSnapshot, 8}, {HdrReserve, 8}, {HdrListen, 4}, {HdrArguments, 4}, {HdrRowsUsed, 4}, {HdrThreadsDiscarded, 4}, {HdrProcesses, 4},
			{HdrPatchesRefused, 4}, {HdrGeneration, 4}, {HdrEventsHead, 8}, {HdrEventsLost, 8}, {HdrFormersHead, 8}, {HdrBaseline, 8},
			{HdrBaselineTickets, 4}, {HdrBaselinesTaken, 4}, {HdrEnded, 4},
			{HdrEndedCode, 4}, {HdrEndedTime, 8}, {HdrCodeAnonymous, 8}, {HdrCodeInFiles, 8}, {HdrFolded, SectionSize}, {HdrPaused, 4}, {HdrPauseLock, 4}, {HdrAgent, 4}, {HdrAgentPid, 4},
			{HdrRequest, 4}, {HdrReply, 8}, {HdrReserveUsed, 8}, {HdrOverhead, 4}, {HdrPauses, 4},
			{HdrStockHead, 8}, {HdrStockRows, 4}, {HdrRowsTaken, 4}, {HdrStopped, 4}, {HdrRowLists, 64}, {HdrFreeRows, 128},
			{HdrDropped, 8}, {HdrDeferred, 8}, {HdrTranslatorFailures, 8}, {HdrSites, SectionSize}, {HdrReadBytes, 8}, {HdrReadCalls, 8}, {HdrWriteBytes, 8}, {HdrWriteCalls, 8}, {HdrReceiveCalls, 8}, {HdrReceiveBytes, 8}, {HdrReceiveUntold, 8}, {HdrSendCalls, 8}, {HdrSendBytes, 8}, {HdrSendUntold, 8}, {HeaderSize, 0},
		},
		"object": {
			{ObjPath, 4}, {ObjBuildID, 4}, {ObjBias, 8}, {ObjArena, 8}, {ObjLow, 8}, {ObjHigh, 8}, {ObjFlags, 4},
			{ObjReason, 1}, {ObjReserve, 8}, {ObjCode, 4}, {ObjUntold, 4}, {ObjEntrySize, 0},
		},
		"function": {
			{FnAddress, 8}, {FnSize, 4}, {FnName, 4}, {FnAliases, 4}, {FnCounter, 4}, {FnStub, 4}, {FnThreshold, 4},
			{FnObject, 2}, {FnStubSize, 2}, {FnSource, 1}, {FnTactic, 1}, {FnReason, 1}, {FnCount, 1}, {FnEntrySize, 0},
		},
		"event": {
			{EvSeq, 8}, {EvTime, 8}, {EvCount, 8}, {EvCounter, 4}, {EvRow, 4}, {EvPid, 4}, {EvTid, 4}, {EvOutcome, 4}, {EvEntrySize, 0},
		},
		"row": {
			{RowState, 4}, {RowKind, 4}, {RowPid, 4}, {RowTid, 4}, {RowOwner, 4}, {RowIndex, 4}, {RowBirth, 68}, {RowTrapBlocked, 4}, {RowNextFree, 4}, {RowNext, 4}, {RowIncarnation, 4}, {RowRoom, 4}, {RowBase, 8}, {RowPidSpace, 4}, {RowLivesIn, 4}, {RowCounters, 0},
		},
		"former owner": {
			{FmFrom, 8}, {FmTo, 8}, {FmRow, 4}, {FmPid, 4}, {FmTid, 4}, {FmIncarnation, 4}, {FmEntrySize, 0},
		},
		"folded":   {{FdNonce, 16}, {FdTime, 8}, {FdCalls, 8}, {FdPid, 4}, {FdThreads, 4}, {FdEntrySize, 0}},
		"site":     {{StAddress, 8}, {StCaller, 4}, {StCallee, 4}, {StCounter, 4}, {StStub, 4}, {StFlags, 4}, {StCount, 4}, {StEntrySize, 0}},
		"baseline": {{BlTime, 8}, {BlCounters, 4}, {BlRows, 4}, {BlCounts, 0}},
	} {
		for i := 1; i < len(fields); i++ {
			a, b := fields[i-1], fields[i]
			if a.at+a.size > b.at || b.size > 1 && b.size <= 8 && b.at%b.size != 0 {
				t.Errorf("%s: field at %#x follows %#x+%d or is not aligned", name, b.at, a.at, a.size)
			}
		}
	}
}
