package elfscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

const (
	frameAddr = 0x2000 // of the .eh_frame that the tests write
	frameText = 0x1000 // of the text that it describes
	frameData = 0x1800 // of .eh_frame_hdr
)

// frameWriter writes .eh_frame.
type frameWriter struct {
	b   []byte
	cie int // offset of the CIE written last
}

func (w *frameWriter) u8(v ...uint8)  { w.b = append(w.b, v...) }
func (w *frameWriter) u32(v uint32)   { w.b = le.AppendUint32(w.b, v) }
func (w *frameWriter) uleb(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *frameWriter) end()           { w.u32(0) }
func (w *frameWriter) str(s string)   { w.b = append(append(w.b, s...), 0) }
func (w *frameWriter) patch(from int) { le.PutUint32(w.b[from-4:], uint32(len(w.b)-from)) }

// pointer writes v in the encoding enc.
func (w *frameWriter) pointer(enc uint8, v uint64) {
	switch enc & peApply {
	case pePCrel:
		v -= frameAddr + uint64(len(w.b))
	case peDatarel:
		v -= frameData
	}
	w.number(enc, v)
}

func (w *frameWriter) number(enc uint8, v uint64) {
	switch enc & peFormat {
	case peUdata2, peSdata2:
		w.b = le.AppendUint16(w.b, uint16(v))
	case peUdata4, peSdata4:
		w.u32(uint32(v))
	case peUleb:
		w.uleb(v)
	case peSleb:
		for int64(v) < -64 || int64(v) > 63 {
			w.u8(uint8(v) | 0x80)
			v = uint64(int64(v) >> 7)
		}
		w.u8(uint8(v) & 0x7f)
	default:
		w.b = le.AppendUint64(w.b, v)
	}
}

// open starts a record and returns where it does; patch ends it.
func (w *frameWriter) open(wide bool) int {
	w.u32(0)
	if wide {
		w.b = le.AppendUint64(w.b, 0)
	}
	return len(w.b)
}

func (w *frameWriter) close(from int, wide bool) {
	if !wide {
		w.patch(from)
		return
	}
	le.PutUint64(w.b[from-8:], uint64(len(w.b)-from))
	le.PutUint32(w.b[from-12:], math.MaxUint32)
}

// writeCIE writes a CIE of version 1 that starts with CFA rsp+8.
func (w *frameWriter) writeCIE(augmentation string, data ...uint8) {
	w.cie = len(w.b)
	from := w.open(false)
	w.u32(0)
	w.u8(1)
	w.str(augmentation)
	w.u8(data...)
	w.u8(opDefCFA, regRSP, 8)
	w.close(from, false)
}

// writeFDE writes an FDE of 16 bytes of code, with the augmentation data aug
// and the instructions ins.
func (w *frameWriter) writeFDE(enc uint8, addr uint64, aug, ins []uint8) {
	from := w.open(false)
	w.u32(uint32(len(w.b) - w.cie))
	w.pointer(enc, addr)
	w.number(enc, 16)
	w.u8(aug...)
	w.u8(ins...)
	w.close(from, false)
}

func (w *frameWriter) walk(t *testing.T, bounded bool, count uint64) ([]frame, error) {
	t.Helper()
	f := &file{r: bytes.NewReader(w.b), size: uint64(len(w.b)), budget: uint64(len(w.b))}
	f.text, f.textLow = spans{{frameText, frameText + 0x1000}}, frameText
	walk := frameWalk{file: f, data: frameData, bounded: bounded, count: count}
	err := walk.walk(0, f.size, frameAddr)
	return walk.list, err
}

// Augmentation data of "zR" and the fields before it: alignments 1 and -8,
// return address in register 16.
func zR(enc uint8) []uint8 { return []uint8{1, 0x78, 16, 1, enc} }

// TestPointerEncodings reads the same FDE in each encoding.
func TestPointerEncodings(t *testing.T) {
	formats := map[string]uint8{
		"absptr": peAbsptr, "uleb128": peUleb, "udata2": peUdata2, "udata4": peUdata4, "udata8": peUdata8,
		"sleb128": peSleb, "sdata2": peSdata2, "sdata4": peSdata4, "sdata8": peSdata8,
	}
	for name, format := range formats {
		for _, apply := range []uint8{peAbsptr, pePCrel, peDatarel} {
			if apply == pePCrel && (format == peUleb || format == peUdata4 || format == peUdata2) {
				continue // the distance back is no unsigned number
			}
			t.Run(fmt.Sprintf("%s+%#x", name, apply), func(t *testing.T) {
				addr := uint64(0x1830)
				var w frameWriter
				w.writeCIE("zR", zR(format|apply)...)
				w.writeFDE(format|apply, addr, []uint8{0}, nil)
				want := []frame{{addr: uint32(addr - frameText), size: 16, start: startEntry}}
				if got, err := w.walk(t, true, 0); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
				}
			})
		}
	}
}

