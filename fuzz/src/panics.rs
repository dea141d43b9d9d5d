//! Distinguishes documented panics from all others.

use std::{cell::Cell, panic, sync::Once};

thread_local! {
    static ANNOUNCED: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
}

/// Runs `f`, which may panic with a message that contains one of `announced`. Then there is no result.
/// Any other panic, on any thread, is a crash.
pub fn announced<R>(announced: &'static [&'static str], f: impl FnOnce() -> R) -> Option<R> {
    static HOOK: Once = Once::new();
    // libFuzzer's hook turns every panic into a crash, so this hook calls it second.
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
