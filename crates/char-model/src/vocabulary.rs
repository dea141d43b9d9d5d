//! Characters and their tokens.

use std::collections::{BTreeSet, HashMap};

use crate::error::Error;

/// A larger vocabulary would make the embedding most of the model.
const LARGEST: usize = 1 << 16;

/// The distinct characters of a text in order. A token is an index into them.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    characters: Vec<char>,
    tokens: HashMap<char, i32>,
}

impl Vocabulary {
    /// The distinct characters of a text, sorted.
    pub fn of(text: &str) -> Result<Self, Error> {
        let distinct: BTreeSet<char> = text.chars().collect();
        Self::new(distinct.into_iter().collect())
    }

    /// At least two distinct characters, in order.
    pub fn new(characters: Vec<char>) -> Result<Self, Error> {
        match characters[..] {
            [] => return Err(Error::EmptyText),
            [only] => return Err(Error::SingleCharacter(only)),
            _ if characters.len() > LARGEST => {
                return Err(Error::TooManyCharacters {
                    found: characters.len(),
                    largest: LARGEST,
                });
            }
            _ => {}
        }
        let mut tokens = HashMap::new();
        for (token, &character) in (0..).zip(&characters) {
            if tokens.insert(character, token).is_some() {
                return Err(Error::RepeatedCharacter(character));
            }
        }
        Ok(Self { characters, tokens })
    }

    /// V.
    #[allow(clippy::len_without_is_empty)] // It never is.
    pub fn len(&self) -> usize {
        self.characters.len()
    }

    /// The token of a character.
    pub fn token(&self, character: char) -> Option<i32> {
        self.tokens.get(&character).copied()
    }

    /// The tokens of `text`, or its unknown characters.
    pub fn encode(&self, text: &str) -> Result<Vec<i32>, Error> {
        let mut unknown: Vec<char> = text.chars().filter(|&c| self.token(c).is_none()).collect();
        if unknown.is_empty() {
            return Ok(text.chars().filter_map(|c| self.token(c)).collect());
        }
        unknown.sort_unstable();
        unknown.dedup();
        Err(Error::UnknownCharacters(unknown))
    }

    /// The character of a token.
    pub fn character(&self, token: usize) -> char {
        self.characters[token]
    }

    /// All characters in the order of their tokens.
    pub fn characters(&self) -> String {
        self.characters.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ranks() {
        let vocabulary = Vocabulary::new("abé".chars().collect()).unwrap();
        assert_eq!(vocabulary.encode("éab").unwrap(), [2, 0, 1]);
        assert_eq!(vocabulary.character(2), 'é');
        assert_eq!(vocabulary.characters(), "abé");
    }

    #[test]
    fn unknown_characters_are_named_once() {
        let vocabulary = Vocabulary::new("ab".chars().collect()).unwrap();
        let error = vocabulary.encode("azbzq").unwrap_err().to_string();
        assert!(error.contains("'q', 'z'"), "{error}");
    }

    /// A model file may have any list.
    #[test]
    fn a_repeated_character_is_an_error() {
        let repeated = Vocabulary::new("abca".chars().collect());
        assert!(matches!(repeated, Err(Error::RepeatedCharacter('a'))));
    }

    #[test]
    fn one_character_is_an_error() {
        assert!(matches!(Vocabulary::new(vec![]), Err(Error::EmptyText)));
        let one = Vocabulary::new(vec!['a']);
        assert!(matches!(one, Err(Error::SingleCharacter('a'))));
        assert!(matches!(
            Vocabulary::of("aaa"),
            Err(Error::SingleCharacter('a'))
        ));
        assert!(matches!(Vocabulary::of(""), Err(Error::EmptyText)));
        let many = (0..=LARGEST as u32)
            .filter_map(char::from_u32)
            .collect::<Vec<_>>();
        let many: Vec<char> = many.into_iter().chain('\u{20000}'..'\u{21000}').collect();
        assert!(matches!(
            Vocabulary::new(many),
            Err(Error::TooManyCharacters { .. })
        ));
    }
}