// TestRecords reads the forms of CIE and FDE that occur.
func TestRecords(t *testing.T) {
	const abs = peAbsptr
	one := frame{addr: 0x10, size: 16, start: startEntry}
	two := frame{addr: 0x20, size: 16, start: startEntry}
	for _, row := range []struct {
		name  string
		write func(*frameWriter)
		want  []frame
		err   string
	}{
		{"no augmentation", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(abs, 0x1010, nil, nil)
		}, []frame{one}, ""},
		{"augmentation eh", func(w *frameWriter) {
			w.writeCIE("eh", 1, 2, 3, 4, 5, 6, 7, 8, 1, 0x78, 16)
			w.writeFDE(abs, 0x1010, nil, nil)
		}, []frame{one}, ""},
		{"zPLR with LSDA", func(w *frameWriter) {
			w.writeCIE("zPLR", 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b, peUdata4)
			w.writeFDE(peUdata4, 0x1010, []uint8{4, 1, 0, 0, 0}, nil)
			w.writeFDE(peUdata4, 0x1020, []uint8{4, 0, 0, 0, 0}, nil)
		}, []frame{{addr: 0x10, size: 16, start: startEntry, lsda: true}, two}, ""},
		{"signal frame", func(w *frameWriter) {
			w.writeCIE("zRS", zR(abs)...)
			w.writeFDE(abs, 0x1010, []uint8{0}, nil)
		}, []frame{{addr: 0x10, size: 16, start: startEntry, signal: true}}, ""},
		{"unknown letter behind R", func(w *frameWriter) {
			w.writeCIE("zR?", 1, 0x78, 16, 3, peUdata4, 1, 2)
			w.writeFDE(peUdata4, 0x1010, []uint8{0}, nil)
		}, []frame{one}, ""},
		{"unknown letter before R", func(w *frameWriter) {
			w.writeCIE("z?R", 1, 0x78, 16, 2, 9, peUdata4)
			w.writeFDE(peUdata4, 0x1010, []uint8{0}, nil)
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(abs, 0x1020, nil, nil)
		}, []frame{two}, "1 records"},
		{"unknown augmentation", func(w *frameWriter) {
			w.writeCIE("armcc+", 1, 0x78, 16)
			w.writeFDE(abs, 0x1010, nil, nil)
		}, nil, "1 records"},
		{"indirect address", func(w *frameWriter) {
			w.writeCIE("zR", zR(peIndirect)...)
			w.writeFDE(peAbsptr, 0x1010, []uint8{0}, nil)
		}, nil, "1 records"},
		{"version 4", func(w *frameWriter) {
			from := w.open(false)
			w.u32(0)
			w.u8(4, 0, 8, 0, 1, 0x78, 16, opDefCFA, regRSP, 8)
			w.close(from, false)
			w.writeFDE(abs, 0x1010, nil, nil)
		}, []frame{one}, ""},
		{"version 9", func(w *frameWriter) {
			from := w.open(false)
			w.u32(0)
			w.u8(9, 0, 1, 0x78, 16)
			w.close(from, false)
			w.writeFDE(abs, 0x1010, nil, nil)
		}, nil, "1 records"},
		{"64-bit lengths", func(w *frameWriter) {
			from := w.open(true)
			w.u32(0)
			w.u8(1, 0, 1, 0x78, 16, opDefCFA, regRSP, 8)
			w.close(from, true)
			from = w.open(true)
			w.u32(uint32(len(w.b)))
			w.number(abs, 0x1010)
			w.number(abs, 16)
			w.close(from, true)
			w.writeFDE(abs, 0x1020, nil, nil)
		}, []frame{one, two}, ""},
		{"ends in the middle", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(abs, 0x1010, nil, nil)
			w.end()
			w.end()
			w.writeFDE(abs, 0x1020, nil, nil)
			w.end()
		}, []frame{one, two}, ""},
		{"discarded", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(abs, 0, nil, nil)
			w.writeFDE(abs, 0x3000, nil, nil)
			from := w.open(false)
			w.u32(uint32(len(w.b)))
			w.number(abs, 0x1010)
			w.number(abs, 0)
			w.close(from, false)
			w.writeFDE(abs, 0x1020, nil, nil)
		}, []frame{two}, ""},
		{"CIE of an earlier record", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			first := w.cie
			w.writeCIE("zR", zR(peUdata4)...)
			second := w.cie
			w.writeFDE(peUdata4, 0x1010, []uint8{0}, nil)
			w.cie = first
			w.writeFDE(abs, 0x1020, nil, nil)
			w.cie = second
			w.writeFDE(peUdata4, 0x1030, []uint8{0}, nil)
		}, []frame{one, two, {addr: 0x30, size: 16, start: startEntry}}, ""},
		{"CIE that is none", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			w.cie = 4
			w.writeFDE(abs, 0x1010, nil, nil)
		}, nil, "1 records"},
		{"record of 3 bytes", func(w *frameWriter) { w.u32(3) }, nil, "record at address 0x2000"},
		{"record past the end", func(w *frameWriter) { w.u32(100) }, nil, "record at address 0x2000"},
		{"64-bit length past the end", func(w *frameWriter) {
			w.u32(math.MaxUint32)
			w.number(peUdata8, math.MaxUint64-3)
		}, nil, "record at address 0x2000"},
		{"record larger than the buffer", func(w *frameWriter) {
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(abs, 0x1010, nil, make([]uint8, 200<<10))
			w.writeFDE(abs, 0x1020, nil, nil)
		}, []frame{one, two}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var w frameWriter
			row.write(&w)
			got, err := w.walk(t, true, 0)
			if !slices.Equal(got, row.want) || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got %v, %v, want %v, %q", got, err, row.want, row.err)
			}
		})
	}
}

