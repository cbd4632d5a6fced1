package keep

import (
	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen/emit"
)

const opLea = 0x8d

// unknownDepth is the depth of the stack where code has lost its track.
const unknownDepth = -1 << 31

// depths finds how many bytes are on the stack in front of each instruction, above
// the function's return address; start are there at its entry. Code that moves RSP by what it
// computes goes on by RBP, which is known as a frame pointer.
func (f *flow) depths(start int32) {
	for k := range f.list {
		f.list[k].depth, f.list[k].frame = unknownDepth, unknownDepth
	}
	if len(f.list) == 0 || f.isAnyPart(int32(f.function)) && start == 0 {
		return
	}
	f.list[0].depth = start
	give := func(k int32, depth, frame int32) bool {
		if int(k) >= len(f.list) || f.list[k].depth != unknownDepth || f.list[k].frame != unknownDepth {
			return false
		}
		f.list[k].depth, f.list[k].frame = depth, frame
		return depth != unknownDepth || frame != unknownDepth
	}
	for again := true; again; {
		again = false
		for k := range f.list {
			st := &f.list[k]
			if st.depth == unknownDepth && st.frame == unknownDepth {
				continue
			}
			depth, frame := st.moved()
			if st.to >= 0 && give(st.to, depth, frame) && int(st.to) < k {
				again = true
			}
			if st.falls() {
				give(int32(k+1), depth, frame)
			}
			if st.kind == x86.JmpInd && !st.tail { // a switch: its cases start behind what does not go on
				for n := range f.list {
					if !f.list[n].falls() && give(int32(n+1), depth, frame) && n < k {
						again = true
					}
				}
			}
		}
	}
}

// stackUse is what an instruction does with RSP and RBP.
type stackUse struct {
	how  stackHow
	base uint8 // of a memory operand at disp from RSP or RBP, else 0
	lea  bool  // that is only its address
	any  bool  // there is an index, too
	disp int32 // or what is added to the depth
}

type stackHow uint8

const (
	stackStays  stackHow = iota
	stackAdds            // disp bytes more
	stackPopRBP          // 8 bytes fewer, and RBP is another
	stackLeave
	stackToRBP   // mov %rsp,%rbp
	stackFromRBP // mov %rbp,%rsp
	stackLea     // RSP becomes the operand's address
	stackLeaRBP  // RBP does
	stackCopied  // to another register
	stackLost
	frameLost // RBP is written
)

func stackUseOf(in *x86.Inst, code []byte, written x86.RegSet) (u stackUse) {
	if in.Kind == x86.Nop {
		return u
	}
	u.operand(in, code)
	if written.G>>x86.RBP&1 != 0 {
		u.how = frameLost
	}
	if in.Map != x86.MapLegacy || in.Enc != x86.EncLegacy {
		return u
	}
	reg := in.ModRM>>3&7 | in.Rex&x86.RexR<<1
	rm := in.ModRM&7 | in.Rex&x86.RexB<<3
	direct := in.HasModRM && in.ModRM >= 0xc0
	switch op := in.Op; {
	case op&0xf8 == 0x50, op == 0x68, op == 0x6a, op == 0xff && in.ModRM>>3&7 == 6, op == 0x9c:
		u.add(8)
	case op&0xf8 == 0x58 && op&7|in.Rex&x86.RexB<<3 == x86.RBP:
		u.how = stackPopRBP
	case op&0xf8 == 0x58, op == 0x9d, op == 0x8f:
		u.add(-8)
	case op == 0xc9:
		u.how = stackLeave
	case (op == 0x81 || op == 0x83) && direct && rm == x86.RSP:
		u.immediate(in, code)
	case op == 0x89 && direct && reg == x86.RSP && rm == x86.RBP, op == 0x8b && direct && reg == x86.RBP && rm == x86.RSP:
		u.how = stackToRBP
	case op == 0x89 && direct && reg == x86.RBP && rm == x86.RSP, op == 0x8b && direct && reg == x86.RSP && rm == x86.RBP:
		u.how = stackFromRBP
	case op == 0x89 && direct && reg == x86.RSP, op == 0x8b && direct && rm == x86.RSP:
		u.how = stackCopied
	case op == 0x89 && direct && rm == x86.RSP, (op == 0x8b || op == 0x63) && reg == x86.RSP:
		u.how = stackLost
	case op == opLea:
		u.lea = true
		if reg == x86.RSP {
			u.how = stackLea
		} else if reg == x86.RBP {
			u.how = stackLeaRBP
		}
	case op < 0x40 && op&7 < 4 && op>>3 != 7 && direct && (op&2 == 0 && rm == x86.RSP || op&2 != 0 && reg == x86.RSP):
		u.how = stackLost
	}
	return u
}

