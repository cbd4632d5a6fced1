//! A translator in Rust, built as a plug-in: `rustc --crate-type cdylib`. It says when
//! functions have 1000 calls, 10,000, 100,000 and so on: each is armed again.
//!
//! libdynprof/dynprof.h by hand: every struct begins with its size and grows at its
//! end, so members behind the last one that is used may be left out.

use std::ffi::{c_void, CStr};
use std::io::Write;
use std::os::raw::{c_char, c_int};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicPtr, Ordering};

#[repr(C)]
pub struct Event {
    size: u32,
    synchronous: u32,
    function: i64,
    name: *const c_char,
    object: *const c_char,
    build_id: *const c_char,
    entry: *const c_void,
    bytes: u64,
    code: *const u8, // null: no memory
    calls: u64,
    original: *const c_void,
    pid: u32,
    tid: u32,
}

type Translator = extern "C" fn(*const Event, *mut c_void);

#[repr(C)]
pub struct Api {
    size: u32,
    version: u32,
    register_translator: extern "C" fn(Translator, u64, c_int, *mut c_void) -> c_int,
    redirect: extern "C" fn(i64, *const c_void, c_int) -> c_int,
    restore: extern "C" fn(i64) -> c_int,
    rearm: extern "C" fn(i64, u64) -> c_int,
    original: extern "C" fn(i64) -> *const c_void,
    find: extern "C" fn(*const c_char, *const c_char) -> i64,
    find_address: extern "C" fn(*const c_void) -> i64,
    calls_of: extern "C" fn(i64) -> i64,
}

const ASYNCHRONOUS: c_int = 0;
const FIRST: u64 = 1000;

static DYNPROF: AtomicPtr<Api> = AtomicPtr::new(std::ptr::null_mut());

/// Runs on the thread dynprof-events. A panic must not leave it.
extern "C" fn hot(event: *const Event, _: *mut c_void) {
    let _ = catch_unwind(|| {
        // Both are valid: the event until this returns, the table for ever.
        let (event, dynprof) = unsafe { (&*event, &*DYNPROF.load(Ordering::Acquire)) };
        let name = unsafe { CStr::from_ptr(event.name) }.to_string_lossy();
        if !name.is_empty() {
            let line = format!("{} calls of {}\n", event.calls, name);
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        // The program has gone on meanwhile.
        let calls = (dynprof.calls_of)(event.function).max(0) as u64;
        if let Some(next) = (0..17).map(|n| FIRST * 10u64.pow(n)).find(|&n| n > calls) {
            (dynprof.rearm)(event.function, next - calls);
        }
    });
}

#[no_mangle]
pub extern "C" fn dynprof_plugin_init(api: *const Api) -> c_int {
    let dynprof = unsafe { &*api };
    if (dynprof.size as usize) < std::mem::size_of::<Api>() {
        return 1;
    }
    DYNPROF.store(api as *mut Api, Ordering::Release);
    (dynprof.register_translator)(hot, FIRST, ASYNCHRONOUS, std::ptr::null_mut())
}
