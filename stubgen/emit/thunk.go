package emit

import (
	"encoding/binary"

	"github.com/dynprof/dynprof/internal/x86"
	"github.com/dynprof/dynprof/stubgen"
)

const (
	opMovEAX    = 0xb8
	movSize     = 5 // of mov $NR,%eax
	syscallSize = 2
)

// ThunkSize is the most room that EmitThunk takes.
const ThunkSize = 64

// EmitThunk writes what a kernel site jumps to instead of its own setup; slow is
// dp_kernel_site of libdynprof/resident/sites/slowpath.S, which tells the rest.
//
//	        <setup>
//	        lea   pass(%rip), %rcx
//	        jmp   *literal
//	        .quad <behind the original syscall>
//	pass:   syscall
//	        lea   <behind the original syscall>(%rip), %rcx    ; what it leaves there
//	        <behind>
//	        jmp   <what follows>
//	literal: <slow>
func EmitThunk(o *stubgen.Object, site stubgen.KernelSite, dst []byte, at x86.RunAddr, slow uint64) error {
	var a x86.Asm
	a.Reset(dst, at)
	pass, l := a.NewLabel(), a.NewLabel()
	home := o.Run(site.Addr).Add(len(site.Setup) + syscallSize)
	a.Copy([]byte(site.Setup))
	a.LeaRCX(pass)
	a.JmpMem(l)
	a.Quad(uint64(home))
	a.Bind(pass)
	a.Syscall()
	a.LeaRCXTo(home)
	a.Copy([]byte(site.Behind))
	a.JmpTo(o.Run(site.End()))
	quad(&a, l, slow)
	return a.Finish()
}

// EmitTransferThunk writes what a system call's result is compared behind; slow is
// dp_transfer_site of libdynprof/resident/sites/slowpath.S.
//
//	        lea   pass(%rip), %rcx
//	        jmp   *literal
//	        .quad <number of the system call>
//	        .quad <behind the system call>
//	pass:   lea   <behind the system call>(%rip), %rcx    ; what it leaves there
//	        <the comparison>
//	        jmp   <what follows>
//	literal: <slow>
//
// It takes ThunkSize bytes at most.
func EmitTransferThunk(o *stubgen.Object, t stubgen.Transfer, dst []byte, at x86.RunAddr, slow uint64) error {
	var a x86.Asm
	a.Reset(dst, at)
	pass, l := a.NewLabel(), a.NewLabel()
	home := o.Run(t.Addr)
	a.LeaRCX(pass)
	a.JmpMem(l)
	a.Quad(uint64(t.Number))
	a.Quad(uint64(home))
	a.Bind(pass)
	a.LeaRCXTo(home)
	a.Copy([]byte(t.Compares))
	a.JmpTo(o.Run(t.End()))
	quad(&a, l, slow)
	return a.Finish()
}

// EmitSignalThunk writes what a signal site jumps to instead of loading its
// system call number; slow is dp_signal_site of libdynprof/resident/sites/slowpath.S. The
// system call itself stays where it is, and %rcx leads behind it: unwinders
// take that for the return address.
//
//	        mov   $NR, %eax
//	        <what stands in front of the system call>
//	        lea   <behind the system call>(%rip), %rcx
//	        jmp   *literal
//	literal: <slow>
//
// It takes ThunkSize bytes at most.
func EmitSignalThunk(o *stubgen.Object, site stubgen.SignalSite, dst []byte, at x86.RunAddr, slow uint64) error {
	var a x86.Asm
	a.Reset(dst, at)
	l := a.NewLabel()
	a.Copy(binary.LittleEndian.AppendUint32([]byte{opMovEAX}, site.NR))
	r := relocator{asm: &a, obj: o}
	var in x86.Inst
	for pc := site.Addr + movSize; pc < site.Syscall(); pc += uint64(in.Len) {
		code := o.Code(pc)
		x86.DecodeAgain(code, &in)
		r.one(&in, code[:in.Len], pc)
	}
	a.LeaRCXTo(o.Run(site.End()))
	a.JmpMem(l)
	quad(&a, l, slow)
	return a.Finish()
}
