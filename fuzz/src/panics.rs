//! Panics that the documentation announces, told from all others.

use std::{cell::Cell, panic, sync::Once};

thread_local! {
    static ANNOUNCED: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
}

/// Runs `f`, which may panic with a message that contains one of `announced`; there is no result
/// then. Any other panic, on any thread, is a crash.
pub fn announced<R>(announced: &'static [&'static str], f: impl FnOnce() -> R) -> Option<R> {
    static HOOK: Once = Once::new();
    // The hook that libFuzzer brings makes every panic a crash: it is asked second.
    HOOK.call_once(|| {
        let crash = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let message = info.payload_as_str().unwrap_or_default();
            if !ANNOUNCED.get().iter().any(|part| message.contains(part)) {
                crash(info);
            }
        }));
    });
    ANNOUNCED.set(announced);
    let result = panic::catch_unwind(panic::AssertUnwindSafe(f));
    ANNOUNCED.set(&[]);
    result.ok()
}
