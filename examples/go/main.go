// Command go is a translator in Go, built as a plug-in (-buildmode=c-shared). It
// translates the functions that can be moved as they are, and runs them elsewhere.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../libdynprof
#include <dynprof.h>

void goHot(struct dynprof_event *event, void *user);

// Go cannot call through C's function pointers itself.
static int registers(const struct dynprof_api *d, uint64_t calls) {
	return d->register_translator((dynprof_translator *)goHot, calls, DYNPROF_ASYNCHRONOUS, 0);
}
static int redirects(const struct dynprof_api *d, int64_t function, uintptr_t code) {
	return d->redirect(function, (const void *)code, DYNPROF_COUNTED | DYNPROF_RAW); // a copy changes no other registers
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"unsafe"
)

const calls = 1000 // where the run gives no threshold

var (
	dynprof *C.struct_dynprof_api
	verbose = os.Getenv("GO_TRANSLATOR_VERBOSE") != ""
)

//export dynprof_plugin_init
func dynprof_plugin_init(api *C.struct_dynprof_api) C.int {
	dynprof = api
	if uintptr(api.size) < unsafe.Sizeof(*api) {
		return 1
	}
	return C.registers(api, calls)
}

// goHot runs on the thread dynprof-events. A panic would end the program.
//
//export goHot
func goHot(e *C.struct_dynprof_event, _ unsafe.Pointer) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "go translator: %v\n%s", r, debug.Stack())
		}
	}()
	if e.code == nil {
		return
	}
	// code is valid until this returns: whoever keeps it copies it.
	err := translate(int64(e.function), unsafe.Slice((*byte)(e.code), e.bytes))
	if verbose {
		fmt.Fprintf(os.Stderr, "go translator: %s, %d bytes, %d calls: %s\n", C.GoString(e.name), e.bytes, e.calls, said(err))
	}
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "translated"
}

// translate moves a function. Its pages are never given back: a thread may be in
// them at any time.
func translate(function int64, code []byte) error {
	if err := movable(code); err != nil {
		return err
	}
	at, err := syscall.Mmap(-1, 0, len(code), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	copy(at, code)
	if err := syscall.Mprotect(at, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
		return err
	}
	if e := C.redirects(dynprof, C.int64_t(function), C.uintptr_t(uintptr(unsafe.Pointer(&at[0])))); e != 0 {
		return syscall.Errno(-e)
	}
	return nil
}

func main() {}
