package layout

// Row is one thread's row without its counters.
type Row struct {
	Index uint32
	State uint32 // Row*
	Kind  uint32 // RowThread, RowProcess, RowShared
	Pid   uint32
	Tid   uint32
	Taken uint32 // how often it was again
	Owner uint32 // incarnation number of the process that took it

	Incarnation uint32 // of a RowProcess row: number of the process that runs on it
	Base        uint64 // calls of the row when its present owner took it
	Calls       uint64 // of all functions, by all owners
}

// Held reports whether a thread owns the row, or is about to.
func (r *Row) Held() bool { return r.State == RowLive || r.State == RowBirthing }

// DecodeRow decodes the header of a row.
func DecodeRow(index uint32, b []byte) Row {
	return Row{
		Index: index,
		State: le.Uint32(b[RowState:]) & RowStateMask,
		Taken: le.Uint32(b[RowState:]) >> 2,
		Kind:  le.Uint32(b[RowKind:]),
		Pid:   le.Uint32(b[RowPid:]),
		Tid:   le.Uint32(b[RowTid:]),
		Owner: le.Uint32(b[RowOwner:]),

		Incarnation: le.Uint32(b[RowIncarnation:]),
		Base:        le.Uint64(b[RowBase:]),
	}
}
