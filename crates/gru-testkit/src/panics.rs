//! Calls that must panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The text of the panic of a call.
///
/// # Errors
/// If the call returns, or its panic has no text.
pub fn panic_text<R>(call: impl FnOnce() -> R) -> Result<String, String> {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else {
        return Err("expected a panic, got a result".into());
    };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .ok_or_else(|| "expected a panic with a text".into())
}

/// Returns an error unless a call panics with a text that contains `says`.
///
/// # Errors
/// As [`panic_text`], or if the text does not contain `says`.
pub fn panics<R>(call: impl FnOnce() -> R, says: &str) -> Result<(), String> {
    let text = panic_text(call)?;
    if text.contains(says) {
        Ok(())
    } else {
        Err(format!("expected a panic that says {says:?}, got {text:?}"))
    }
}
