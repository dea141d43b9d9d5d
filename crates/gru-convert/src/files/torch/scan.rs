//! A look at a pickle before the reader joins the names in it, copies its objects and reads its arrays.
//!
//! Source: CPython's `pickletools.py`.

use gru_op::files::Limit;
use std::mem;

/// Names and tuples of more bytes are long.
const LONG: u64 = 4096;
/// An array has fewer sizes than this.
const ENTRIES: usize = 64;
/// How many pickles a file before PyTorch 1.6 has.
const PICKLES: usize = 5;

/// Returns an error if the reader might need much more memory or time than the file. Each array and each reference to an
/// object could contain a copy of all long names and tuples. An array is read from its first to its last number.
pub fn check(mut rest: &[u8], limit: &Limit) -> Result<(), String> {
    let (mut copies, mut long, mut text, mut run, mut ends) = (0u64, 0u64, 0u64, 0u64, 0);
    let (mut numbers, mut tuples, mut reads) = (Vec::new(), Vec::<Vec<u64>>::new(), 0u64);
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
        let byte = |number, &byte| number << 8 | u64::from(byte);
        let number = argument.iter().rev().fold(0, byte);
        let mut size = 0;
        if is_length {
            size = number.min(after.len() as u64);
            after = &after[size as usize..];
        }
        // After its storage, an array has an offset and tuples of sizes and strides.
        match code {
            b'K' | b'M' | b'J' if numbers.len() < ENTRIES => numbers.push(number),
            b'Q' => (numbers, tuples) = (vec![], vec![]),
            b't' | 0x85..=0x87 if tuples.len() < 3 => tuples.push(mem::take(&mut numbers)),
            b'R' => {
                if let [sizes, strides] = &tuples[..] {
                    let steps = sizes.iter().skip(1).zip(strides);
                    let steps =
                        steps.map(|(size, stride)| size.saturating_sub(1).saturating_mul(*stride));
                    reads = steps.fold(reads, u64::saturating_add);
                }
                tuples.clear();
            }
            _ => {}
        }
        for _ in 0..lines {
            let end = after.iter().position(|&byte| byte == b'\n');
            let end = end.map_or(after.len(), |end| end + 1);
            size += end as u64;
            after = &after[end..];
        }
        match code {
            // The memo.
            b'q' | b'r' | b'p' | 0x94 => {}
            // A text before one of these is a name. Integers in a tuple may be the sizes of an array.
            b'}' | b']' | b')' | b'(' | b'c' | b'h' | b'j' | b'N' | b'G' | b'B' | b'C' | b't'
            | 0x88 | 0x89 => {
                let size = match code {
                    b't' => 8 * run,
                    b'c' => text.max(size),
                    _ => text,
                };
                long += if size > LONG { size } else { 0 };
                (text, run) = (0, 0);
            }
            b'K' | b'M' | b'J' | b'I' | b'L' | 0x8a => run += 1,
            b'X' | b'T' | b'U' | b'V' | 0x8c | 0x8d => text = size,
            _ => (text, run) = (0, 0),
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
    let memory = limit.clone().claim(copies.saturating_mul(long));
    memory.map_err(|reason| format!("expected short names in the pickle: {reason}"))?;
    // Numbers have 8 bytes at most.
    let time = limit.clone().claim(reads.saturating_mul(8));
    time.map_err(|reason| format!("expected arrays with small strides: {reason}"))
}
