//! A look at a pickle before the reader joins the names in it and copies its objects.
//!
//! Source: CPython's `pickletools.py`.

use gru_op::files::Limit;

/// Texts and tuples of more bytes are long.
const LONG: u64 = 4096;
/// How many pickles a file before PyTorch 1.6 has.
const PICKLES: usize = 5;

/// Returns an error if the reader might need much more memory than the file. Each array and each reference to an object
/// could contain a copy of all long texts and tuples.
pub fn check(mut rest: &[u8], mut limit: Limit) -> Result<(), String> {
    let (mut copies, mut long, mut run, mut ends) = (0u64, 0u64, 0u64, 0);
    while let Some((&code, after)) = rest.split_first() {
        // The bytes of an argument, or of its length.
        let (width, is_length) = match code {
            b'K' | b'h' | b'q' | 0x80 => (1, false),
            b'M' => (2, false),
            b'J' | b'j' | b'r' => (4, false),
            b'G' | 0x95 => (8, false),
            b'U' | b'C' | 0x8a | 0x8c => (1, true),
            b'T' | b'X' | b'B' | 0x8b => (4, true),
            0x8d | 0x8e | 0x96 => (8, true),
            _ => (0, false),
        };
        let lines = match code {
            b'c' | b'i' => 2,
            b'I' | b'L' | b'F' | b'S' | b'V' | b'P' | b'g' | b'p' => 1,
            _ => 0,
        };
        let Some((argument, mut after)) = after.split_at_checked(width) else {
            break;
        };
        let mut size = 0;
        if is_length {
            let byte = |length, &byte| length << 8 | u64::from(byte);
            size = argument.iter().rev().fold(0, byte).min(after.len() as u64);
            after = &after[size as usize..];
        }
        for _ in 0..lines {
            let end = after.iter().position(|&byte| byte == b'\n');
            let end = end.map_or(after.len(), |end| end + 1);
            size += end as u64;
            after = &after[end..];
        }
        // Integers in a row may be the sizes of an array.
        run = match code {
            b'K' | b'M' | b'J' | b'I' | b'L' | 0x8a => run + 8,
            b'q' | b'r' | b'p' | 0x94 => run,
            _ => 0,
        };
        for size in [size, run] {
            long += if size > LONG { size } else { 0 };
        }
        copies += u64::from(matches!(
            code,
            b'R' | b'h' | b'j' | b'g' | b'2' | b'q' | b'r' | b'p' | 0x94
        ));
        ends += usize::from(code == b'.');
        if ends == PICKLES {
            break;
        }
        rest = after;
    }
    let names = "expected short names in the pickle";
    limit
        .claim(copies.saturating_mul(long))
        .map_err(|reason| format!("{names}: {reason}"))
}
