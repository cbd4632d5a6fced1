package layout

import (
	"fmt"
	"io"
	"time"
)

// UsualHot is at how many calls a function is hot for those who choose whose blocks are counted,
// unless the user says otherwise.
const UsualHot = 1000

// HotAt is at how many calls they take f for hot; 0: it never is.
func (h *Header) HotAt(f *Function) uint64 {
	if f.Threshold == 0 && h.Flags&(FlagThreshold|FlagTranslator) != FlagThreshold {
		return UsualHot
	}
	return uint64(f.Threshold)
}

// ReadHeader returns the header and its bytes. A table that is still being
// built has a header of zeros and a size.
func ReadHeader(r io.ReaderAt, size int64) (*Header, []byte, error) {
	raw := make([]byte, HeaderSize)
	n, err := r.ReadAt(raw, 0)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	magic := raw[:len(Magic)]
	switch {
	case n == HeaderSize && size > HeaderSize && AllZero(raw):
		return nil, nil, ErrBuilding
	case string(magic) != Magic:
		return nil, nil, ErrNotTable
	case n < HeaderSize:
		return nil, nil, ErrTruncated
	}
	if v := le.Uint32(raw[HdrVersion:]); v > VersionLateSites {
		return nil, nil, fmt.Errorf("format %d, this program knows %d: %w", v, VersionLateSites, ErrVersion)
	} else if v < Version {
		return nil, nil, fmt.Errorf("format %d: %w", v, ErrCorrupt)
	}
	h := decodeHeader(raw)
	if err := h.readStrings(r, raw, size); err != nil {
		return nil, nil, err
	}
	return h, raw, nil
}

func decodeHeader(raw []byte) *Header {
	h := &Header{
		Identity: Identity{
			Pid:        le.Uint32(raw[HdrPid:]),
			UID:        le.Uint32(raw[HdrUID:]),
			StartTicks: le.Uint64(raw[HdrStartTicks:]),
			PidNS:      le.Uint64(raw[HdrPidNS:]),
			Realtime:   time.Unix(0, int64(le.Uint64(raw[HdrRealtime:]))),
			Monotonic:  le.Uint64(raw[HdrMonotonic:]),
		},
		State:     le.Uint32(raw[HdrState:]),
		Flags:     le.Uint32(raw[HdrFlags:]),
		Threshold: le.Uint64(raw[HdrThreshold:]),
		Ended: Ended{
			Kind: le.Uint32(raw[HdrEnded:]),
			Code: le.Uint32(raw[HdrEndedCode:]),
		},
	}
	h.Overhead = le.Uint32(raw[HdrOverhead:])
	h.WentOn = le.Uint32(raw[HdrWentOn:])
	h.Unlisted = Unlisted{le.Uint64(raw[HdrCodeAnonymous:]), le.Uint64(raw[HdrCodeInFiles:])}
	h.Transfers = Transfers{le.Uint64(raw[HdrReadBytes:]), le.Uint64(raw[HdrReadCalls:]), le.Uint64(raw[HdrWriteBytes:]), le.Uint64(raw[HdrWriteCalls:])}
	h.Sockets = Sockets{
		Moves{le.Uint64(raw[HdrReceiveCalls:]), le.Uint64(raw[HdrReceiveBytes:]), le.Uint64(raw[HdrReceiveUntold:])},
		Moves{le.Uint64(raw[HdrSendCalls:]), le.Uint64(raw[HdrSendBytes:]), le.Uint64(raw[HdrSendUntold:])},
	}
	if ns := le.Uint64(raw[HdrSnapshot:]); ns != 0 {
		h.Snapshot = time.Unix(0, int64(ns))
	}
	if h.Ended.Kind != EndedUnknown {
		h.Ended.Time = time.Unix(0, int64(le.Uint64(raw[HdrEndedTime:])))
	}
	copy(h.BootID[:], raw[HdrBootID:])
	copy(h.RunID[:], raw[HdrRunID:])
	copy(h.Nonce[:], raw[HdrNonce:])
	return h
}

// readStrings reads the strings of the header without the others.
func (h *Header) readStrings(r io.ReaderAt, raw []byte, size int64) error {
	if h.State != StateLive {
		return nil // not written yet
	}
	if err := CheckSize(raw, size); err != nil {
		return err
	}
	s, err := decodeSection(raw, HdrStrings, 1, 1, uint64(size))
	if err != nil {
		return err
	}
	for _, field := range []struct {
		to *string
		at int
	}{{&h.Program, HdrProgram}, {&h.Creator, HdrCreator}, {&h.Listen, HdrListen}, {&h.Arguments, HdrArguments}} {
		if *field.to, err = ReadString(r, s, le.Uint32(raw[field.at:])); err != nil {
			return err
		}
	}
	return nil
}