// TestUnboundedFrames stops at the end of a list that other data follows.
func TestUnboundedFrames(t *testing.T) {
	var w frameWriter
	w.writeCIE("", 1, 0x78, 16)
	w.writeFDE(peAbsptr, 0x1010, nil, nil)
	w.end()
	w.writeFDE(peAbsptr, 0x1020, nil, nil)
	w.end()
	w.u32(0x7fffffff) // .gcc_except_table, say
	for count, want := range map[uint64]int{0: 1, 1: 1, 2: 2} {
		if got, err := w.walk(t, false, count); err != nil || len(got) != want {
			t.Errorf("count %d: got %d FDEs, %v, want %d", count, len(got), err, want)
		}
	}
}

// TestStart runs the call frame instructions of an FDE whose CIE says rsp+8.
func TestStart(t *testing.T) {
	for _, row := range []struct {
		name string
		ins  []uint8
		want startKind
	}{
		{"nothing", nil, startEntry},
		{"nop, remember_state, restore_state", []uint8{0, 0x0a, 0x0b}, startEntry},
		{"advance_loc, then offset 16", []uint8{opAdvanceLoc | 1, opDefCFAOffset, 16}, startEntry},
		{"advance_loc1, then offset 16", []uint8{opAdvanceLoc1, 200, opDefCFAOffset, 16}, startEntry},
		{"advance_loc of nothing, then offset 32", []uint8{opAdvanceLoc, opDefCFAOffset, 32}, startPart},
		{"set_loc, then offset 16", []uint8{opSetLoc, 0, 0, 0, 0, 0, 0, 0, 0, opDefCFAOffset, 16}, startEntry},
		{"def_cfa_offset 16", []uint8{opDefCFAOffset, 16}, startPLT},
		{"def_cfa_offset 24", []uint8{opDefCFAOffset, 24}, startResolver},
		{"def_cfa_offset 32", []uint8{opDefCFAOffset, 32}, startPart},
		{"def_cfa_offset_sf -4, scaled by -8", []uint8{opDefCFAOffsetSf, 0x7c}, startPart},
		{"def_cfa rbp 16", []uint8{opDefCFA, 6, 16}, startPart},
		{"def_cfa rbp 16, def_cfa rsp 8", []uint8{opDefCFA, 6, 16, opDefCFA, regRSP, 8}, startEntry},
		{"def_cfa_sf rsp -1, scaled by -8", []uint8{opDefCFASf, regRSP, 0x7f}, startEntry},
		{"def_cfa_register rbp", []uint8{opDefCFARegister, 6}, startPart},
		{"def_cfa_expression", []uint8{opDefCFAExpression, 2, opDefCFA, 8}, startPart},
		{"offset r6, def_cfa_offset 32", []uint8{opOffset | 6, 2, opDefCFAOffset, 32}, startPart},
		{"restore r6, def_cfa_offset 32", []uint8{opRestore | 6, opDefCFAOffset, 32}, startPart},
		{"offset_extended, def_cfa_offset 32", []uint8{0x05, 0x86, 0, 2, opDefCFAOffset, 32}, startPart},
		{"expression, def_cfa_offset 32", []uint8{0x10, 6, 3, 0, 0, 0, opDefCFAOffset, 32}, startPart},
		{"undefined rip", []uint8{0x07, 16}, startEntry},
		{"GNU_args_size, def_cfa_offset 32", []uint8{0x2e, 0x80, 1, opDefCFAOffset, 32}, startPart},
		{"unknown instruction ends it", []uint8{0x3e, opDefCFAOffset, 32}, startEntry},
		{"truncated block", []uint8{opDefCFAExpression, 200}, startPart},
	} {
		t.Run(row.name, func(t *testing.T) {
			var w frameWriter
			w.writeCIE("", 1, 0x78, 16)
			w.writeFDE(peAbsptr, 0x1010, nil, row.ins)
			got, err := w.walk(t, true, 0)
			if err != nil || len(got) != 1 || got[0].start != row.want {
				t.Errorf("got %v, %v, want start %d", got, err, row.want)
			}
		})
	}
}
