//! Letters and phonemes in the order of the weights.

/// The token of an unknown letter.
const UNKNOWN: i32 = 1;
/// The token at the end of the letters: `</s>`.
pub const END_OF_LETTERS: i32 = 2;
/// The number of letters, including `<pad>`, `<unk>` and `</s>`.
pub const LETTERS: usize = 29;

/// The token at the start of the phonemes: `<s>`.
pub const START: i32 = 2;
/// The token at the end of the phonemes: `</s>`.
pub const END: i32 = 3;

/// The ARPABET phonemes with their stress, in the order of the weights.
pub const PHONEMES: [&str; 74] = [
    "<pad>", "<unk>", "<s>", "</s>", "AA0", "AA1", "AA2", "AE0", "AE1", "AE2", "AH0", "AH1", "AH2",
    "AO0", "AO1", "AO2", "AW0", "AW1", "AW2", "AY0", "AY1", "AY2", "B", "CH", "D", "DH", "EH0",
    "EH1", "EH2", "ER0", "ER1", "ER2", "EY0", "EY1", "EY2", "F", "G", "HH", "IH0", "IH1", "IH2",
    "IY0", "IY1", "IY2", "JH", "K", "L", "M", "N", "NG", "OW0", "OW1", "OW2", "OY0", "OY1", "OY2",
    "P", "R", "S", "SH", "T", "TH", "UH0", "UH1", "UH2", "UW", "UW0", "UW1", "UW2", "V", "W", "Y",
    "Z", "ZH",
];

/// The letters of a word for the encoder: a to z, `<unk>` for all others, then `</s>`.
pub fn letters(word: &str) -> Vec<i32> {
    let letter = |c: char| match c {
        'a'..='z' => 3 + (c as i32 - 'a' as i32),
        _ => UNKNOWN,
    };
    word.chars().map(letter).chain([END_OF_LETTERS]).collect()
}
