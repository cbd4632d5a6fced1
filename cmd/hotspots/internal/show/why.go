package show

import "github.com/dynprof/dynprof/internal/ledger"

// why says in words why a function is not counted; empty for a reason of a newer table.
var why = [...]string{
	ledger.ReasonNotSelected:       "--only, --skip or --objects left it out",
	ledger.ReasonTooShort:          "no room for a jump, even with padding",
	ledger.ReasonBranchIntoWindow:  "some branch, or a goroutine that was preempted, lands between the bytes that a jump would overwrite",
	ledger.ReasonEntryInWindow:     "another function starts among the bytes that a jump would overwrite",
	ledger.ReasonReturnInWindow:    "a call returns into the bytes that a jump would overwrite",
	ledger.ReasonEntryLoop:         "a loop of its own comes back to the entry and cannot be led past the count",
	ledger.ReasonUndecodable:       "its bytes are no instructions that are known, or its file has too many jump tables",
	ledger.ReasonUnsupported:       "it begins with an instruction that cannot be moved",
	ledger.ReasonKernelSite:        "it begins with a system call that is watched itself",
	ledger.ReasonOutOfReach:        "no memory was free within 2 GiB of all that it refers to",
	ledger.ReasonNoMemory:          "the memory for stubs, or the table, is full",
	ledger.ReasonBytesChanged:      "its bytes in memory were not those of the file",
	ledger.ReasonProtected:         "its text could not be made writable",
	ledger.ReasonNotMapped:         "its address is in no executable segment",
	ledger.ReasonUsesGS:            "it came later and uses the GS segment, or came with such a library",
	ledger.ReasonAliasedText:       "its text is mapped executable a second time",
	ledger.ReasonNoFile:            "the file could not be read",
	ledger.ReasonMayFault:          "its first instruction may fault at an address that the Go runtime must know",
	ledger.ReasonInsideInstruction: "it starts inside an instruction: the file is wrong about it",
	ledger.ReasonRestartable:       "its first instructions are of a restartable sequence (rseq)",
	ledger.ReasonDebugged:          "a debugger watches it",
	ledger.ReasonSandboxed:         "it came later, under a seccomp filter that may kill the planner",
	ledger.ReasonNoPlanner:         "it came later, and there was no planner: no memory, a limit of processes, or it died",
	ledger.ReasonUnseen:            "it came later, and its code cannot be looked at",
	ledger.ReasonTextChanged:       "it was counted until the program made its text writable, or replaced it",
	ledger.ReasonColdPart:          "it is the cold part of another function",
	ledger.ReasonPLT:               "it is the procedure linkage table, by which other objects are called",
	ledger.ReasonStart:             "it is where the program starts",
	ledger.ReasonInitFini:          "it runs once, at the start or the end",
	ledger.ReasonSignalReturn:      "unwinders know it by its bytes",
	ledger.ReasonTrampoline:        "it is the dynamic linker's, with registers of its own",
	ledger.ReasonBreakpoint:        "it starts with int3: a handler looks at the address",
	ledger.ReasonAllocator:         "it hands out blocks of memory, or takes them back, and tells of that for --region malloc@",
}

// Why is a reason in words, empty for those of a newer table.
func Why(r ledger.Reason) string {
	if int(r) < len(why) {
		return why[r]
	}
	return ""
}

// whyNot is a reason in words, with its word.
func whyNot(r ledger.Reason) string {
	if words := Why(r); words != "" {
		return r.String() + ": " + words
	}
	return r.String()
}