// add is for pushes and pops, whose memory operand, if there is one, stays one.
func (u *stackUse) add(n int32) {
	if u.base != 0 && u.disp != 0 {
		u.how = stackLost // push of a word by RSP: rare enough
		return
	}
	u.how, u.disp = stackAdds, n
}

// immediate is for add, sub, cmp and others of RSP.
func (u *stackUse) immediate(in *x86.Inst, code []byte) {
	n := int32(int8(in.Imm8))
	if in.ImmSize == 4 {
		n = int32(le32(code[in.ImmOff:]))
	}
	switch in.ModRM >> 3 & 7 {
	case 0:
		u.how, u.disp = stackAdds, -n
	case 5:
		u.how, u.disp = stackAdds, n
	case 7:
	default:
		u.how = stackLost
	}
}

// operand finds a memory operand at a distance from RSP or RBP.
func (u *stackUse) operand(in *x86.Inst, code []byte) {
	if !in.HasModRM || in.ModRM >= 0xc0 || in.RIPRel() {
		return
	}
	rm := in.ModRM & 7
	base := rm | in.Rex&x86.RexB<<3
	if rm == 4 {
		sib := code[in.ModRMOff+1]
		if sib&7 == 5 && in.ModRM < 0x40 {
			return
		}
		base, u.any = sib&7|in.Rex&x86.RexB<<3, sib>>3&7 != 4 || in.Rex&x86.RexX != 0
	}
	if base != x86.RSP && base != x86.RBP {
		return
	}
	u.base = base
	switch in.DispSize {
	case 1:
		u.disp = int32(int8(code[in.DispOff]))
	case 4:
		u.disp = int32(le32(code[in.DispOff:]))
	}
}

// moved is where RSP and RBP are behind an instruction.
func (st *step) moved() (depth, frame int32) {
	depth, frame = st.depth, st.frame
	plus := func(depth, n int32) int32 {
		if depth == unknownDepth {
			return depth
		}
		return depth + n
	}
	address := func() int32 {
		switch {
		case st.stack.base == x86.RSP && !st.stack.any:
			return plus(st.depth, -st.stack.disp)
		case st.stack.base == x86.RBP && !st.stack.any:
			return plus(st.frame, -st.stack.disp)
		}
		return unknownDepth
	}
	switch st.stack.how {
	case stackAdds:
		return plus(depth, st.stack.disp), frame
	case stackPopRBP:
		return plus(depth, -8), unknownDepth
	case stackLeave:
		return plus(frame, -8), unknownDepth
	case stackToRBP:
		return depth, depth
	case stackFromRBP:
		return frame, frame
	case stackLea:
		return address(), frame
	case stackLeaRBP:
		return depth, address()
	case stackLost:
		return unknownDepth, frame
	case frameLost:
		return depth, unknownDepth
	}
	return depth, frame
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// stackWords is how many words above its return address the function uses, as far
// as its instructions tell: emit.ManyWords if one takes an address there.
func (f *flow) stackWords() int {
	const word, most = 8, 120
	words := 0
	for k := range f.list {
		st := &f.list[k]
		u, depth := &st.stack, st.depth
		if u.how == stackCopied && depth == 0 {
			return emit.ManyWords // by the copy it may get there
		}
		if u.base == x86.RBP {
			depth = st.frame
		}
		if u.base == 0 || depth == unknownDepth || u.disp-depth < word || u.how == stackAdds || u.how == stackLea {
			continue
		}
		if u.any || u.lea || u.disp-depth > most*word {
			return emit.ManyWords
		}
		size := int32(16) // the most that one instruction reads
		if (st.Read.V|st.Written.V)>>16 != 0 {
			size = 64
		}
		words = max(words, int(u.disp-depth+size-1)/word)
	}
	return words
}
